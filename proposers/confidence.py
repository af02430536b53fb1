"""How likely a draft model's token is to be accepted, given how sure the model was of it.

One table by the model's own probability, corrected by how it did of late. Each token that the target
judged takes it one step of a logistic regression further.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

# The model's own probability at which a new cell begins, and a first guess for each cell.
_EDGES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
_GUESSES = (0.2, 0.3, 0.4, 0.45, 0.5, 0.55, 0.65, 0.7, 0.8, 0.85, 0.9, 0.95, 0.97)
_STEP = 0.08
# How fast the rate of late forgets, where it starts, and how much it weighs at first.
_FORGET, _RATE, _TRUST = 0.05, 0.7, 1.0
# No weight goes further: what was learned wrongly can be unlearned within a reply.
_LIMIT = 6.0


class Confidence:
    """P(a drafted token is accepted), given the draft model's own probability of it."""

    SIZE = len(_GUESSES) + 1

    def __init__(self) -> None:
        self._cells = [math.log(guess / (1 - guess)) for guess in _GUESSES]
        self._trust = _TRUST
        self._rate = _RATE

    def restart(self) -> None:
        """Another reply begins: how the last one went is no news for it."""
        self._rate = _RATE

    def chance(self, own: float) -> float:
        """own: the model's probability of the token."""
        return 1 / (1 + math.exp(-self._score(own)))

    def learn(self, own: float, accepted: bool) -> None:
        """The target judged a token."""
        step = _STEP * (accepted - self.chance(own))
        cell = bisect_right(_EDGES, own)
        self._trust = _within(self._trust + step * (self._rate - _RATE))
        self._cells[cell] = _within(self._cells[cell] + step)
        self._rate += _FORGET * (accepted - self._rate)

    @property
    def acceptance_state(self) -> tuple[float, ...]:
        """All that was learned."""
        return (*self._cells, self._trust)

    def restore_acceptance(self, state: Sequence[float]) -> bool:
        """Start from what was learned earlier; False, and nothing changes, where it makes no sense."""
        if len(state) != self.SIZE or not all(math.isfinite(each) for each in state):
            return False
        *cells, trust = map(_within, state)
        self._cells, self._trust = cells, trust
        return True

    def _score(self, own: float) -> float:
        return self._cells[bisect_right(_EDGES, own)] + self._trust * (self._rate - _RATE)


def _within(weight: float) -> float:
    return max(-_LIMIT, min(weight, _LIMIT))
