"""How many tokens to draft: the k with the most expected tokens for its expected time.

    E[committed | k] = 1 + sum over j <= k of S_j,   S_j = the chance that the first j are accepted
    choose the k that maximises E[committed | k] / (c(k + 1) + D(k)),   k = 0 included

S is the proposer's own forecast, and c is measured (see costs.py). D is the proposer's own time including
what it must read before it can draft, what the change of width costs the next pass, and what that pass reads
again if memory cannot be cut. Every k is considered: real cost curves jump, and a marginal test would stop
before a cheap width. If a wider pass is cheaper, the pass is padded to it. A draft must promise a gain of 5 %
or more over plain decoding.

A draft model knows more once it has drafted. It may go on to twice that k while it is confident, and stops
when one more token would add less than the pass earns on average.

A ledger limits what speculation can cost, see ledger.py. c(1) is never taken from memory: a reply begins with
two plain passes unless some were timed at its depth, and after REFRESH drafted passes two plain ones are
made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from app.engine.costs import CostCurve, PassCosts
from app.engine.events import ExpectedGain, Pass, Pause, Refusal
from app.engine.ledger import Ledger
from app.engine.settings import LONGEST_DRAFT

# Drafted passes, and their seconds, after which plain decoding's speed is measured again.
REFRESH, _REFRESH_SECONDS = 64, 0.7
# After HOPELESS passes in a row in which no proposer had anything worth drafting, none is asked for REST
# passes, since asking takes time too. Repetitions are noticed later, which costs less than a thousandth in
# replays.
HOPELESS, REST = 12, 10
# What a draft must promise, over plain decoding: the best of many estimates is usually too good.
LEAST_GAIN = 1.05
# How far one pass moves the averages below.
_COST_STEP = 0.2
# The number of tokens to read again together with others, until passes have been timed.
_REREAD_LIMIT = 8
# The time a draft model takes to read a token, as a share of drafting one, until it has been timed.
_READING = 0.25


class DraftOption(NamedTuple):
    """What a proposer could do in the next pass.

    forecast: the chances that the first 1, 2, … tokens of its proposal are all accepted; its length limits k.
    lag: tokens that it must read first. stops_early, hit_streak: see Proposer.
    """

    proposer: str
    forecast: Sequence[float]
    lag: int = 0
    stops_early: bool = False
    hit_streak: int = 0


class DraftPlan(NamedTuple):
    """option: an index into the options. k: the most tokens to draft, 0 for plain decoding. threshold: the
    chance of acceptance below which drafting stops. values, pause: the reasons, see Pass."""

    option: int
    k: int
    threshold: float
    values: tuple[ExpectedGain, ...]
    pause: Pause | None = None


_PLAIN = DraftPlan(0, 0, 0.0, (), "measuring")


class _BestLength(NamedTuple):
    """An option's best draft length, its expected tokens a second, and the seconds of the pass."""

    k: int
    rate: float
    cost: float


