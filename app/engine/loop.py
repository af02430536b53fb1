"""The loop: propose, verify in one pass of the target, commit, roll back.

    draft     = sequence.draft()                            # proposer.propose(history, k)
    rows      = target.forward(last token + draft)
    committed = verify(draft, rows)
    sequence.commit(committed)                              # proposer.observe(history)
    target.rollback()

The cache always holds the history without its last token, which the next pass begins with. So every token of
a reply comes from a pass, and the first pass can already verify a draft.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Tokens
from copy import deepcopy
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from app.engine.calibration import calibrate
from app.engine.control import Controller
from app.engine.costs import PassCosts
from app.engine.events import Event, FinishReason, Pass, Prefill, ProposerDropped, Request
from app.engine.plain import MIN_PLAIN_PASSES
from app.engine.sampling import Sampler
from app.engine.sequence import Sequence, Verified
from app.engine.thread_tuner import ThreadTuner
from app.engine.verify import Rule, block_rule, match_chain, match_tree, verify_sampled
from app.errors import ContextError
from app.llama.batch import Tree
from app.llama.context import Context, Interrupted
from proposers.base import Distribution, Proposal, Proposer, common_prefix

# Widths at which measurements of an earlier run are checked.
CHECKED = (2, 8)
# If memory is copied, the last tokens of a prompt are read in a separate pass: the next prompt may share all
# but these, because templates drop thoughts together with the opening of the answer.
_TAIL = 16
# Seconds of calibration before a reply.
_LEAST_CALIBRATION, _MOST_CALIBRATION = 0.05, 0.5


class Engine:
    """A target, the controller that knows what its passes cost, and the sequence they are made for."""

    def __init__(
        self,
        target: Context,
        proposers: Iterable[Proposer],
        controller: Controller,
        rule: Rule = block_rule,
    ) -> None:
        self.target = target
        # Its first target.length tokens are in the cache, always.
        self.sequence = Sequence(proposers)
        self.controller = controller
        # Tunes the number of threads, unless it was set.
        self.threads: ThreadTuner | None = None
        self.rule = rule

    @property
    def cached(self) -> Tokens[int]:
        """The tokens in the target's cache."""
        return self.sequence.history[: self.target.length]

    def fork(self, proposers: Iterable[Proposer]) -> Engine:
        """An engine for another reply on the same target, with forks of these proposers. It starts with what
        this one has learned. Before one continues after another, call its `take_cache` or `resume`."""
        fork = Engine(self.target, [each.fork() for each in proposers], deepcopy(self.controller), self.rule)
        fork.threads = self.threads
        return fork

    def take_cache(self, other: Engine) -> None:
        """Another engine used the target last: what its cache holds may be useful for the next reply."""
        self.sequence.history = list(other.cached)

    def resume(self, other: Engine) -> tuple[ProposerDropped, ...]:
        """Another engine used the target last: continue a reply between two passes, and read again what the
        cache no longer holds. Returns the proposers that failed to resume, which are dropped.

        Raises Interrupted.
        """
        target, committed = self.target, self.sequence.history[:-1]
        shared = target.rewind(common_prefix(other.cached, committed))
        target.reread_limit = self.controller.reread_limit
        if shared < len(committed):
            target.forward(committed[shared:], rows=0)
        return self.sequence.resume(self.controller)

    def calibrate(self, tokens: Tokens[int], budget: float = 0.25) -> PassCosts:
        """Measure the current cost of passes, see calibration.py, and tell the controller.

        Measurements of an earlier run at this depth are only checked, and repeated if they are outdated.
        """
        target, controller = self.target, self.controller
        ends = time.perf_counter() + budget
        widths: Tokens[int] = controller.costs.unmeasured(target.length, budget) or CHECKED
        measured = calibrate(target, tokens, widths, budget)
        controller.costs.calibrate(measured)
        rest = ends - time.perf_counter()
        left = [width for width in controller.costs.unmeasured(target.length, rest) if width not in widths]
        if left:
            # The remembered measurements do not match this machine as it is now.
            again = calibrate(target, tokens, left, rest)
            controller.costs.calibrate(again)
            measured = replace(again, seconds={**measured.seconds, **again.seconds})
        return measured

    def generate(self, request: Request) -> Iterator[Event]:
        """Answer a prompt. Yields Prefill events, then a Pass for each pass, then Finished; in between,
        ProposerDropped for each proposer that failed and was removed from the sequence.

        The sequence's `proposers` and `k` may be replaced between any two events. If the iterator is closed
        early, the cache still equals what was committed.

        Raises ContextError if the prompt leaves no room for a pass, before anything is done.
        """
        target, sequence = self.target, self.sequence
        length = len(request.prompt)
        if length == 0:
            raise ValueError("a prompt has at least one token")
        if length > target.capacity:
            raise ContextError(
                f"The prompt has {length:,} tokens and the context holds {target.capacity:,}: shorten it, "
                f"or give --ctx {_rounded(length + request.max_tokens)} "
                f"(this model was trained with {target.model.context_trained:,})."
            )
        known = common_prefix(self.cached, request.prompt[:-1])
        shared = target.rewind(known)
        sequence.begin(request, target.model, shared)
        reply = sequence.reply
        reason: FinishReason
        try:
            yield from self._prefill(request, shared, known - shared)
            yield from self._decode()
            reason = reply.finished or ("cancelled" if target.stop() else "context")
        except Interrupted:
            reason = "cancelled"
        target.keep()
        if sequence.plain.seconds_per_token() is None and reason != "cancelled":
            for seconds in self._measure_plain():
                sequence.plain.add_plain_pass(seconds)
        yield sequence.statistics.finish(reason, reply)

    def _prefill(self, request: Request, shared: int, again: int) -> Iterator[Event]:
        """Read the prompt except its last token, after the part that is in the cache. again: see Prefill."""
        prompt, target, sequence = request.prompt, self.target, self.sequence
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
        if request.k is None and sequence.drafting:
            # A share of the time that the prompt took; the first calibration may take as long as it needs.
            share = (
                (time.perf_counter() - started) / 10 if self.controller.costs.measured else _MOST_CALIBRATION
            )
            budget = max(_LEAST_CALIBRATION, min(_MOST_CALIBRATION, share))
            if self.controller.costs.unmeasured(target.length, budget):
                self.calibrate(prompt[-1:], budget)
        yield from sequence.begin_proposers(self.controller)
        sequence.statistics.prefill_seconds = time.perf_counter() - started

    def _decode(self) -> Iterator[Event]:
        target, controller, sequence = self.target, self.controller, self.sequence
        reply = sequence.reply
        target.reread_limit = controller.reread_limit
        learning = 0.0
        controller.begin()
        if self.threads is not None:
            self.threads.begin(time.perf_counter())
        while reply.finished is None and not target.stop():
            room = target.capacity - target.length
            if room < 1:
                return
            started = time.perf_counter()
            target_before, proposers = target.seconds, sequence.proposers
            proposers_before = sequence.model_seconds
            widest = min(room, target.max_width)
            draft = sequence.draft(controller, min(widest, reply.wanted) - 1)
            drafted = draft.proposal.tokens
            chosen = time.perf_counter()
            padded = 0
            if sequence.k is None:
                padded = controller.padding(len(drafted), widest - 1 - len(drafted))
            replayed = target.pending
            verified = self._verify(draft.proposal, padded)
            before = sequence.commit(draft, verified)
            target.rollback(len(sequence.history) - 1)
            text = reply.show()
            ended = time.perf_counter()
            entry = Pass(
                proposer=draft.proposer.name,
                drafted=drafted,
                accepted=len(verified.committed) - 1,
                committed=len(verified.committed),
                tokens=tuple(reply.tokens[before:]),
                origins=tuple(reply.origins[before:]),
                text=text,
                # Learning from the last pass counts towards this one.
                seconds=ended - started + learning,
                target_seconds=target.seconds - target_before,
                proposer_seconds=sum(each.model_seconds for each in proposers) - proposers_before,
                values=draft.values,
                padded=padded,
                replayed=replayed,
                pause=draft.pause,
                reading_seconds=draft.reading_seconds,
                speculation_seconds=(chosen - started) * draft.speculating + learning,
            )
            sequence.statistics.record(entry)
            learning = 0.0
            if draft.speculating:
                learned = time.perf_counter()
                controller.observe(entry)
                learning = time.perf_counter() - learned
            if self.threads is not None:
                width = max(1 + len(drafted) + padded + replayed, target.min_width)
                target.use_threads(self.threads.observe(width, entry.target_seconds, time.perf_counter()))
            yield from draft.dropped
            yield entry
        yield from sequence.end()

    def _verify(self, proposal: Proposal, padded: int) -> Verified:
        """One pass over the last token, the draft and the padding."""
        if proposal.parents is not None:
            return self._verify_tree(proposal.tokens, Tree(proposal.parents))
        draft, history = proposal.tokens, self.sequence.history
        committed = self._verify_chain(proposal, [history[-1], *draft, *draft[-1:] * padded])
        complete = len(committed) > len(draft)
        if not self.sequence.needs_hidden:
            return Verified(committed, complete)
        hidden = self.target.hidden_states(1 + len(draft) + padded)
        return Verified(committed, complete, hidden[: len(committed)])

    def _verify_chain(self, proposal: Proposal, tokens: Tokens[int]) -> list[int]:
        """The committed tokens of a pass over these."""
        history, sampler, rng = self.sequence.history, self.sequence.sampler, self.sequence.rng
        draft = proposal.tokens
        p = self._among_candidates(tokens, draft, sampler)
        if p is None:
            rows = self.target.forward(tokens, rows=len(tokens))[: 1 + len(draft)]
            if sampler.greedy:
                # Row by row, since rows after the first mismatch are not needed.
                return match_chain(draft, lambda index: sampler.choose(rows[index], history, draft[:index]))
            p = sampler.distributions(rows, history, draft)
        if proposal.q is None or sampler.greedy:
            return match_chain(draft, lambda index: sampler.draw(p[index], rng))
        return verify_sampled(self.rule, draft, proposal.q, p, rng)

    def _verify_tree(self, tokens: Tokens[int], tree: Tree) -> Verified:
        """One pass over the last token and a tree of deterministic guesses."""
        target, sequence = self.target, self.sequence
        history, sampler = sequence.history, sequence.sampler
        rows = target.forward_tree([history[-1], *tokens], tree)

        def sample(path: Tokens[int]) -> int:
            row = rows[path[-1] + 1 if path else 0]
            return sampler.sample(row, history, [tokens[node] for node in path], sequence.rng)

        try:
            committed, path = match_tree(tokens, tree.parents, sample)
        except BaseException:
            target.recover()
            raise
        hidden = target.hidden_states(len(rows)) if sequence.needs_hidden else None
        if hidden is not None:
            hidden = hidden[[0, *(1 + node for node in path)]]
        last = path[-1] if path else -1
        target.commit(last)
        return Verified(committed, last not in tree.parents, hidden)

    def _among_candidates(
        self, tokens: Tokens[int], draft: Tokens[int], sampler: Sampler
    ) -> list[Distribution] | None:
        """One pass for the largest logits only; None if they are not enough, and then it is undone."""
        target = self.target
        if target.candidates == 0 or not 0 < sampler.candidates_needed <= target.candidates:
            return None
        length = target.length
        candidates = target.forward_candidates(tokens)
        p = None if candidates is None else sampler.from_candidates(candidates, self.sequence.history, draft)
        if p is None:
            target.rollback(length)
        return p

    def logits_after(self, tokens: Tokens[int]) -> NDArray[np.float32]:
        """The target's logits (V,) after `tokens`, which are then in the cache. A view, see Context."""
        shared = common_prefix(self.cached, tokens[:-1])
        self.target.rollback(shared)
        self.sequence.history = list(tokens)
        row: NDArray[np.float32] = self.target.forward(tokens[shared:], rows=1)[0]
        return row

    def _measure_plain(self) -> Iterator[float]:
        """Seconds of plain passes, run after the reply and rolled back."""
        target = self.target
        length = target.length
        if length == target.capacity:
            return
        target.checkpoint()
        # The first one is slower, because it follows a wider pass.
        for number in range(1 + MIN_PLAIN_PASSES):
            started = time.perf_counter()
            target.forward(self.sequence.history[-1:])[0].argmax()
            target.rollback(length)
            if number:
                yield time.perf_counter() - started


def _ends(start: int, total: int, chunk: int, tail: int) -> list[int]:
    """The ends of the chunks in which tokens `start` to `total` are read; one is `tail` before the last."""
    ends = {*range(start + chunk, total, chunk), total, total - tail}
    return sorted(end for end in ends if start < end)


def _rounded(tokens: int) -> int:
    """The next multiple of 1,024: a context length with room for `tokens`."""
    return -(-tokens // 1024) * 1024
