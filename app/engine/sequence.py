"""One conversation in the target's cache: its tokens, its proposers, and the reply that is being made.

An engine runs the passes. A sequence says what the next pass is to verify (`draft`), and takes what the pass
made of it (`commit`). It never sees the target, so an engine can hold several.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from app.engine.control import LONGEST, Controller, DraftOption
from app.engine.events import ExpectedGain, Pause, ProposerDropped, Request
from app.engine.faults import FAULTS, ProposerFault
from app.engine.plain import PlainEstimator
from app.engine.reply import Reply
from app.engine.sampling import Sampler
from app.engine.statistics import Statistics
from app.llama.model import Model
from proposers.base import NOTHING, Proposal, Proposer
from proposers.off import Off


@dataclass(slots=True)
class Draft:
    """What a pass is to verify, and how it came about.

    speculating: whether proposers were asked at all. reading_seconds: what their models took to read what
    they had missed. values, pause: see Pass. dropped: proposers that failed; told when the pass is done, as
    whoever hears of it may stop there.
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
    """What a pass made of a draft.

    committed: the accepted tokens and the one that the target adds. complete: whether all of a chain, or a
    whole branch of a tree, was accepted. hidden: see Proposer.observe; None where nobody needs it.
    """

    committed: list[int]
    complete: bool
    hidden: NDArray[np.float32] | None = None


