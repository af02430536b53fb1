"""A smaller model drafts: sampled from its own q at temperature, argmax at temperature 0.

Its cache is kept at a prefix of the history. A pass of the target that accepts the whole draft
leaves it one token behind, which goes in with the next draft's first step; one that was off for a
while reads all that it missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np
from numpy.typing import NDArray

from proposers.base import NOTHING, Distribution, DraftModel, Proposal, RowSampler
from proposers.drafting import ModelProposer, against_the_next


class Draft(ModelProposer):
    """Drafts with a model that shares the target's vocabulary.

    The reply's own sampling settings shape q, so that q is near p; q is the distribution that each
    token was truly drawn from, which is all that losslessness asks of it.
    """

    def __init__(self, model: DraftModel, name: str = "draft") -> None:
        super().__init__(model, name)

    def twin(self) -> Draft:
        twin = copy(self)
        twin._record = self._record.twin()
        return twin

    def resume(self, history: Sequence[int]) -> None:
        self._cache.begin(history)

    def begin(self, history: Sequence[int]) -> None:
        """Keep the common prefix."""
        self._cache.begin(history)
        self._record.begin()

    def lag(self, history: Sequence[int]) -> int:
        return self._cache.lag(history)

    def sync(self, history: Sequence[int]) -> None:
        """Read the rest, all but the last token."""
        self._cache.sync(history)

    def forecast(self, history: Sequence[int], limit: int, least: float = 0.0) -> Sequence[float]:
        """By position: what was accepted there, given that the positions before were."""
        return self._record.forecast(min(limit, self._cache.room(history)))

    def propose(
        self,
        history: Sequence[int],
        limit: int,
        sampler: RowSampler,
        rng: np.random.Generator,
        threshold: float = 0.0,
    ) -> Proposal:
        limit = min(limit, self._cache.room(history))
        if limit <= 0:
            return NOTHING
        row = self._cache.read(history)
        tokens: list[int] = []
        q: list[Distribution] = []
        sure: list[float] = []
        chance = 1.0
        greedy = sampler.greedy
        while True:
            if greedy:
                token = sampler.choose(row, history, tokens)
                sure.append(against_the_next(row, token))
            else:
                distribution = sampler.distributions(row[None], history, tokens)[0]
                q.append(distribution)
                token = sampler.draw(distribution, rng)
                sure.append(float(distribution.probabilities[distribution.tokens == token][0]))
            tokens.append(token)
            chance *= self._record.chance(sure[-1], greedy)
            if len(tokens) == limit or chance < threshold:
                self._record.propose(len(history), tokens, sure, greedy)
                return Proposal(tuple(tokens), tuple(q) if q else None)
            row = self._cache.step(token)

    def observe(self, history: Sequence[int], hidden: NDArray[np.float32] | None = None) -> None:
        """Cut what was rejected, and count what was accepted."""
        self._record.observe(history)
        self._cache.match(history)
