"""Simulated rounds of speculation: what theory expects on average, one draft after the other."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import sqrt
from random import Random
from typing import Literal, Protocol

State = Literal["accepted", "rejected", "discarded", "correction", "bonus", "plain"]

# More rounds than a screen has lines.
RECENT = 100
# The mean of so many no longer changes in its first two digits.
ENOUGH = 10_000
# Most rounds in one step of the clock. The first are played one by one, to be read; then ever more.
_FASTEST, _READABLE = 32, 24


class Dice(Protocol):
    """Gives numbers from 0 up to but not including 1."""

    def random(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Round:
    """One pass: so many tokens were drafted, and the first so many of them accepted."""

    drafted: int
    accepted: int

    @property
    def tokens(self) -> int:
        """What the pass commits: the accepted ones, and one of its own."""
        return self.accepted + 1

    @property
    def states(self) -> tuple[State, ...]:
        """What became of each drafted token, then what the pass's own token is."""
        if not self.drafted:
            return ("plain",)
        kept: list[State] = ["accepted"] * self.accepted
        if self.accepted == self.drafted:
            return (*kept, "bonus")
        lost: list[State] = ["discarded"] * (self.drafted - self.accepted - 1)
        return (*kept, "rejected", *lost, "correction")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and its standard error; None where there are too few values."""

    mean: float
    error: float | None

    def times(self, factor: float) -> Estimate:
        """The estimate for values that are all `factor` times as large."""
        return Estimate(self.mean * factor, None if self.error is None else self.error * factor)


def play(alpha: float, k: int, dice: Dice) -> Round:
    """A draft of k tokens, each accepted with odds alpha if all before it were."""
    accepted = 0
    while accepted < k and dice.random() < alpha:
        accepted += 1
    return Round(k, accepted)


class Simulation:
    """Plays rounds and keeps their running mean; the sums are of whole numbers, hence exact."""

    def __init__(self, alpha: float, k: int, seed: int) -> None:
        self._alpha = alpha
        self._k = k
        self._dice = Random(seed)
        self._total = self._total_of_squares = 0
        self.rounds = 0
        self.recent: deque[Round] = deque(maxlen=RECENT)

    def play(self, rounds: int) -> None:
        """So many rounds more."""
        for _ in range(rounds):
            played = play(self._alpha, self._k, self._dice)
            self.rounds += 1
            self._total += played.tokens
            self._total_of_squares += played.tokens**2
            self.recent.append(played)

    @property
    def batch(self) -> int:
        """Rounds for the next step of the clock; 0 once there were enough."""
        return min(_FASTEST, 1 + self.rounds // _READABLE, max(0, ENOUGH - self.rounds))

    @property
    def tokens_per_pass(self) -> Estimate | None:
        """The mean of all rounds so far; None before the first."""
        n = self.rounds
        if not n:
            return None
        mean = self._total / n
        if n == 1:
            return Estimate(mean, None)
        # In whole numbers, as the difference of two large sums would lose digits.
        squares = n * self._total_of_squares - self._total**2
        return Estimate(mean, sqrt(squares / (n * (n - 1)) / n))
