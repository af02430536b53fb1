"""Rounds of speculation played with dice: what theory says on average, one draft after the other."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import sqrt
from random import Random
from typing import Literal, Protocol

State = Literal["accepted", "rejected", "discarded", "correction", "bonus", "plain"]

# More rounds than a screen has lines.
RECENT = 100
# A mean of so many stands still to two digits: what came after would be no news.
ENOUGH = 10_000
# Rounds at one step of the clock: one by one as long as each can be read, then ever more, up to this.
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
        """What became of each drafted token, and behind them what the pass's own token is."""
        if not self.drafted:
            return ("plain",)
        kept: list[State] = ["accepted"] * self.accepted
        if self.accepted == self.drafted:
            return (*kept, "bonus")
        lost: list[State] = ["discarded"] * (self.drafted - self.accepted - 1)
        return (*kept, "rejected", *lost, "correction")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean, and its standard error; None where there are too few values to tell."""

    mean: float
    error: float | None

    def times(self, factor: float) -> Estimate:
        """The same of values that are so many times as great."""
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
    def pace(self) -> int:
        """Rounds for the next step of a running clock; 0 when there were enough."""
        return min(_FASTEST, 1 + self.rounds // _READABLE, max(0, ENOUGH - self.rounds))

    @property
    def tokens_per_pass(self) -> Estimate | None:
        """The mean of all rounds so far; None before the first. Of a speedup it is a fixed multiple."""
        n = self.rounds
        if not n:
            return None
        mean = self._total / n
        if n == 1:
            return Estimate(mean, None)
        # In whole numbers, where the difference of the two great sums loses nothing.
        squares = n * self._total_of_squares - self._total**2
        return Estimate(mean, sqrt(squares / (n * (n - 1)) / n))
