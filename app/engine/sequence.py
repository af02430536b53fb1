"""One conversation in the target's cache: its tokens, its proposers, and the reply in progress.

The engine runs the passes. A sequence supplies what the next pass must verify (`draft`) and takes the result
(`commit`). It never sees the target, so an engine can hold several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from app.engine.control import Controller, DraftOption
from app.engine.events import ExpectedGain, Pause, ProposerDropped, Request
from app.engine.faults import FAULTS, ProposerFault
from app.engine.plain import PlainEstimator
from app.engine.reply import Reply
from app.engine.sampling import Sampler
from app.engine.settings import LONGEST_DRAFT
from app.engine.statistics import Statistics
from app.llama.model import Model
from proposers.base import NOTHING, Proposal, Proposer
from proposers.off import Off


@dataclass(slots=True)
class DraftedPass:
    """What a pass must verify, and how it was chosen.

    speculating: whether proposers were asked at all. reading_seconds: time that their models took to read
    tokens they had missed. values, pause: see Pass. dropped: proposers that failed; reported after the pass,
    because the caller may stop at that event.
    """

    proposer: Proposer
    speculating: bool
    proposal: Proposal = NOTHING
    values: tuple[ExpectedGain, ...] = ()
    pause: Pause | None = None
    reading_seconds: float = 0.0
    dropped: list[ProposerDropped] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of a pass.

    committed: the accepted tokens and the one that the target adds. complete: whether all of a chain, or a
    whole branch of a tree, was accepted. hidden: see Proposer.observe; None if no proposer needs it.
    """

    committed: list[int]
    complete: bool
    hidden: NDArray[np.float32] | None = None


