"""A smaller model drafts: it samples from its own q, or takes the argmax at temperature 0.

Its cache holds a prefix of the history. When the target accepts the whole draft, the cache lags by one token,
which goes in with the first step of the next draft. After a time without drafting it reads all it missed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from proposers.base import NOTHING, Distribution, Proposal, RowSampler
from proposers.drafting import ModelProposer, top_two_probability


class Draft(ModelProposer):
    """Drafts with a model that shares the target's vocabulary.

    The reply's own sampling settings shape q, which keeps q close to p. Each token is really drawn from q;
    verification needs no more to be lossless.
    """

    def propose(
        self, history: Sequence[int], limit: int, sampler: RowSampler, rng: Generator, threshold: float = 0.0
    ) -> Proposal:
        limit = min(limit, self._cache.room(history))
        if limit <= 0:
            return NOTHING
        row = self._cache.read(history)
        tokens: list[int] = []
        q: list[Distribution] = []
        probabilities: list[float] = []
        chance = 1.0
        greedy = sampler.greedy
        while True:
            if greedy:
                token = sampler.choose(row, history, tokens)
                probabilities.append(top_two_probability(row, token))
            else:
                distribution = sampler.distributions(row[None], history, tokens)[0]
                q.append(distribution)
                token = sampler.draw(distribution, rng)
                probabilities.append(float(distribution.probabilities[distribution.tokens == token][0]))
            tokens.append(token)
            chance *= self._record.chance(probabilities[-1], greedy)
            if len(tokens) == limit or chance < threshold:
                self._record.propose(len(history), tokens, probabilities, greedy)
                return Proposal(tuple(tokens), tuple(q) if q else None)
            row = self._cache.step(token)

    def observe(self, history: Sequence[int], hidden: NDArray[np.float32] | None = None) -> None:
        """Remove rejected tokens from the cache, and count accepted ones."""
        self._record.observe(history)
        self._cache.match(history)