class Controller:
    """Chooses draft lengths, and learns from passes. costs: what passes cost, at the depth set in it.

    It uses plain floats throughout: it decides before each pass, when no processor cache is warm.
    """

    def __init__(self, remembered: Sequence[PassCosts] = ()) -> None:
        """remembered: costs that an earlier run measured."""
        self.costs = CostCurve(LONGEST_DRAFT + 1)
        self.costs.remember(remembered)
        # By proposer: seconds to draft a token, and to read one.
        self._draft_seconds: dict[str, float] = {}
        self._read_seconds: dict[str, float] = {}
        self._ledger = Ledger()
        # Whether the last pass had a draft, and whether a draft made it wider than a plain one.
        self._last_drafted = False
        self._after_draft = False
        # Tokens that a drafted pass leaves to be read again, if memory cannot be cut.
        self._replayed = 0.0
        # Drafted passes, and their seconds, since plain decoding was last timed.
        self._drafts_made = 0
        self._drafted_seconds = 0.0
        # Passes in a row in which no draft was worth making, and passes left in which no proposer is asked.
        self._hopeless = self._resting = 0
        # `min_chance`, and the prices it was computed from.
        self._least = math.inf
        self._least_of: Sequence[float] = ()

    @property
    def reread_limit(self) -> int:
        """How many tokens may be read again together with others before a pass for them alone is cheaper."""
        costs = self.costs
        if not costs.known or costs.per_token <= 0.0:
            return _REREAD_LIMIT
        # As many as take the time of a plain pass: this costs at most twice the optimum.
        return int(min(costs.plain / costs.per_token, LONGEST_DRAFT))

    def begin(self) -> None:
        """A new reply begins."""
        self._hopeless = self._resting = 0

    def may_draft(self) -> bool:
        """Whether to ask proposers before the next pass; if not, it is plain and not observed."""
        if self._resting:
            self._resting -= 1
            return False
        return True

    @property
    def min_chance(self) -> float:
        """The chance of its first token below which every draft is a loss."""
        costs = self.costs
        if not costs.known:
            return math.inf
        if costs.drafted is not self._least_of:
            # Even a draft in which every token were as likely as the first could gain no more.
            plain = costs.relative[1]
            self._least_of = costs.drafted
            relative = (LEAST_GAIN * each / plain for each in costs.drafted)
            self._least = min((cost - 1.0) / k for k, cost in enumerate(relative, start=1))
        return self._least

    def choose(self, options: Sequence[DraftOption]) -> DraftPlan:
        """Who drafts in the next pass, and how many tokens."""
        costs, ledger = self.costs, self._ledger
        ledger.on_credit = False
        stale = self._drafts_made >= REFRESH and self._drafted_seconds >= _REFRESH_SECONDS
        if stale or not costs.known:
            return _PLAIN
        plain = costs.plain
        affordable = ledger.balance + 2 * plain
        least = LEAST_GAIN / plain
        chosen, best, on_credit = 0, _BestLength(0, least, plain), False
        values = []
        for index, option in enumerate(options):
            if not option.forecast:
                continue
            wanted = within = self._best(option)
            proven = wanted.cost > affordable and option.hit_streak >= ledger.run_needed
            if proven:
                within = self._best(option, longest=option.hit_streak)
            elif wanted.cost > affordable:
                within = self._best(option, affordable)
            if within.k and within.rate > best.rate:
                chosen, best, on_credit = index, within, proven
            plan, refused = (within, None) if within.rate > least else self._refused(option, wanted, least)
            values.append(ExpectedGain(option.proposer, plan.k, plan.rate * plain - 1.0, refused))
        ledger.on_credit = on_credit
        self._hopeless = 0 if any(each.k for each in values) else self._hopeless + 1
        self._resting = REST if self._hopeless >= HOPELESS else 0
        if best.k == 0 or not options[chosen].stops_early:
            return DraftPlan(chosen, best.k, 0.0, tuple(values))
        return DraftPlan(chosen, *self._stopping(options[chosen], best, affordable), tuple(values))

    def worth_syncing(self, option: DraftOption) -> bool:
        """Whether it would be chosen over plain decoding if it had read everything and were affordable."""
        costs = self.costs
        if self._ledger.owed > 0.0:
            return False
        return not costs.known or self._best(option._replace(lag=0)).rate * costs.plain > LEAST_GAIN

    def padding(self, drafted: int, room: int) -> int:
        """Throw-away positions, at most `room`, that make a pass with this many drafted tokens cheaper."""
        if drafted == 0 or not self.costs.known:
            return 0
        padding = self.costs.cheapest[drafted + 1] - (drafted + 1)
        return padding if padding <= room else 0

    def record_sync(self, proposer: str, tokens: int, seconds: float) -> None:
        """A proposer's model has read tokens that it lagged behind."""
        each = seconds / tokens
        before = self._read_seconds.get(proposer, each)
        self._read_seconds[proposer] = before + _COST_STEP * (each - before)
        self._ledger.owed += seconds

    def _refused(self, option: DraftOption, wanted: _BestLength, least: float) -> tuple[_BestLength, Refusal]:
        """The plan of an option that cannot be chosen, and why."""
        if wanted.rate > least:
            return wanted, "paused" if self._ledger.balance < 0.0 else "risky"
        if option.lag > 1:
            read = self._best(option._replace(lag=0))
            if read.rate > least:
                return read, "unread"
        return wanted, "small"

    def _best(
        self, option: DraftOption, affordable: float = math.inf, longest: int = LONGEST_DRAFT
    ) -> _BestLength:
        """The k of at least 1 with the most tokens a second; k is 0 if none is affordable."""
        costs = self.costs
        draft = self._draft_seconds.get(option.proposer, 0.0)
        scale = costs.scale
        extra = costs.return_cost + (option.lag * self._reading(option.proposer) if option.lag else 0.0)
        if self._replayed:
            extra += self._replayed * costs.per_token
        longest = min(len(option.forecast), longest)
        expected, best, best_rate, best_cost = 1.0, 0, 0.0, 0.0
        # Padding keeps a pass about as cheap as any wider one, so costs only rise with k.
        for k, (survival, seconds) in enumerate(zip(option.forecast, costs.drafted, strict=False), start=1):
            extra += draft
            expected += survival
            cost = scale * seconds + extra
            if k > longest or cost > affordable:
                break
            if expected > best_rate * cost:
                best, best_rate, best_cost = k, expected / cost, cost
            elif expected + survival * (longest - k) < best_rate * cost:
                # It gains nothing even if all the rest are as likely as this one.
                break
        return _BestLength(best, best_rate, best_cost)

    def _stopping(self, option: DraftOption, best: _BestLength, affordable: float) -> tuple[int, float]:
        """How far a draft may go while its model is confident, and the chance at which it must stop."""
        costs = self.costs
        draft = self._draft_seconds.get(option.proposer, 0.0)

        def cost(k: int) -> float:
            return costs.scale * costs.drafted[k - 1] + k * draft

        longest = min(2 * best.k, len(option.forecast), LONGEST_DRAFT)
        spare = affordable - best.cost + cost(best.k)
        while longest > best.k and cost(longest) > spare:
            longest -= 1
        one_more = (cost(longest) - costs.plain) / longest
        return longest, best.rate * one_more / max(option.forecast[0], 0.01)

    def _reading(self, proposer: str) -> float:
        return self._read_seconds.get(proposer, _READING * self._draft_seconds.get(proposer, 0.0))

    def observe(self, entry: Pass) -> None:
        """A pass was made."""
        costs, drafted = self.costs, len(entry.drafted)
        width = drafted + 1 + entry.padded + entry.replayed
        if self._last_drafted:
            self._replayed += _COST_STEP * (entry.replayed - self._replayed)
        if costs.known:
            self._ledger.settle(entry, width, costs, self._after_draft)
        costs.observe(width, entry.target_seconds)
        if drafted:
            self._drafts_made += 1
            self._drafted_seconds += entry.seconds
            each = (entry.proposer_seconds - entry.reading_seconds) / drafted
            before = self._draft_seconds.get(entry.proposer, each)
            self._draft_seconds[entry.proposer] = before + _COST_STEP * (each - before)
        elif not self._after_draft:
            self._drafts_made, self._drafted_seconds = 0, 0.0
        self._last_drafted = drafted > 0
        self._after_draft = drafted > 0 or entry.replayed > 0