class Sequence:
    """What is said, by whom it is drafted, and how far the reply is.

    history: all of the prompt and of the reply; its last token is not in the cache. proposers: at least one;
    where there are several, the controller chooses one for each pass. k: a fixed draft length; None lets the
    controller choose. Both may be replaced between any two passes. reply, sampler, rng, plain and statistics
    are those of the reply that was begun last.
    """

    reply: Reply
    sampler: Sampler
    rng: np.random.Generator
    statistics: Statistics

    def __init__(self, proposers: Iterable[Proposer]) -> None:
        self.proposers = tuple(proposers)
        self.k: int | None = None
        self.history: list[int] = []
        # What plain decoding would have taken for the reply so far.
        self.plain = PlainEstimator()
        self._begun: tuple[Proposer, ...] = ()
        self._prompt_length = 0

    def begin(self, request: Request, model: Model, cached: int) -> None:
        """Another reply. cached: tokens of the prompt that are not read again."""
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
        """Whether any proposer is to see the target's hidden states."""
        return any(proposer.needs_hidden for proposer in self.proposers)

    @property
    def model_seconds(self) -> float:
        """Time that models of the proposers have taken so far."""
        return sum(proposer.model_seconds for proposer in self.proposers)

    def begin_proposers(self, controller: Controller) -> Iterator[ProposerDropped]:
        """The prompt was read: proposers begin, and those likely to be used read it too."""
        self._begun = self.proposers
        for proposer in self.proposers:
            try:
                proposer.begin(self.history)
                self._sync(proposer, controller)
            except FAULTS as fault:
                yield self.drop(ProposerFault.of(proposer, fault))

    def resume(self, controller: Controller) -> tuple[ProposerDropped, ...]:
        """Go on between two passes, after another sequence may have used the proposers' models."""
        dropped = []
        for proposer in self.proposers:
            try:
                proposer.resume(self.history)
                self._sync(proposer, controller)
            except FAULTS as fault:
                dropped.append(self.drop(ProposerFault.of(proposer, fault)))
        return tuple(dropped)

    def draft(self, controller: Controller, limit: int) -> Draft:
        """What the next pass is to verify: at most `limit` tokens."""
        history, proposers = self.history, self.proposers
        # Plain decoding alone is not to pay for what nobody asks it.
        drafting = self.drafting
        speculating = drafting and (self.k is not None or controller.asks())
        draft = Draft(proposers[0], speculating, pause="resting" if drafting and not speculating else None)
        for each in proposers:
            try:
                if each not in self._begun:
                    self.statistics.join(each.name)
                    each.begin(history)
                    draft.reading_seconds += self._sync(each, controller)
                elif speculating and self.reply.tokens and not each.needs_hidden:
                    # One that was not used learns from what it would have proposed.
                    each.observe(history)
            except FAULTS as fault:
                draft.dropped.append(self.drop(ProposerFault.of(each, fault)))
        self._begun = self.proposers
        draft.proposer = self._begun[0]
        try:
            if speculating:
                k, threshold = self._choose(draft, controller, limit)
                # One token is read along with the first that is drafted.
                if k > 0 and draft.proposer.lag(history) > 1:
                    draft.reading_seconds += self._read(draft.proposer, controller)
                if k > 0:
                    draft.proposal = draft.proposer.propose(history, k, self.sampler, self.rng, threshold)
        except FAULTS as fault:
            draft.dropped.append(self.drop(ProposerFault.of(draft.proposer, fault)))
            draft.proposer, draft.values, draft.pause = self.proposers[0], (), None
        return draft

    def commit(self, draft: Draft, verified: Verified) -> int:
        """Take what a pass committed. Returns how many tokens the reply had before."""
        before = len(self.reply.tokens)
        self.reply.take(verified.committed, _origins(draft, verified))
        # A stop string may have begun in an earlier pass and cut some of its tokens.
        del self.history[self._prompt_length + min(before, len(self.reply.tokens)) :]
        self.history.extend(self.reply.tokens[before:])
        if verified.hidden is not None:
            draft.dropped += self._observe(verified.hidden)
        return before

    def end(self) -> Iterator[ProposerDropped]:
        """The reply has ended: proposers see the last of it."""
        yield from self._observe(None)

    def _observe(self, hidden: NDArray[np.float32] | None) -> Iterator[ProposerDropped]:
        for each in self.proposers:
            if each in self._begun and each.needs_hidden == (hidden is not None):
                try:
                    each.observe(self.history, hidden)
                except FAULTS as fault:
                    yield self.drop(ProposerFault.of(each, fault))

    def drop(self, fault: ProposerFault) -> ProposerDropped:
        """Go on without a proposer that failed."""
        left = tuple(each for each in self.proposers if each is not fault.proposer)
        self.proposers = left or (Off(),)
        return ProposerDropped(fault.proposer.name, fault.damaged, str(fault))

    def _choose(self, draft: Draft, controller: Controller, limit: int) -> tuple[int, float]:
        """Decide who drafts: how many tokens at most, and the confidence threshold where it stops."""
        proposers = self._begun
        if self.k is not None and len(proposers) == 1:
            return min(self.k, limit), 0.0
        controller.at_depth(len(self.history) - 1)
        options = [self._option(each, controller, min(limit, LONGEST)) for each in proposers]
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
        least = controller.least_chance if self.k is None else 0.0
        try:
            forecast = proposer.forecast(history, longest, least)
            lag = proposer.lag(history)
            return DraftOption(proposer.name, forecast, lag, proposer.stops_early, proposer.hit_streak)
        except FAULTS as fault:
            raise ProposerFault.of(proposer, fault) from fault

    def _sync(self, proposer: Proposer, controller: Controller) -> float:
        """Let a proposer's model read what it has not, where it is likely to be used; seconds."""
        chosen_anyway = self.k is not None or len(self.proposers) == 1
        if proposer.lag(self.history) == 0:
            return 0.0
        if chosen_anyway or controller.promising(self._option(proposer, controller, LONGEST)):
            return self._read(proposer, controller)
        return 0.0

    def _read(self, proposer: Proposer, controller: Controller) -> float:
        lag, before = proposer.lag(self.history), proposer.model_seconds
        proposer.sync(self.history)
        seconds = proposer.model_seconds - before
        controller.synced(proposer.name, lag, seconds)
        return seconds


def _origins(draft: Draft, verified: Verified) -> list[str]:
    """Where each committed token of a pass came from."""
    if not draft.proposal.tokens:
        return ["plain"]
    accepted = len(verified.committed) - 1
    return [draft.proposer.name] * accepted + ["bonus" if verified.complete else "correction"]
