"""The loop: propose, verify in one pass of the target, commit, roll back.

    proposal = proposer.propose(history, k)
    rows     = target.forward(last token + proposal)
    commit   = verify(proposal, rows)
    target.rollback(); proposer.observe(history)

The cache always holds the history less its last token, which the next pass begins with; so every
token of a reply comes out of a pass, and the first pass can already be speculated.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from app.engine.calibration import calibrate
from app.engine.control import LONGEST, Controller, Option
from app.engine.costs import Measured
from app.engine.events import Dropped, Event, FinishReason, Pass, Pause, Prefill, Request, Value
from app.engine.faults import FAULTS, Lost
from app.engine.pace import ENOUGH, PlainPace
from app.engine.reply import Reply
from app.engine.sampling import Sampler
from app.engine.statistics import Statistics
from app.engine.thread_choice import ThreadChoice
from app.engine.verify import Rule, block_rule, match_rule, verify_sampled
from app.errors import ContextError
from app.llama.context import Context, Interrupted
from proposers.base import NOTHING, Distribution, Proposal, Proposer
from proposers.off import Off

# Widths at which what an earlier run measured is checked.
CHECKED = (2, 8)
# Where memory is copied a prompt's last tokens are read apart: the next prompt may share all but these, since
# templates drop thoughts, and how the answer was begun with them.
_TAIL = 16
# Seconds of calibration before a reply.
_LEAST_CALIBRATION, _MOST_CALIBRATION = 0.05, 0.5


class Engine:
    """One conversation's target, its cache, and the proposers that are on now."""

    def __init__(
        self,
        target: Context,
        proposers: Sequence[Proposer],
        controller: Controller,
        rule: Rule = block_rule,
    ) -> None:
        self.target = target
        # At least one; where there are several, the controller chooses one for each pass.
        self.proposers = tuple(proposers)
        self.controller = controller
        # Where no number was asked for: how many threads the passes get.
        self.threads: ThreadChoice | None = None
        # A fixed draft length; None lets the controller choose.
        self.k: int | None = None
        self.rule = rule
        # What plain decoding would have taken for the reply so far.
        self.pace = PlainPace()
        # Its first target.length tokens are in the cache, always.
        self._history: list[int] = []

    @property
    def cached(self) -> Sequence[int]:
        """The tokens in the target's cache."""
        return self._history[: self.target.length]

    def twin(self, proposers: Sequence[Proposer]) -> Engine:
        """An engine for a reply of its own on the same target, by twins of these proposers, which begins with
        what this one has learned. Whichever goes on after another is told so by `take_over` or `resume`."""
        twin = Engine(self.target, [each.twin() for each in proposers], deepcopy(self.controller), self.rule)
        twin.threads = self.threads
        return twin

    def take_over(self, other: Engine) -> None:
        """Another engine was the last to use the target: what its cache holds may be of use to the next
        reply."""
        self._history = list(other.cached)

    def resume(self, other: Engine) -> tuple[Dropped, ...]:
        """Another engine was the last to use the target: go on with a reply that was left between two passes,
        without proposers that fail at that. What the cache does not hold any more is read again.

        Raises Interrupted.
        """
        target, committed = self.target, self._history[:-1]
        shared = target.rewind(_common_prefix(other.cached, committed))
        target.patience = self.controller.patience
        if shared < len(committed):
            target.forward(committed[shared:], rows=0)
        dropped = []
        for proposer in self.proposers:
            try:
                proposer.resume(self._history)
                self._catch_up(proposer)
            except FAULTS as fault:
                dropped.append(self._drop(Lost.of(proposer, fault)))
        return tuple(dropped)

    def calibrate(self, tokens: Sequence[int], budget: float = 0.25) -> Measured:
        """Measure what passes cost here and now, see calibration.py, and let the controller know.

        What an earlier run measured at this depth is only checked, unless it no longer holds.
        """
        target, controller = self.target, self.controller
        ends = time.perf_counter() + budget
        widths: Sequence[int] = controller.unmeasured(target.length, budget) or CHECKED
        measured = calibrate(target, tokens, widths, budget)
        controller.calibrate(measured)
        rest = ends - time.perf_counter()
        left = [width for width in controller.unmeasured(target.length, rest) if width not in widths]
        if left:
            # What was remembered is not of this machine as it is today.
            again = calibrate(target, tokens, left, rest)
            controller.calibrate(again)
            measured = replace(again, seconds={**measured.seconds, **again.seconds})
        return measured

    def generate(self, request: Request) -> Iterator[Event]:
        """Answer a prompt. Yields Prefill, then a Pass for each pass, then one Finished; between them Dropped
        for each proposer that failed, which is then taken out of `self.proposers`.

        `self.proposers` and `self.k` may be replaced between any two events. Closing the iterator early
        leaves the cache equal to what was committed.

        Raises ContextError where the prompt leaves no room for a pass, before anything is done.
        """
        target = self.target
        length = len(request.prompt)
        if length == 0:
            raise ValueError("a prompt has at least one token")
        if length > target.capacity:
            raise ContextError(
                f"The prompt has {length:,} tokens and the context holds {target.capacity:,}: shorten it, "
                f"or give --ctx {_rounded(length + request.max_tokens)} "
                f"(this model was trained with {target.model.context_trained:,})."
            )
        model = target.model
        reply = Reply(model.piece, model.end_tokens, request.stop, request.max_tokens)
        known = _common_prefix(self.cached, request.prompt[:-1])
        shared = target.rewind(known)
        self._history = list(request.prompt)
        self.pace = PlainPace()
        statistics = Statistics(length, shared, request.seed, self.pace)
        for proposer in self.proposers:
            statistics.join(proposer.name)
        self.k = request.k
        reason: FinishReason
        try:
            yield from self._prefill(request, shared, known - shared, statistics)
            yield from self._decode(reply, request, statistics)
            reason = reply.finished or ("cancelled" if target.stop() else "context")
        except Interrupted:
            reason = "cancelled"
        target.keep()
        if self.pace.seconds_per_token() is None and reason != "cancelled":
            for seconds in self._measure_plain():
                self.pace.timed_behind(seconds)
        yield statistics.finish(reason, reply)

    def _prefill(self, request: Request, shared: int, again: int, statistics: Statistics) -> Iterator[Event]:
        """Read the prompt, all but its last token; what the cache holds of it already is kept. again: as
        Prefill has it."""
        prompt = request.prompt
        target = self.target
        started = time.perf_counter()
        total = len(prompt) - 1
        yield Prefill(shared, total, shared, again)
        start = shared
        tail = _TAIL if target.copies else 0
        for end in _ends(shared, total, target.settings.chunk, tail):
            if target.stop():
                raise Interrupted
            target.forward(prompt[start:end], rows=0)
            if end >= total - tail:
                target.keep()
            start = end
            yield Prefill(target.length, total, shared, again)
        drafting = any(proposer.name != "off" for proposer in self.proposers)
        if request.k is None and drafting:
            # A share of what the prompt took; the first time of all as much as it needs to begin with.
            share = (time.perf_counter() - started) / 10 if self.controller.measured else _MOST_CALIBRATION
            budget = max(_LEAST_CALIBRATION, min(_MOST_CALIBRATION, share))
            if self.controller.unmeasured(target.length, budget):
                self.calibrate(prompt[-1:], budget)
        for proposer in self.proposers:
            try:
                proposer.begin(self._history)
                self._catch_up(proposer)
            except FAULTS as fault:
                yield self._drop(Lost.of(proposer, fault))
        statistics.prefill_seconds = time.perf_counter() - started

    def _decode(self, reply: Reply, request: Request, statistics: Statistics) -> Iterator[Event]:
        target = self.target
        history = self._history
        prompt_length = len(history)
        sampler = Sampler(request.sampling)
        rng = np.random.default_rng(request.seed)
        begun = self.proposers
        target.patience = self.controller.patience
        learning = 0.0
        self.controller.begin()
        if self.threads is not None:
            self.threads.begin(time.perf_counter())
        while reply.finished is None and not target.stop():
            room = target.capacity - target.length
            if room < 1:
                return
            started = time.perf_counter()
            # Told when the pass is done: whoever hears of it may stop here.
            dropped: list[Dropped] = []
            target_before = target.seconds
            proposers = self.proposers
            proposers_before = sum(each.model_seconds for each in proposers)
            reading = 0.0
            # Plain decoding alone is not to pay for what nobody asks it.
            drafting = any(each.name != "off" for each in proposers)
            speculating = drafting and (self.k is not None or self.controller.asks())
            pause: Pause | None = "resting" if drafting and not speculating else None
            for each in proposers:
                try:
                    if each not in begun:
                        statistics.join(each.name)
                        each.begin(history)
                        reading += self._catch_up(each)
                    elif speculating and reply.tokens:
                        # One that was not used learns from what it would have proposed.
                        each.observe(history)
                except FAULTS as fault:
                    dropped.append(self._drop(Lost.of(each, fault)))
            begun = self.proposers
            widest = min(room, target.widest)
            limit = min(widest, reply.wanted) - 1
            proposer, proposal = begun[0], NOTHING
            values: tuple[Value, ...] = ()
            try:
                if speculating:
                    proposer, k, floor, values, pause = self._choose(begun, limit)
                    # One token is read along with the first that is drafted.
                    if k > 0 and proposer.behind(history) > 1:
                        reading += self._read(proposer)
                    if k > 0:
                        proposal = proposer.propose(history, k, sampler, rng, floor)
            except FAULTS as fault:
                dropped.append(self._drop(Lost.of(proposer, fault)))
                proposer, values, pause = self.proposers[0], (), None
            drafted = proposal.tokens
            chosen = time.perf_counter()
            padded = 0
            if self.k is None:
                padded = self.controller.padding(len(drafted), widest - 1 - len(drafted))
            replayed = target.pending
            committed = self._verify(proposal, padded, sampler, rng)
            accepted = len(committed) - 1
            before = len(reply.tokens)
            reply.take(committed, _origins(proposer.name, len(drafted), accepted))
            # A stop string may have begun in an earlier pass and cut some of its tokens.
            del history[prompt_length + min(before, len(reply.tokens)) :]
            history.extend(reply.tokens[before:])
            target.rollback(len(history) - 1)
            text = reply.show()
            ended = time.perf_counter()
            entry = Pass(
                proposer=proposer.name,
                drafted=drafted,
                accepted=accepted,
                committed=len(committed),
                tokens=tuple(reply.tokens[before:]),
                origins=tuple(reply.origins[before:]),
                text=text,
                # What the controller learned from the last pass is part of this one.
                seconds=ended - started + learning,
                target_seconds=target.seconds - target_before,
                proposer_seconds=sum(each.model_seconds for each in proposers) - proposers_before,
                values=values,
                padded=padded,
                replayed=replayed,
                pause=pause,
                reading_seconds=reading,
                speculation_seconds=(chosen - started) * speculating + learning,
            )
            statistics.record(entry)
            learning = 0.0
            if speculating:
                learned = time.perf_counter()
                self.controller.observe(entry)
                learning = time.perf_counter() - learned
            if self.threads is not None:
                width = max(1 + len(drafted) + padded + replayed, target.narrowest)
                target.use_threads(self.threads.observe(width, entry.target_seconds, time.perf_counter()))
            yield from dropped
            yield entry
        for each in self.proposers:
            if each in begun:
                try:
                    each.observe(history)
                except FAULTS as fault:
                    yield self._drop(Lost.of(each, fault))

    def _drop(self, lost: Lost) -> Dropped:
        """Go on without a proposer that failed."""
        left = tuple(each for each in self.proposers if each is not lost.proposer)
        self.proposers = left or (Off(),)
        return Dropped(lost.proposer.name, lost.damaged, str(lost))

    def _choose(
        self, proposers: Sequence[Proposer], limit: int
    ) -> tuple[Proposer, int, float, tuple[Value, ...], Pause | None]:
        """The proposer of the next pass, how many tokens it is to draft at most, where it stops, what was
        expected of each, and why none was asked."""
        if self.k is not None and len(proposers) == 1:
            return proposers[0], min(self.k, limit), 0.0, (), None
        self.controller.stand(self.target.length)
        options = [self._option(each, min(limit, LONGEST)) for each in proposers]
        if self.k is None:
            choice = self.controller.choose(options)
            return proposers[choice.option], *choice[1:]
        k = min(self.k, limit)
        likeliest = max(range(len(proposers)), key=lambda index: sum(options[index].forecast[:k]))
        return proposers[likeliest], k, 0.0, (), None

    def _option(self, proposer: Proposer, longest: int) -> Option:
        history = self._history
        least = self.controller.least_chance if self.k is None else 0.0
        try:
            forecast = proposer.forecast(history, longest, least)
            return Option(proposer.name, forecast, proposer.behind(history), proposer.stops, proposer.run)
        except FAULTS as fault:
            raise Lost.of(proposer, fault) from fault

    def _catch_up(self, proposer: Proposer) -> float:
        """Let a proposer's model read what it has not, where it is likely to be used; seconds."""
        chosen_anyway = self.k is not None or len(self.proposers) == 1
        if proposer.behind(self._history) == 0:
            return 0.0
        if chosen_anyway or self.controller.promising(self._option(proposer, LONGEST)):
            return self._read(proposer)
        return 0.0

    def _read(self, proposer: Proposer) -> float:
        behind, before = proposer.behind(self._history), proposer.model_seconds
        proposer.catch_up(self._history)
        seconds = proposer.model_seconds - before
        self.controller.caught_up(proposer.name, behind, seconds)
        return seconds

    def _verify(
        self, proposal: Proposal, padded: int, sampler: Sampler, rng: np.random.Generator
    ) -> list[int]:
        """One pass over the last token, the draft and the padding: the committed tokens."""
        history = self._history
        draft = proposal.tokens
        tokens = [history[-1], *draft, *draft[-1:] * padded]
        p = self._among_candidates(tokens, draft, sampler)
        if p is None:
            rows = self.target.forward(tokens, rows=len(tokens))[: 1 + len(draft)]
            if sampler.greedy:
                # Row by row: the rows behind the first mismatch need not be looked at.
                return match_rule(draft, lambda index: sampler.choose(rows[index], history, draft[:index]))
            p = sampler.distributions(rows, history, draft)
        if proposal.q is None or sampler.greedy:
            return match_rule(draft, lambda index: sampler.draw(p[index], rng))
        return verify_sampled(self.rule, draft, proposal.q, p, rng)

    def _among_candidates(
        self, tokens: Sequence[int], draft: Sequence[int], sampler: Sampler
    ) -> list[Distribution] | None:
        """One pass for the largest logits only; None, and nothing done, where these do not decide."""
        target = self.target
        if target.candidates == 0 or not 0 < sampler.candidates <= target.candidates:
            return None
        length = target.length
        candidates = target.forward_candidates(tokens)
        p = None if candidates is None else sampler.among(candidates, self._history, draft)
        if p is None:
            target.rollback(length)
        return p

    def logits_after(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """The target's logits (V,) after `tokens`, which the cache then holds. A view, see Context."""
        shared = _common_prefix(self.cached, tokens[:-1])
        self.target.rollback(shared)
        self._history = list(tokens)
        row: NDArray[np.float32] = self.target.forward(tokens[shared:], rows=1)[0]
        return row

    def _measure_plain(self) -> Iterator[float]:
        """Seconds of passes that draft nothing, run behind the reply and taken back."""
        target = self.target
        length = target.length
        if length == target.capacity:
            return
        target.mark()
        # The first is slower: it follows a wider one.
        for number in range(1 + ENOUGH):
            started = time.perf_counter()
            target.forward(self._history[-1:])[0].argmax()
            target.rollback(length)
            if number:
                yield time.perf_counter() - started


def _ends(start: int, total: int, chunk: int, tail: int) -> list[int]:
    """Where the chunks end in which tokens `start` to `total` are read; one ends `tail` tokens before."""
    ends = {*range(start + chunk, total, chunk), total, total - tail}
    return sorted(end for end in ends if start < end)


def _origins(proposer: str, drafted: int, accepted: int) -> list[str]:
    """Where each committed token of a pass came from."""
    if drafted == 0:
        return ["plain"]
    return [proposer] * accepted + ["bonus" if accepted == drafted else "correction"]


def _common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """Length of the longest common prefix."""
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return index
    return min(len(first), len(second))


def _rounded(tokens: int) -> int:
    """A context length that holds `tokens`: the next multiple of 1,024."""
    return -(-tokens // 1024) * 1024
