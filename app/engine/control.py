"""How many tokens to draft: the k with the most expected tokens for its expected time.

    E[committed | k] = 1 + sum over j <= k of S_j,   S_j = the chance that the first j are accepted
    choose the k that maximises E[committed | k] / (c(k + 1) + D(k)),   k = 0 included

S is the proposer's own forecast, c is measured (see costs.py), D is the proposer's own time, what it has to
read before it can draft included, and what the change of width costs the pass after it. Every k is looked
at: real cost curves jump, and a marginal test would stop before a cheap width. Where a wider pass is
cheaper, the pass is filled up to it. Plain decoding is left for a gain of 5 % or more.

A draft model knows more once it has drafted: it may go on to twice that k while it is sure, and stops where
one more token would add less than the pass earns on average.

A ledger keeps speculation from ever costing much, on any text. It begins with one plain pass, earns c(1)
for each committed token and 1 % of that, and pays the time spent; a draft is only made where the ledger
could pay for it if all of it were rejected. What it holds is bounded, so that a good evening does not pay
for a bad page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from app.engine.costs import CostCurve
from app.engine.events import Pass, Value

# Longest draft that is considered.
LONGEST = 32
# Share of plain decoding's time that may be spent on drafts that came to nothing. With what choosing and
# looking up take themselves it stays below the 2 % that are promised.
BUDGET = 0.01
# Plain passes that a first try may cost.
START = 1
# A draft has to promise so much more than plain decoding: the best of many estimates is mostly too good.
LEAST_GAIN = 1.05
# What was gained long ago does not pay for a bad stretch now: so many of the longest drafts at most.
_SAVINGS = 3
_COST_STEP = 0.2
# Until it was seen what a draft model takes to read a token: this share of drafting one.
_READING = 0.25


class Option(NamedTuple):
    """What a proposer could do in the next pass.

    forecast: the chances that the first 1, 2, … tokens of its proposal are all accepted; k is at most
    its length. behind: tokens that it has to read first. stops: whether it drafts token by token.
    """

    proposer: str
    forecast: Sequence[float]
    behind: int = 0
    stops: bool = False


class Choice(NamedTuple):
    """option: an index into the options. k: tokens to draft at most, 0 for plain decoding. floor: the
    chance of acceptance below which a draft ends. values: why."""

    option: int
    k: int
    floor: float
    values: tuple[Value, ...]


class _Best(NamedTuple):
    """An option's best draft length, expected tokens a second with it, the pass's seconds."""

    k: int
    rate: float
    cost: float


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

    def choose(self, options: Sequence[Option]) -> Choice:
        """Who drafts in the next pass, and how many tokens."""

    def promising(self, option: Option) -> bool:
        """Whether it would be chosen over plain decoding, had it read all and were it affordable."""

    def padding(self, drafted: int, room: int) -> int:
        """Throw-away positions, at most `room`, that make a pass over so many drafted tokens cheaper."""

    def caught_up(self, proposer: str, tokens: int, seconds: float) -> None:
        """A proposer's model read so many tokens that it had missed."""

    def observe(self, entry: Pass) -> None:
        """A pass was made."""


