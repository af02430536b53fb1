"""How many tokens to draft: the k with the most expected tokens for its expected time.

    E[committed | k] = 1 + sum over j <= k of S_j,   S_j = the chance that the first j are accepted
    choose the k that maximises E[committed | k] / (c(k + 1) + D(k)),   k = 0 included

S is the proposer's own forecast, c is measured (see costs.py), D is the proposer's own time. Every k is
looked at: real cost curves jump, and a marginal test would stop before a cheap width.

A ledger keeps speculation from ever costing much, on any text. With A = sum of c(1) over committed
tokens, less the time spent, a draft is only made while A - (c(k + 1) + D(k) - c(1)) stays above
-(2 % of the plain time so far + one plain pass); whatever is then rejected, no more is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from app.engine.costs import CostCurve
from app.engine.events import Pass, Value

# Longest draft that is considered.
LONGEST = 32
# Share of plain decoding's time that may be spent on drafts that came to nothing.
BUDGET = 0.02
# Plain passes that a first try may cost.
START = 1
# What was gained long ago does not pay for a bad stretch now: so many plain passes at most.
_SAVINGS = 100
_COST_STEP = 0.2


class Choice(NamedTuple):
    """option: an index into the options. k: tokens to draft, 0 for plain decoding. values: why."""

    option: int
    k: int
    values: tuple[Value, ...]


class Controller(Protocol):
    """Chooses draft lengths and learns from passes."""

    @property
    def calibrated(self) -> bool:
        """False while it wants costs of passes before it can choose."""

    @property
    def costs(self) -> Mapping[int, float]:
        """Seconds of a pass by width, as of now; empty where nothing is known."""

    def calibrate(self, seconds: Mapping[int, float]) -> None:
        """Take measured costs of passes by width."""

    def choose(self, options: Sequence[tuple[str, Sequence[float]]]) -> Choice:
        """Who drafts in the next pass, and how many tokens.

        options: a proposer's name and its forecast, the chances that the first 1, 2, … tokens of a
        proposal are all accepted; k is at most the forecast's length.
        """

    def observe(self, entry: Pass) -> None:
        """A pass was made."""


class ThroughputController:
    """Expected tokens over expected time, from this machine's own passes.

    Plain floats throughout: a decision is made before each pass, when no cache is warm.
    """

    def __init__(self) -> None:
        self._calibrated = False
        self._costs: CostCurve | None = None
        self._draft_seconds: dict[str, float] = {}
        # Seconds: what plain decoding would have taken so far, and how far ahead of it this is.
        self._plain = 0.0
        self._ahead = 0.0

    @property
    def calibrated(self) -> bool:
        return self._calibrated

    @property
    def costs(self) -> Mapping[int, float]:
        return dict(enumerate(self._costs.seconds[1:], start=1)) if self._costs else {}

    def calibrate(self, seconds: Mapping[int, float]) -> None:
        """Take costs by width. Where not even a plain pass could be measured, nothing is drafted."""
        self._calibrated = True
        if 1 in seconds:
            self._costs = CostCurve(seconds, LONGEST + 1)

    def choose(self, options: Sequence[tuple[str, Sequence[float]]]) -> Choice:
        costs = self._costs
        if costs is None:
            return Choice(0, 0, ())
        seconds = costs.seconds
        plain = seconds[1]
        affordable = self._ahead + BUDGET * self._plain + (START + 1) * plain
        chosen, chosen_k, chosen_rate = 0, 0, 1.0 / plain
        values = []
        for index, (proposer, forecast) in enumerate(options):
            draft = self._draft_seconds.get(proposer, 0.0)
            expected = 1.0
            best, best_rate, best_cost = 0, 0.0, 0.0
            for k, survival in enumerate(forecast[:LONGEST], start=1):
                expected += survival
                cost = seconds[k + 1] + k * draft
                if expected > best_rate * cost:
                    best, best_rate, best_cost = k, expected / cost, cost
                if expected > chosen_rate * cost and cost <= affordable:
                    chosen, chosen_k, chosen_rate = index, k, expected / cost
            if best:
                values.append(Value(proposer, best, best_rate * plain - 1.0, best_cost <= affordable))
        return Choice(chosen, chosen_k, tuple(values))

    def observe(self, entry: Pass) -> None:
        costs = self._costs
        drafted = len(entry.drafted)
        if costs is not None:
            plain = costs.seconds[1]
            # Plain passes teach the cost of one; they neither gain nor lose.
            self._plain += entry.committed * plain
            if drafted:
                ahead = self._ahead + entry.committed * plain - entry.seconds
                self._ahead = min(ahead, _SAVINGS * plain)
            costs.observe(drafted + 1, entry.target_seconds)
        if drafted:
            each = entry.proposer_seconds / drafted
            before = self._draft_seconds.get(entry.proposer, each)
            self._draft_seconds[entry.proposer] = before + _COST_STEP * (each - before)