class Sequence:
    """The tokens of a conversation, its proposers, and its last reply.

    history: all tokens of the prompt and the reply; the last one is not in the cache. proposers: at least
    one; the controller chooses among several before each pass. k: a fixed draft length; None lets the
    controller choose. Both may be replaced between any two passes. reply, sampler, rng, plain and statistics
    belong to the reply that was begun last.
    """

    reply: Reply
    sampler: Sampler
    rng: np.random.Generator
    statistics: Statistics

    def __init__(self, proposers: Iterable[Proposer]) -> None:
        self.proposers = tuple(proposers)
        self.k: int | None = None
        self.history: list[int] = []
        self.plain = PlainEstimator()
        self._begun: tuple[Proposer, ...] = ()
        self._prompt_length = 0

    def begin(self, request: Request, model: Model, cached: int) -> None:
        """Begin a new reply. cached: tokens of the prompt that need not be read."""
        self.history = list(request.prompt)
        self._prompt_length = len(self.history)
        self.k = request.k
        self.reply = Reply(model.piece, model.end_tokens, request.stop, request.max_tokens)
        self.sampler = Sampler(request.sampling)
        self.rng = np.random.default_rng(request.seed)
        self.plain = PlainEstimator()
        self.statistics = Statistics(self._prompt_length, cached, request.seed, self.plain)
        for proposer in self.proposers:
            self.statistics.join(proposer.name)

    @property
    def drafting(self) -> bool:
        """Whether any proposer could draft."""
        return any(proposer.name != "off" for proposer in self.proposers)

    @property
    def needs_hidden(self) -> bool:
        """Whether any proposer needs the target's hidden states."""
        return any(proposer.needs_hidden for proposer in self.proposers)

    @property
    def model_seconds(self) -> float:
        """Time spent in models of proposers so far."""
        return sum(proposer.model_seconds for proposer in self.proposers)

    def begin_proposers(self, controller: Controller) -> Iterator[ProposerDropped]:
        """The prompt has been read: proposers begin, and models likely to be used read it too."""
        self._begun = self.proposers
        return self._start(lambda proposer: proposer.begin(self.history), controller)

    def resume(self, controller: Controller) -> tuple[ProposerDropped, ...]:
        """Continue between two passes, after another sequence may have used the proposers' models."""
        return tuple(self._start(lambda proposer: proposer.resume(self.history), controller))

    def _start(self, start: Callable[[Proposer], None], controller: Controller) -> Iterator[ProposerDropped]:
        for proposer in self.proposers:
            try:
                start(proposer)
                self._sync(proposer, controller)
            except FAULTS as fault:
                yield self.drop(ProposerFault.of(proposer, fault))

    def draft(self, controller: Controller, limit: int) -> DraftedPass:
        """What the next pass must verify: at most `limit` drafted tokens."""
        history, proposers = self.history, self.proposers
        # Plain decoding must not pay for choosing among proposers.
        drafting = self.drafting
        speculating = drafting and (self.k is not None or controller.may_draft())
        draft = DraftedPass(
            proposers[0], speculating, pause="resting" if drafting and not speculating else None
        )
        for each in proposers:
            try:
                if each not in self._begun:
                    self.statistics.join(each.name)
                    each.begin(history)
                    draft.reading_seconds += self._sync(each, controller)
                elif speculating and self.reply.tokens and not each.needs_hidden:
                    # A proposer that was not used still learns from what it would have proposed.
                    each.observe(history)
            except FAULTS as fault:
                draft.dropped.append(self.drop(ProposerFault.of(each, fault)))
        self._begun = self.proposers
        draft.proposer = self._begun[0]
        try:
            if speculating:
                k, threshold = self._choose(draft, controller, limit)
                # A lag of one token is read together with the first drafted one.
                if k > 0 and draft.proposer.lag(history) > 1:
                    draft.reading_seconds += self._read(draft.proposer, controller)
                if k > 0:
                    draft.proposal = draft.proposer.propose(history, k, self.sampler, self.rng, threshold)
        except FAULTS as fault:
            draft.dropped.append(self.drop(ProposerFault.of(draft.proposer, fault)))
            draft.proposer, draft.values, draft.pause = self.proposers[0], (), None
        return draft

    def commit(self, draft: DraftedPass, verified: Verified) -> int:
        """Take the tokens that a pass committed. Returns how many tokens the reply had before."""
        before = len(self.reply.tokens)
        self.reply.take(verified.committed, _origins(draft, verified))
        # A stop string may have begun in an earlier pass and cut some of its tokens.
        del self.history[self._prompt_length + min(before, len(self.reply.tokens)) :]
        self.history.extend(self.reply.tokens[before:])
        if verified.hidden is not None:
            draft.dropped += self._observe(verified.hidden)
        return before

    def end(self) -> Iterator[ProposerDropped]:
        """The reply has ended: proposers see its last tokens."""
        yield from self._observe(None)

    def _observe(self, hidden: NDArray[np.float32] | None) -> Iterator[ProposerDropped]:
        for each in self.proposers:
            if each in self._begun and each.needs_hidden == (hidden is not None):
                try:
                    each.observe(self.history, hidden)
                except FAULTS as fault:
                    yield self.drop(ProposerFault.of(each, fault))

    def drop(self, fault: ProposerFault) -> ProposerDropped:
        """Continue without a proposer that failed."""
        left = tuple(each for each in self.proposers if each is not fault.proposer)
        self.proposers = left or (Off(),)
        return ProposerDropped(fault.proposer.name, fault.damaged, str(fault))

    def _choose(self, draft: DraftedPass, controller: Controller, limit: int) -> tuple[int, float]:
        """Choose who drafts. Returns the most tokens to draft, and the confidence threshold to stop at."""
        proposers = self._begun
        if self.k is not None and len(proposers) == 1:
            return min(self.k, limit), 0.0
        controller.costs.set_depth(len(self.history) - 1)
        options = [self._option(each, controller, min(limit, LONGEST_DRAFT)) for each in proposers]
        if self.k is None:
            choice = controller.choose(options)
            draft.proposer = proposers[choice.option]
            draft.values, draft.pause = choice.values, choice.pause
            return choice.k, choice.threshold
        k = min(self.k, limit)
        likeliest = max(range(len(proposers)), key=lambda index: sum(options[index].forecast[:k]))
        draft.proposer = proposers[likeliest]
        return k, 0.0

    def _option(self, proposer: Proposer, controller: Controller, longest: int) -> DraftOption:
        history = self.history
        least = controller.min_chance if self.k is None else 0.0
        try:
            forecast = proposer.forecast(history, longest, least)
            lag = proposer.lag(history)
            return DraftOption(proposer.name, forecast, lag, proposer.stops_early, proposer.hit_streak)
        except FAULTS as fault:
            raise ProposerFault.of(proposer, fault) from fault

    def _sync(self, proposer: Proposer, controller: Controller) -> float:
        """Let a proposer's model read what it has missed, if it is likely to be used. Returns the seconds."""
        chosen_anyway = self.k is not None or len(self.proposers) == 1
        if proposer.lag(self.history) == 0:
            return 0.0
        if chosen_anyway or controller.worth_syncing(self._option(proposer, controller, LONGEST_DRAFT)):
            return self._read(proposer, controller)
        return 0.0

    def _read(self, proposer: Proposer, controller: Controller) -> float:
        lag, before = proposer.lag(self.history), proposer.model_seconds
        proposer.sync(self.history)
        seconds = proposer.model_seconds - before
        controller.record_sync(proposer.name, lag, seconds)
        return seconds


def _origins(draft: DraftedPass, verified: Verified) -> list[str]:
    """Where each committed token of a pass came from."""
    if not draft.proposal.tokens:
        return ["plain"]
    accepted = len(verified.committed) - 1
    return [draft.proposer.name] * accepted + ["bonus" if verified.complete else "correction"]