class ThroughputController:
    """Expected tokens over expected time, from this machine's own passes.

    Plain floats throughout: a decision is made before each pass, when no cache is warm.
    """

    def __init__(self) -> None:
        self._calibrated = False
        self._costs: CostCurve | None = None
        # By proposer: seconds to draft a token, and to read one.
        self._draft_seconds: dict[str, float] = {}
        self._read_seconds: dict[str, float] = {}
        # Seconds that drafts may take in vain, less START plain passes.
        self._ledger = 0.0

    @property
    def calibrated(self) -> bool:
        return self._calibrated

    @property
    def costs(self) -> Mapping[int, float]:
        return self._costs.seconds if self._costs else {}

    def calibrate(self, seconds: Mapping[int, float]) -> None:
        """Take costs by width. Where not even a plain pass could be measured, nothing is drafted."""
        self._calibrated = True
        if 1 in seconds:
            self._costs = CostCurve(seconds, LONGEST + 1)

    def choose(self, options: Sequence[Option]) -> Choice:
        costs = self._costs
        if costs is None:
            return Choice(0, 0, 0.0, ())
        plain = costs.plain
        affordable = self._ledger + (START + 1) * plain
        chosen, best = 0, _Best(0, LEAST_GAIN / plain, plain)
        values = []
        for index, option in enumerate(options):
            if not option.forecast:
                continue
            wanted = self._best(option, costs)
            within = wanted if wanted.cost <= affordable else self._best(option, costs, affordable)
            if within.k and within.rate > best.rate:
                chosen, best = index, within
            values.append(Value(option.proposer, wanted.k, wanted.rate * plain - 1.0, within is wanted))
        if best.k == 0 or not options[chosen].stops:
            return Choice(chosen, best.k, 0.0, tuple(values))
        return Choice(chosen, *self._stopping(options[chosen], best, costs, affordable), tuple(values))

    def promising(self, option: Option) -> bool:
        costs = self._costs
        return costs is None or self._best(option._replace(behind=0), costs).rate * costs.plain > LEAST_GAIN

    def padding(self, drafted: int, room: int) -> int:
        if self._costs is None or drafted == 0:
            return 0
        padding = self._costs.cheapest[drafted + 1] - (drafted + 1)
        return padding if padding <= room else 0

    def caught_up(self, proposer: str, tokens: int, seconds: float) -> None:
        each = seconds / tokens
        before = self._read_seconds.get(proposer, each)
        self._read_seconds[proposer] = before + _COST_STEP * (each - before)

    def _best(self, option: Option, costs: CostCurve, affordable: float = math.inf) -> _Best:
        """The k of at least 1 with the most tokens a second; k 0 where there is none."""
        draft = self._draft_seconds.get(option.proposer, 0.0)
        scale = costs.scale
        extra = costs.back + (option.behind * self._reading(option.proposer) if option.behind else 0.0)
        longest = min(len(option.forecast), LONGEST)
        expected, best, best_rate, best_cost = 1.0, 0, 0.0, 0.0
        # A filled-up pass takes no longer than a wider one, but for the margin: costs only rise with k.
        for k, (survival, seconds) in enumerate(zip(option.forecast, costs.drafted, strict=False), start=1):
            extra += draft
            expected += survival
            cost = scale * seconds + extra
            if cost > affordable:
                break
            if expected > best_rate * cost:
                best, best_rate, best_cost = k, expected / cost, cost
            elif expected + survival * (longest - k) < best_rate * cost:
                # Not even if all the rest were as likely as this one.
                break
        return _Best(best, best_rate, best_cost)

    def _stopping(
        self, option: Option, best: _Best, costs: CostCurve, affordable: float
    ) -> tuple[int, float]:
        """How far a draft may go while its model is sure, and the chance of acceptance that still pays."""
        padded = [costs.scale * seconds for seconds in costs.padded]
        draft = self._draft_seconds.get(option.proposer, 0.0)
        longest = min(2 * best.k, len(option.forecast), LONGEST)
        spare = affordable - best.cost + padded[best.k + 1] + best.k * draft
        while longest > best.k and padded[longest + 1] + longest * draft > spare:
            longest -= 1
        one_more = draft + (padded[longest + 1] - costs.plain) / longest
        return longest, best.rate * one_more / max(option.forecast[0], 0.01)

    def _reading(self, proposer: str) -> float:
        return self._read_seconds.get(proposer, _READING * self._draft_seconds.get(proposer, 0.0))

    def observe(self, entry: Pass) -> None:
        costs = self._costs
        drafted = len(entry.drafted)
        if costs is not None:
            plain = costs.plain
            if drafted:
                gained = entry.committed * plain - entry.seconds - costs.back
            else:
                # Plain passes teach the cost of one and neither gain nor lose, but a model may have drafted
                # in vain.
                gained = -entry.proposer_seconds
            ledger = self._ledger + BUDGET * entry.committed * plain + gained
            self._ledger = min(ledger, _SAVINGS * costs.scale * costs.padded[-1])
            costs.observe(drafted + 1 + entry.padded, entry.target_seconds)
        if drafted:
            each = (entry.proposer_seconds - entry.reading_seconds) / drafted
            before = self._draft_seconds.get(entry.proposer, each)
            self._draft_seconds[entry.proposer] = before + _COST_STEP * (each - before)
