"""A smaller model with another vocabulary drafts: its text is rewritten in the target's tokens.

It reads the history's text in its own tokens and drafts the likeliest, at any temperature; so q is 1 for
whatever is proposed, and verification is as lossless as for copied text. What gets lost between the
vocabularies is only ever a guess: the last token, which more text might turn into a longer one, or a whole
draft that cannot continue the history as the target has tokenised it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from proposers.base import NOTHING, DraftModel, Proposal, RowSampler
from proposers.drafting import ModelProposer, top_two_probability
from proposers.translation import TextVocabulary, Translation, Vocabulary, continuation

# Own tokens that the model drafts at most for each token of the target that is wanted.
_MOST = 4


class _Guess(NamedTuple):
    """The draft so far in the target's tokens, with the model's probability of each. Only the first `settled`
    can be proposed."""

    tokens: list[int]
    probabilities: list[float]
    settled: int


class BridgedDraft(ModelProposer):
    """Drafts with a model whose vocabulary differs from the target's."""

    def __init__(
        self,
        model: DraftModel,
        target: Vocabulary,
        own: Vocabulary,
        opening: int | None = None,
        name: str = "draft",
    ) -> None:
        """own: the model's vocabulary. opening: the token it expects before every text, if any."""
        super().__init__(model, name)
        self._opening = opening
        self._target, self._own = TextVocabulary(target), TextVocabulary(own)
        self._translation = Translation(self._target, self._own, opening)

    def fork(self) -> BridgedDraft:
        fork = super().fork()
        fork._translation = Translation(self._target, self._own, self._opening)
        return fork

    def resume(self, history: Sequence[int]) -> None:
        self._cache.begin(self._translation.tokens)

    @property
    def translated(self) -> Sequence[int]:
        """The last history it saw, in the model's own tokens."""
        return self._translation.tokens

    def begin(self, history: Sequence[int]) -> None:
        """Keep what the texts have in common."""
        self._translation.begin(history)
        self._cache.begin(self._translation.tokens)
        self._record.begin()

    def lag(self, history: Sequence[int]) -> int:
        return self._cache.lag(self._follow(history))

    def sync(self, history: Sequence[int]) -> None:
        self._cache.sync(self._follow(history))

    def forecast(self, history: Sequence[int], limit: int, least: float = 0.0) -> Sequence[float]:
        """Counted in the target's tokens, as all of its record is."""
        translated = self._follow(history)
        return self._record.forecast(min(limit, self._cache.room(translated)) if translated else 0)

    def propose(
        self, history: Sequence[int], limit: int, sampler: RowSampler, rng: Generator, threshold: float = 0.0
    ) -> Proposal:
        translated = self._follow(history)
        room = min(self._cache.room(translated), _MOST * (limit + 1))
        if room <= 0 or not translated:
            return NOTHING
        greedy = sampler.greedy
        drafted: list[int] = []
        probabilities: list[float] = []
        row = self._cache.read(translated)
        while True:
            drafted.append(int(row.argmax()))
            probabilities.append(top_two_probability(row, drafted[-1]))
            guess = self._guess(drafted, probabilities)
            if guess is None:
                break
            ended = not self._own.piece(drafted[-1])
            chance = math.prod(self._record.chance(each, greedy) for each in guess.probabilities)
            enough = guess.settled >= limit or (guess.settled > 0 and chance < threshold)
            if ended or enough or len(drafted) == room:
                break
            row = self._cache.step(drafted[-1])
        if guess is None or guess.settled == 0:
            self._record.fail()
            return NOTHING
        tokens = tuple(guess.tokens[: min(guess.settled, limit)])
        self._record.propose(len(history), tokens, guess.probabilities, greedy)
        return Proposal(tokens)

    def observe(self, history: Sequence[int], hidden: NDArray[np.float32] | None = None) -> None:
        """Remove rejected tokens from the cache, and count accepted ones."""
        self._record.observe(history)
        self._follow(history)

    def _follow(self, history: Sequence[int]) -> Sequence[int]:
        """The history in the model's own tokens; its cache then holds a prefix of them."""
        self._cache.limit_agreed(self._translation.update(history))
        self._cache.match(self._translation.tokens)
        return self._translation.tokens

    def _guess(self, drafted: Sequence[int], probabilities: Sequence[float]) -> _Guess | None:
        """Drafted tokens in the target's; None if they cannot continue the history."""
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
        # A drafted token counts towards the token that holds its first byte.
        starts = list(accumulate(map(len, pieces), initial=-len(known)))
        end = index = 0
        for token in tokens:
            end += len(self._target.piece(token))
            before = index
            while index < len(pieces) and starts[index] < end:
                index += 1
            shares.append(math.prod(probabilities[before:index]))
        settled = found.settled
        control = None
        if ended and end == len(text):
            control = self._target.control(self._own.piece(drafted[-1], True))
        if control is not None and length == len(known):
            return _Guess([*tokens, control], [*shares, probabilities[-1]], settled + 1)
        return _Guess(tokens, shares, settled)
