"""A smaller model with another vocabulary drafts: its text is written in the target's tokens.

It reads the history's text in tokens of its own and drafts the likeliest, at any temperature; so q is 1
at whatever is proposed, and verification is as lossless as for a copied text. What is given up between
the vocabularies is only ever a guess: the last token, which more text might make a longer one, and all of
a draft that the target could not begin behind the history as it was tokenised.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from proposers.base import NOTHING, DraftModel, Proposal, RowSampler
from proposers.drafting import ModelProposer, against_the_next
from proposers.translation import Translation, Vocabulary, Words, continuation

# Tokens of its own that the model drafts at most for each that is wanted.
_MOST = 4


class _Guess(NamedTuple):
    """The target's tokens for what was drafted so far, and how sure the model was of each. The first
    `settled` of them can be proposed."""

    tokens: list[int]
    sure: list[float]
    settled: int


class BridgedDraft(ModelProposer):
    """Drafts with a model that has not the target's vocabulary."""

    def __init__(
        self,
        model: DraftModel,
        target: Vocabulary,
        own: Vocabulary,
        opening: int | None = None,
        name: str = "draft",
    ) -> None:
        """own: the model's vocabulary. opening: the token that it expects before every text, if any."""
        super().__init__(model, name)
        self._opening = opening
        self._target, self._own = Words(target), Words(own)
        self._translation = Translation(self._target, self._own, opening)
        # What is proposed for a control token that the model drafts.
        self._controls: dict[int, int | None] = {}

    def twin(self) -> BridgedDraft:
        twin = copy(self)
        twin._translation = Translation(self._target, self._own, self._opening)
        twin._record = self._record.twin()
        return twin

    def resume(self, history: Sequence[int]) -> None:
        self._cache.begin(self._translation.tokens)

    @property
    def translated(self) -> Sequence[int]:
        """The history last seen in the model's own tokens."""
        return self._translation.tokens

    def begin(self, history: Sequence[int]) -> None:
        """Keep what is common to the texts."""
        self._translation.begin(history)
        self._cache.begin(self._translation.tokens)
        self._record.begin()

    def lag(self, history: Sequence[int]) -> int:
        return self._cache.lag(self._follow(history))

    def sync(self, history: Sequence[int]) -> None:
        """Read the rest, all but the last of the model's own tokens."""
        self._cache.sync(self._follow(history))

    def forecast(self, history: Sequence[int], limit: int, least: float = 0.0) -> Sequence[float]:
        """By position, in the target's tokens: what was accepted there, given that those before were."""
        translated = self._follow(history)
        return self._record.forecast(min(limit, self._cache.room(translated)) if translated else 0)

    def propose(
        self,
        history: Sequence[int],
        limit: int,
        sampler: RowSampler,
        rng: np.random.Generator,
        threshold: float = 0.0,
    ) -> Proposal:
        translated = self._follow(history)
        room = min(self._cache.room(translated), _MOST * (limit + 1))
        if room <= 0 or not translated:
            return NOTHING
        greedy = sampler.greedy
        drafted: list[int] = []
        sure: list[float] = []
        row = self._cache.read(translated)
        while True:
            drafted.append(int(row.argmax()))
            sure.append(against_the_next(row, drafted[-1]))
            guess = self._guess(drafted, sure)
            if guess is None:
                break
            ended = not self._own.piece(drafted[-1])
            chance = math.prod(self._record.chance(each, greedy) for each in guess.sure)
            enough = guess.settled >= limit or (guess.settled > 0 and chance < threshold)
            if ended or enough or len(drafted) == room:
                break
            row = self._cache.step(drafted[-1])
        if guess is None or guess.settled == 0:
            self._record.fail()
            return NOTHING
        tokens = tuple(guess.tokens[: min(guess.settled, limit)])
        self._record.propose(len(history), tokens, guess.sure, greedy)
        return Proposal(tokens)

    def observe(self, history: Sequence[int], hidden: NDArray[np.float32] | None = None) -> None:
        """Cut what was rejected, and count what was accepted."""
        self._record.observe(history)
        self._follow(history)

    def _follow(self, history: Sequence[int]) -> Sequence[int]:
        """The history in the model's own tokens; its cache is at a prefix of them."""
        self._cache.revise(self._translation.follow(history))
        self._cache.match(self._translation.tokens)
        return self._translation.tokens

    def _guess(self, drafted: Sequence[int], sure: Sequence[float]) -> _Guess | None:
        """What drafted tokens are in the target's; None where the target could not write them so."""
        pieces = [self._own.piece(token) for token in drafted]
        known = self._translation.unfinished
        data = b"".join(pieces)
        length = min(len(data), len(known))
        if data[:length] != known[:length]:
            return None
        text = data[length:]
        ended = not pieces[-1]
        found = continuation(self._target, self._translation.tail, text, ended)
        if found is None:
            return None
        tokens = found.tokens
        shares: list[float] = []
        # A drafted token counts for the one that its first byte is in.
        starts = list(accumulate(map(len, pieces), initial=-len(known)))
        end = index = 0
        for token in tokens:
            end += len(self._target.piece(token))
            before = index
            while index < len(pieces) and starts[index] < end:
                index += 1
            shares.append(math.prod(sure[before:index]))
        settled = found.settled
        control = self._control(drafted[-1]) if ended and end == len(text) else None
        if control is not None and length == len(known):
            return _Guess([*tokens, control], [*shares, sure[-1]], settled + 1)
        return _Guess(tokens, shares, settled)

    def _control(self, token: int) -> int | None:
        """The target's control token of the same text."""
        if token not in self._controls:
            self._controls[token] = self._target.control(self._own.piece(token, True))
        return self._controls[token]
