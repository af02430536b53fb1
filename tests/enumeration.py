"""Every outcome of code that draws random numbers, each with its exact probability.

The code under test compares its uniforms with numbers by `<` and does nothing else with them. So a
uniform can stand for an interval of [0, 1): a comparison that the interval decides is answered, any
other splits it in two, and both halves are followed. The code that is enumerated is the code that runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TypeVar, cast

import numpy as np

Outcome = TypeVar("Outcome")
Tokens = tuple[int, ...]
Law = dict[Tokens, float]


class Uniform:
    """An interval of [0, 1) that comparisons narrow."""

    def __init__(self, path: Path) -> None:
        self.low = 0.0
        self.high = 1.0
        self._path = path

    def __lt__(self, number: float) -> bool:
        if self.high <= number:
            return True
        if self.low >= number:
            return False
        if self._path.below():
            self.high = float(number)
            return True
        self.low = float(number)
        return False


class Path:
    """Takes the place of numpy's generator for one run: replays decisions, then goes below first."""

    def __init__(self, decisions: list[bool]) -> None:
        self.decisions = decisions
        self._position = 0
        self._uniforms: list[Uniform] = []

    def random(self) -> Uniform:
        self._uniforms.append(Uniform(self))
        return self._uniforms[-1]

    def below(self) -> bool:
        if self._position == len(self.decisions):
            self.decisions.append(True)
        self._position += 1
        return self.decisions[self._position - 1]

    @property
    def probability(self) -> float:
        product = 1.0
        for uniform in self._uniforms:
            product *= uniform.high - uniform.low
        return product


def outcomes(run: Callable[[np.random.Generator], Outcome]) -> Iterator[tuple[Outcome, float]]:
    """What `run` returns on each of its branches, and the probability of the branch."""
    decisions: list[bool] = []
    while True:
        path = Path(decisions)
        outcome = run(cast(np.random.Generator, path))
        yield outcome, path.probability
        while decisions and not decisions[-1]:
            decisions.pop()
        if not decisions:
            return
        decisions[-1] = False


def law(run: Callable[[np.random.Generator], Tokens]) -> Law:
    """The distribution of the tokens that `run` returns."""
    total: defaultdict[Tokens, float] = defaultdict(float)
    for tokens, probability in outcomes(run):
        total[tokens] += probability
    return dict(total)
