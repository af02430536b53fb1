"""How likely a draft model's token is to be accepted, given the probability that the model gave it.

A table of log odds by that probability, corrected by recent acceptance. Each token that the target judged is
one step of a logistic regression.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

# Probabilities at which a new cell begins, and a first guess of acceptance for each cell.
_EDGES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
_GUESSES = (0.2, 0.3, 0.4, 0.45, 0.5, 0.55, 0.65, 0.7, 0.8, 0.85, 0.9, 0.95, 0.97)
_STEP = 0.08
# The recent acceptance rate: how fast it forgets, where it starts, and its first weight.
_FORGET, _RATE, _TRUST = 0.05, 0.7, 1.0


class Confidence:
    """P(a drafted token is accepted), given the draft model's probability of it."""

    SIZE = len(_GUESSES) + 1

    def __init__(self) -> None:
        self._cells = [math.log(guess / (1 - guess)) for guess in _GUESSES]
        self._trust = _TRUST
        self._rate = _RATE

    def restart(self) -> None:
        """A new reply begins: how the last one went says nothing about it."""
        self._rate = _RATE

    def chance(self, probability: float) -> float:
        """The chance that a token is accepted to which the model gave this probability."""
        score = self._cells[bisect_right(_EDGES, probability)] + self._trust * (self._rate - _RATE)
        return 1 / (1 + math.exp(-score))

    def learn(self, probability: float, accepted: bool) -> None:
        """The target accepted a token, or not."""
        step = _STEP * (accepted - self.chance(probability))
        cell = bisect_right(_EDGES, probability)
        self._trust = bounded(self._trust + step * (self._rate - _RATE))
        self._cells[cell] = bounded(self._cells[cell] + step)
        self._rate += _FORGET * (accepted - self._rate)

    @property
    def acceptance_state(self) -> tuple[float, ...]:
        """All that was learned."""
        return (*self._cells, self._trust)

    def restore_acceptance(self, state: Sequence[float]) -> bool:
        """Start from what an earlier run learned. Returns False and changes nothing if it is invalid."""
        if len(state) != self.SIZE or not all(math.isfinite(each) for each in state):
            return False
        *cells, trust = map(bounded, state)
        self._cells, self._trust = cells, trust
        return True


def bounded(weight: float) -> float:
    """A weight within ±6, so that what was learned wrongly can be unlearned within a reply."""
    return weight if -6.0 < weight < 6.0 else math.copysign(6.0, weight)
