"""A smaller model drafts: sampled from its own q at temperature, argmax at temperature 0.

Its cache is kept at a prefix of the history. A pass of the target that accepts the whole draft
leaves it one token behind, which goes in with the next draft's first step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from proposers.base import NOTHING, Distribution, DraftModel, Proposal, RowSampler

# Positions whose acceptance is counted one by one; those behind count with the last.
_POSITIONS = 16
# By position, (accepted, tried): the first guess expects a draft to be worth a try.
_GUESS = (1.5, 2.0)
# How fast old passes are forgotten, and, while nothing is drafted, how fast the first guess comes
# back: texts change, and a bad beginning must not switch drafting off for good.
_KEEP, _RETURN = 0.97, 0.01


class Draft:
    """Drafts with a model that shares the target's vocabulary.

    The reply's own sampling settings shape q, so that q is near p; q is the distribution that each
    token was truly drawn from, which is all that losslessness asks of it.
    """

    def __init__(self, model: DraftModel, name: str = "draft") -> None:
        self.model = model
        self.name = name
        # The tokens given to the model; an interrupted forward may have left out the last of them.
        self._tokens: list[int] = []
        # So many of them are known to be the history's.
        self._agreed = 0
        self._counts = [_GUESS] * _POSITIONS
        # The last proposal, and the length of the history that it followed.
        self._proposed: tuple[int, tuple[int, ...]] = (0, ())

    @property
    def model_seconds(self) -> float:
        return self.model.seconds

    @property
    def cached(self) -> Sequence[int]:
        """The tokens in the model's cache."""
        return self._tokens[: self.model.length]

    @property
    def knowledge(self) -> tuple[float, ...]:
        """Accepted and tried by position, in turn."""
        return tuple(number for counts in self._counts for number in counts)

    def know(self, knowledge: Sequence[float]) -> bool:
        counts = list(zip(knowledge[::2], knowledge[1::2], strict=False))
        # Decayed counts stay below 1 / (1 - _KEEP).
        sound = all(0.0 <= accepted <= tried and 1.0 <= tried <= 100.0 for accepted, tried in counts)
        if len(knowledge) != 2 * _POSITIONS or not sound:
            return False
        self._counts = counts
        return True

    def begin(self, history: Sequence[int]) -> None:
        """Keep the common prefix and read the rest, all but the last token, if it fits at all."""
        self._agreed = 0
        self._proposed = (0, ())
        self._match(history)
        missing = history[self.model.length : -1]
        if missing and len(history) <= self.model.capacity:
            self._append(missing, rows=0)
            self._agreed = len(self._tokens)

    def forecast(self, history: Sequence[int], limit: int) -> Sequence[float]:
        """By position: what was accepted there, given that the positions before were."""
        limit = min(limit, self.model.capacity - len(history) + 1)
        chances, chance = [], 1.0
        for position in range(limit):
            accepted, tried = self._counts[min(position, _POSITIONS - 1)]
            chance *= accepted / tried
            chances.append(chance)
        return chances

    def propose(
        self, history: Sequence[int], limit: int, sampler: RowSampler, rng: np.random.Generator
    ) -> Proposal:
        model = self.model
        # The last drafted token need not enter the cache.
        limit = min(limit, model.capacity - len(history) + 1)
        if limit <= 0:
            return NOTHING
        row = self._append(history[model.length :], rows=1)[0]
        self._agreed = len(history)
        tokens: list[int] = []
        q: list[Distribution] = []
        while True:
            if sampler.greedy:
                tokens.append(sampler.choose(row, history, tokens))
            else:
                distribution = sampler.distributions(row[None], history, tokens)[0]
                q.append(distribution)
                tokens.append(sampler.draw(distribution, rng))
            if len(tokens) == limit:
                self._proposed = (len(history), tuple(tokens))
                return Proposal(tuple(tokens), tuple(q) if q else None)
            row = self._append(tokens[-1:], rows=1)[0]

    def observe(self, history: Sequence[int]) -> None:
        """Cut what was rejected, and count what was accepted."""
        self._count(history)
        self._match(history)

    def _count(self, history: Sequence[int]) -> None:
        start, proposed = self._proposed
        self._proposed = (0, ())
        counts = self._counts
        if not proposed:
            for position, (accepted, tried) in enumerate(counts):
                counts[position] = (
                    accepted + _RETURN * (_GUESS[0] - accepted),
                    tried + _RETURN * (_GUESS[1] - tried),
                )
            return
        # Behind a rejection nothing was seen.
        for position, (guessed, token) in enumerate(zip(proposed, history[start:], strict=False)):
            accepted, tried = counts[min(position, _POSITIONS - 1)]
            hit = guessed == token
            counts[min(position, _POSITIONS - 1)] = (accepted * _KEEP + hit, tried * _KEEP + 1.0)
            if not hit:
                break

    def _match(self, history: Sequence[int]) -> None:
        """Roll back to the longest common prefix with history, less its last token: the next draft
        starts with a forward, and a forward needs a token."""
        del self._tokens[self.model.length :]
        longest = min(len(self._tokens), len(history) - 1)
        shared = min(self._agreed, longest)
        while shared < longest and self._tokens[shared] == history[shared]:
            shared += 1
        self.model.rollback(shared)
        del self._tokens[shared:]
        self._agreed = shared

    def _append(self, tokens: Sequence[int], rows: int) -> NDArray[np.float32]:
        del self._tokens[self.model.length :]
        self._tokens.extend(tokens)
        return self.model.forward(tokens, rows)
