"""A smaller model drafts: sampled from its own q at temperature, argmax at temperature 0.

Its cache is kept at a prefix of the history. A pass of the target that accepts the whole draft
leaves it one token behind, which goes in with the next draft's first step; one that was off for a
while reads all that it missed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from proposers.base import NOTHING, Distribution, DraftModel, Proposal, RowSampler
from proposers.confidence import Confidence

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

    stops = True

    def __init__(self, model: DraftModel, name: str = "draft") -> None:
        self.model = model
        self.name = name
        # The tokens given to the model; an interrupted forward may have left out the last of them.
        self._tokens: list[int] = []
        # So many of them are known to be the history's.
        self._agreed = 0
        self._counts = [_GUESS] * _POSITIONS
        # What the model's own probability says, of argmax drafts and of sampled ones.
        self._confidence = {True: Confidence(), False: Confidence()}
        # The last proposal, how sure the model was of each token, and the length of the history before.
        self._proposed: tuple[int, tuple[int, ...], tuple[float, ...]] = (0, (), ())
        self._greedy = True

    @property
    def model_seconds(self) -> float:
        return self.model.seconds

    @property
    def cached(self) -> Sequence[int]:
        """The tokens in the model's cache."""
        return self._tokens[: self.model.length]

    @property
    def knowledge(self) -> tuple[float, ...]:
        """Accepted and tried by position, in turn; then what the model's own probabilities say."""
        counts = [number for counts in self._counts for number in counts]
        return (*counts, *self._confidence[True].knowledge, *self._confidence[False].knowledge)

    def know(self, knowledge: Sequence[float]) -> bool:
        positions, greedy = 2 * _POSITIONS, 2 * _POSITIONS + Confidence.SIZE
        counts = list(zip(knowledge[:positions:2], knowledge[1:positions:2], strict=False))
        # Decayed counts stay below 1 / (1 - _KEEP).
        sound = all(0.0 <= accepted <= tried and 1.0 <= tried <= 100.0 for accepted, tried in counts)
        if len(counts) != _POSITIONS or not sound:
            return False
        known = {True: Confidence(), False: Confidence()}
        if not (known[True].know(knowledge[positions:greedy]) and known[False].know(knowledge[greedy:])):
            return False
        self._counts, self._confidence = counts, known
        return True

    def begin(self, history: Sequence[int]) -> None:
        """Keep the common prefix."""
        self._agreed = 0
        self._proposed = (0, (), ())
        self._match(history)
        for confidence in self._confidence.values():
            confidence.restart()

    def behind(self, history: Sequence[int]) -> int:
        # A history that does not fit is not read, nor drafted for.
        return len(history) - 1 - self.model.length if len(history) <= self.model.capacity else 0

    def catch_up(self, history: Sequence[int]) -> None:
        """Read the rest, all but the last token."""
        if self.behind(history):
            self._append(history[self.model.length : -1], rows=0)
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
        self,
        history: Sequence[int],
        limit: int,
        sampler: RowSampler,
        rng: np.random.Generator,
        floor: float = 0.0,
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
        sure: list[float] = []
        chance = 1.0
        self._greedy = sampler.greedy
        while True:
            if sampler.greedy:
                token = sampler.choose(row, history, tokens)
                sure.append(_against_the_next(row, token))
            else:
                distribution = sampler.distributions(row[None], history, tokens)[0]
                q.append(distribution)
                token = sampler.draw(distribution, rng)
                sure.append(float(distribution.probabilities[distribution.tokens == token][0]))
            tokens.append(token)
            chance *= self._confidence[self._greedy].chance(sure[-1])
            if len(tokens) == limit or chance < floor:
                self._proposed = (len(history), tuple(tokens), tuple(sure))
                return Proposal(tuple(tokens), tuple(q) if q else None)
            row = self._append(tokens[-1:], rows=1)[0]

    def observe(self, history: Sequence[int]) -> None:
        """Cut what was rejected, and count what was accepted."""
        self._count(history)
        self._match(history)

    def _count(self, history: Sequence[int]) -> None:
        start, proposed, sure = self._proposed
        self._proposed = (0, (), ())
        counts = self._counts
        if not proposed:
            for position, (accepted, tried) in enumerate(counts):
                counts[position] = (
                    accepted + _RETURN * (_GUESS[0] - accepted),
                    tried + _RETURN * (_GUESS[1] - tried),
                )
            return
        # Behind a rejection nothing was seen.
        confidence = self._confidence[self._greedy]
        for position, (guessed, token) in enumerate(zip(proposed, history[start:], strict=False)):
            accepted, tried = counts[min(position, _POSITIONS - 1)]
            hit = guessed == token
            confidence.learn(sure[position], hit)
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


def _against_the_next(row: NDArray[np.float32], token: int) -> float:
    """The probability of a row's (V,) largest entry against the second largest alone: one look at the row
    where a softmax takes an exponential for each token of the vocabulary."""
    top = row[token]
    row[token] = -np.inf
    second = row.max()
    row[token] = top
    return 1 / (1 + math.exp(min(float(second - top), 50.0)))
