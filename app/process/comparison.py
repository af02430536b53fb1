"""Replies of several proposers to one prompt, made in turn, block by block, so that changes in the machine's
speed affect all of them alike.

They share the target's one context, as a second may not fit. The reply with the fewest tokens makes the next
block: where the texts are the same, the cache already holds what it follows, and only a cut is needed. Where
texts differ, or memory cannot be cut, what a block follows is read again. That does not count as decoding
time, and the block lasts longer to make up for it.

Each reply has an engine of its own, whose random stream goes on over all its blocks.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from app.engine.events import Event, Finished, Pass, Prefill, ProposerDropped, Request
from app.engine.loop import Engine
from app.llama.context import Interrupted
from app.process.events import Compared, ComparisonProgress, Divergence

# A block has at least so many passes, lasts so many seconds, and so many times what switching to it took: the
# first pass after another reply's is slower.
_PASSES, _SECONDS, _SHARE = 8, 0.25, 4.0
# Seconds between two events about the same reply.
_TOLD = 0.2


@dataclass(slots=True)
class _Reply:
    """One proposer's reply. seconds: of decoding. text: not delivered yet."""

    proposer: str
    engine: Engine
    events: Iterator[Event]
    begun: bool = False
    tokens: list[int] = field(default_factory=list)
    drafted: int = 0
    seconds: float = 0.0
    text: str = ""
    told: bool = False
    finished: Finished | None = None
    problem: str | None = None


class BlockwiseComparison:
    """Makes the replies and compares each with the first."""

    def __init__(
        self,
        identity: int,
        engine: Engine,
        replies: Mapping[str, Engine],
        request: Request,
        drop: Callable[[ProposerDropped], str],
    ) -> None:
        """engine: the one that used the target before, and will again. replies: its twins by proposer. drop:
        says what became of a proposer that failed."""
        self._identity = identity
        self._engine = self._last = engine
        self._request = request
        self._drop = drop
        self._replies = [_Reply(name, each, each.generate(request)) for name, each in replies.items()]
        self._started: float | None = None
        self._sent = 0.0

    def run(self) -> Iterator[Prefill | ComparisonProgress | Compared]:
        """Each reply's progress, and its result once it can be compared with the first. When the target's
        `stop` ends it, what there is of each counts as its reply.

        Raises ContextError where the prompt does not fit, and SpecchatError where the target fails.
        """
        stop = self._engine.target.stop
        try:
            while (open_replies := self._open_replies()) and not stop():
                yield from self._block(min(open_replies, key=lambda reply: len(reply.tokens)))
                yield from self._compared()
            for reply in self._open_replies():
                if reply.begun:
                    self._close(reply)
            yield from self._compared()
        finally:
            self._engine.take_cache(self._last)

    def _open_replies(self) -> list[_Reply]:
        return [reply for reply in self._replies if reply.finished is None and reply.problem is None]

    def _block(self, reply: _Reply) -> Iterator[Prefill | ComparisonProgress]:
        began = time.perf_counter()
        try:
            dropped = self._switch(reply)
        except Interrupted:
            return
        for each in dropped:
            self._dropped(reply, each)
        if reply.problem is not None:
            return
        least = reply.seconds + max(_SECONDS, _SHARE * (time.perf_counter() - began))
        passes = 0
        for event in reply.events:
            if isinstance(event, Pass):
                passes += 1
                self._started = self._started or time.perf_counter() - event.seconds
                reply.tokens += event.tokens
                reply.drafted += len(event.drafted)
                reply.seconds += event.seconds
                reply.text += event.text
            elif isinstance(event, Prefill):
                yield event
            elif isinstance(event, ProposerDropped):
                self._dropped(reply, event)
            else:
                reply.finished = event
            over = reply.problem or (passes >= _PASSES and reply.seconds >= least)
            now = time.perf_counter()
            if over or reply.finished or now - self._sent >= _TOLD:
                self._sent = now
                yield self._progress(reply)
            if over:
                return

    def _switch(self, reply: _Reply) -> Sequence[ProposerDropped]:
        """Bring the target to where a reply goes on. Raises Interrupted."""
        last, self._last = self._last, reply.engine
        if reply.begun and last is not reply.engine:
            return reply.engine.resume(last)
        if not reply.begun:
            reply.begun = True
            reply.engine.take_cache(last)
        return ()

    def _dropped(self, reply: _Reply, event: ProposerDropped) -> None:
        """A proposer failed. Its own reply ends: the rest would be plain decoding."""
        sentence = self._drop(event)
        if event.proposer == reply.proposer:
            reply.problem = sentence

    def _progress(self, reply: _Reply) -> ComparisonProgress:
        text, reply.text = reply.text, ""
        return ComparisonProgress(
            self._identity,
            reply.proposer,
            text,
            len(reply.tokens),
            reply.drafted,
            reply.seconds,
            self._seconds_left(),
        )

    def _seconds_left(self) -> float | None:
        """At each reply's own speed; those that have not begun count as fast as the others."""
        tokens = sum(len(reply.tokens) for reply in self._replies)
        seconds = sum(reply.seconds for reply in self._replies)
        if self._started is None or not tokens or not seconds:
            return None
        # Where one has ended, most others will.
        ends = [
            len(each.tokens) for each in self._replies if each.finished and each.finished.reason == "stop"
        ]
        longest = min([self._request.max_tokens, *ends])
        left = 0.0
        for reply in self._open_replies():
            seconds_each = reply.seconds / len(reply.tokens) if reply.tokens else seconds / tokens
            left += max(0, longest - len(reply.tokens)) * seconds_each
        return left * (time.perf_counter() - self._started) / seconds

    def _close(self, reply: _Reply) -> None:
        """End a reply where it is."""
        for event in reply.events:
            if isinstance(event, Finished):
                reply.finished = event

    def _compared(self) -> Iterator[Compared]:
        """Results that can be told now."""
        first = next((reply for reply in self._replies if reply.problem is None), None)
        for reply in self._replies:
            if reply.told:
                continue
            if reply.problem is not None:
                reply.told = True
                yield Compared(self._identity, reply.proposer, None, None, reply.problem)
            elif first and first.finished and reply.finished and reply.finished.token_ids:
                reply.told = True
                engine, last = self._engine, self._last
                engine.take_cache(last)
                self._last = engine
                differs = divergence(engine, self._request.prompt, first.finished, reply.finished)
                yield Compared(self._identity, reply.proposer, reply.finished, differs, None)


def divergence(engine: Engine, prompt: Sequence[int], first: Finished, this: Finished) -> Divergence | None:
    """Where two replies to a prompt differ, and how close the target's choice was there, which costs a pass.

    None where the ids are the same, up to where one was stopped. engine: the last to use the target.
    """
    one, other = first.token_ids, this.token_ids
    shorter = min(len(one), len(other))
    position = next((index for index in range(shorter) if one[index] != other[index]), shorter)
    if position == len(one) == len(other):
        return None
    ended = position == shorter
    if ended and "cancelled" in (first.reason, this.reason):
        return None
    gap = None
    if not ended:
        with contextlib.suppress(Interrupted):
            row = engine.logits_after((*prompt, *one[:position]))
            gap = float(row[one[position]]) - float(row[other[position]])
    return Divergence(position, _text(engine, one, position), _text(engine, other, position), gap)


def _text(engine: Engine, tokens: Sequence[int], position: int) -> str:
    """The text of one token, with control tokens spelt out; "" after the end."""
    if position >= len(tokens):
        return ""
    return engine.target.model.piece(tokens[position], special=True).decode("utf-8", "replace")
