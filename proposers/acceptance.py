"""How likely a copied token is to be accepted, learned from every committed token.

A logistic regression with one step a token. (Beta counts would work too, but need a cell for each
combination of features.) Its features of a copy are the length of the match, whether the string had occurred
once or more often, whether it is copied from the reply itself, and how often copies were right recently: over
about seven tokens and over about thirty.

The j-th token of a copy continues a match that is j - 1 tokens longer. So one table by length serves every
position, and every token teaches it, drafted or not: nothing has to be tried in order to be learned.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

from proposers.automaton import Match
from proposers.confidence import bounded

# Match lengths at which a new cell of the table begins, and a cautious first guess of acceptance for each.
_LENGTHS = (1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 24, 32, 48)
_GUESSES = (0.18, 0.38, 0.5, 0.6, 0.66, 0.72, 0.78, 0.82, 0.86, 0.9, 0.93, 0.95, 0.96)
# Step sizes of the table and of the correcting weights, which every token moves; then how fast the two recent
# rates forget.
_STEP, _CORRECTION = 0.08, 0.03
_FAST, _SLOW = 0.15, 0.03
# Both rates at the start of a reply, and the first weight of the fast one.
_RATE, _TRUST = 0.4, 2.0
# Tokens reached more rarely than this are not forecast: replays come out the same without them.
_NO_CHANCE = 0.05

_Four = tuple[float, float, float, float]


class CopyAcceptance:
    """P(the next copied token is accepted), given the features of the copy."""

    def __init__(self) -> None:
        self._cells = [math.log(guess / (1 - guess)) for guess in _GUESSES]
        self._weights: _Four = (_TRUST, 0.0, 0.0, 0.0)
        self.restart()

    def restart(self) -> None:
        """A new reply begins: recent rates say nothing about it."""
        self._fast = self._slow = _RATE

    def survival(self, match: Match, repeats_reply: bool, limit: int, least: float = 0.0) -> list[float]:
        """The chances that the first 1, 2, … tokens of a copy are all accepted: at most `limit`, as far as
        they matter; none if the first is below `least`."""
        base = _product(self._weights, self._features(match, repeats_reply))
        cells, length = self._cells, match.length
        cell = bisect_right(_LENGTHS, length) - 1
        chances: list[float] = []
        chance = 1.0
        while len(chances) < limit and chance > _NO_CHANCE:
            hazard = 1 / (1 + math.exp(-cells[cell] - base))
            if not chances and hazard < least:
                break
            # All lengths up to the next cell share this one.
            until = _LENGTHS[cell + 1] if cell + 1 < len(_LENGTHS) else length + limit
            for _ in range(min(until - length, limit - len(chances))):
                chance *= hazard
                chances.append(chance)
            length, cell = until, cell + 1
        return chances

    def learn(self, match: Match, repeats_reply: bool, accepted: bool) -> None:
        """A token was committed; accepted: whether a copy from this match would have been right."""
        cell = bisect_right(_LENGTHS, match.length) - 1
        features = self._features(match, repeats_reply)
        score = self._cells[cell] + _product(self._weights, features)
        fault = accepted - 1 / (1 + math.exp(-score))
        self._cells[cell] = bounded(self._cells[cell] + _STEP * fault)
        step = _CORRECTION * fault
        a, b, c, d = self._weights
        e, f, g, h = features
        self._weights = (
            bounded(a + step * e),
            bounded(b + step * f),
            bounded(c + step * g),
            bounded(d + step * h),
        )
        self._note(accepted)

    def miss(self) -> None:
        """A token was committed when there was nothing to copy."""
        self._note(False)

    @property
    def acceptance_state(self) -> tuple[float, ...]:
        """All that was learned."""
        return (*self._cells, *self._weights)

    def restore_acceptance(self, state: Sequence[float]) -> bool:
        """Start from what an earlier run learned. Returns False and changes nothing if it is invalid."""
        sizes = len(self._cells), len(self._weights)
        if len(state) != sum(sizes) or not all(math.isfinite(each) for each in state):
            return False
        self._cells = [bounded(each) for each in state[: sizes[0]]]
        a, b, c, d = map(bounded, state[sizes[0] :])
        self._weights = (a, b, c, d)
        return True

    def _features(self, match: Match, repeats_reply: bool) -> _Four:
        """Near 0 on average, so that the cells of the table keep their meaning."""
        return (
            self._fast - 0.5,
            self._slow - 0.5,
            1.0 if match.occurrences <= 1 else -0.3,
            0.5 if repeats_reply else -0.5,
        )

    def _note(self, accepted: bool) -> None:
        self._fast += _FAST * (accepted - self._fast)
        self._slow += _SLOW * (accepted - self._slow)


def _product(weights: _Four, features: _Four) -> float:
    """Written out, like the step in `learn`: both run for each token, and a loop is slower."""
    a, b, c, d = weights
    e, f, g, h = features
    return a * e + b * f + c * g + d * h
