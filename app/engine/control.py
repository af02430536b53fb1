"""How many tokens to draft: the k with the most expected tokens for its expected time.

    E[committed | k] = 1 + sum over j <= k of S_j,   S_j = the chance that the first j are accepted
    choose the k that maximises E[committed | k] / (c(k + 1) + D(k)),   k = 0 included

S is the proposer's own forecast, c is measured (see costs.py), D is the proposer's own time, what it has to
read before it can draft included, what the change of width costs the pass after it, and what that pass reads
again where memory cannot be cut. Every k is looked at: real cost curves jump, and a marginal test would stop
before a cheap width. Where a wider pass is cheaper, the pass is filled up to it. Plain decoding is left for a
gain of 5 % or more.

A draft model knows more once it has drafted: it may go on to twice that k while it is sure, and stops where
one more token would add less than the pass earns on average.

A ledger bounds what speculation can cost. It is kept in measured seconds: it earns c(1) for each token
committed, and BUDGET of that besides, and pays for all that plain decoding would not have done: drafted
passes, the slower plain pass behind one, reading, choosing, looking up. A draft is made where the ledger
could pay its price and owe no more than one plain pass afterwards, were all of it rejected. What it holds
is bounded, so that a good evening does not pay for a bad page.

    L: seconds lost against plain decoding after N tokens.  c: the costliest drafted pass that was made.

    1. L <= BUDGET · N · c(1) + c.  Before a draft the ledger owes c(1) at most, and it earns c(1) with the
       pass, so afterwards it owes at most what the pass took, however wrong its price was: and then no draft
       is made until it has recovered. Errors of remembered costs or acceptance never add up. Where prices
       are right, c(1) stands in place of c.
    2. While it cannot pay, a draft is made all the same where its proposer would have had the last R tokens
       right, one after another, without being asked: that evidence cost nothing. R begins at FIRST_RUN and
       doubles with each such try that loses, until nothing is owed any more. The i-th lost try needs a run
       of 2^(i-1) · FIRST_RUN tokens, so there are at most 1 + log2(N / FIRST_RUN), and each costs c at most.
    3. What a draft model takes to read a prompt, R, is owed apart: it is paid from what drafts gain and from
       BUDGET, and no other prompt is read before that is done.

    Together: L <= BUDGET · N · c(1) + (2 + log2(N / FIRST_RUN)) · c + R on any text.

c(1) is never taken from memory: a reply begins with two plain passes where none were timed at its depth, and
after REFRESH drafted passes two plain ones are made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from app.engine.costs import CostCurve, PassCosts
from app.engine.events import ExpectedGain, Pass, Pause, Refusal

# Longest draft that is considered.
LONGEST = 32
# Widths at which real cost curves bend or jump: quantised rows run in groups of four on a CPU, and
# GPU kernels change at nine. The most telling first, as there may be no time for all.
WIDTHS = (2, 8, 4, 17, 33, 6, 12, 3, 9, 25)
# Share of plain decoding's time that speculation may cost where it comes to nothing.
BUDGET = 0.015
# Right guesses in a row that allow a draft while the ledger is in debt.
FIRST_RUN = 8
# Drafted passes, and seconds, after which plain decoding's speed is measured anew.
REFRESH, _REFRESH_SECONDS = 64, 0.7
# Where no proposer had anything worth a try so often in a row, none is asked for so many passes: asking costs
# time as well. A repetition is noticed that much later, which replays show to cost less than a thousandth.
HOPELESS, REST = 16, 5
# A draft has to promise so much more than plain decoding: the best of many estimates is mostly too good.
LEAST_GAIN = 1.05
# What was gained long ago does not pay for a bad stretch now: so many plain passes at most.
_SAVINGS = 25
# A pass that takes so many times what its width usually takes was held up by something else.
_HELD_UP = 2.0
_COST_STEP = 0.2
# Until it was seen what passes take: tokens that may be read again along with others.
_PATIENCE = 8
# Until it was seen what a draft model takes to read a token: this share of drafting one.
_READING = 0.25


class DraftOption(NamedTuple):
    """What a proposer could do in the next pass.

    forecast: the chances that the first 1, 2, … tokens of its proposal are all accepted; k is at most
    its length. lag: tokens that it has to read first. stops_early: whether it drafts token by token.
    hit_streak: how many of the last tokens its guesses would have had right, in a row.
    """

    proposer: str
    forecast: Sequence[float]
    lag: int = 0
    stops_early: bool = False
    hit_streak: int = 0


class DraftChoice(NamedTuple):
    """option: an index into the options. k: tokens to draft at most, 0 for plain decoding. threshold: the
    chance of acceptance below which a draft ends. values, pause: why."""

    option: int
    k: int
    threshold: float
    values: tuple[ExpectedGain, ...]
    pause: Pause | None = None


_PLAIN = DraftChoice(0, 0, 0.0, (), "measuring")


class _Best(NamedTuple):
    """An option's best draft length, expected tokens a second with it, the pass's seconds."""

    k: int
    rate: float
    cost: float


class Controller(Protocol):
    """Chooses draft lengths and learns from passes."""

    @property
    def least_chance(self) -> float:
        """The chance below which a draft's first token makes every draft a loss."""

    @property
    def measured(self) -> Sequence[PassCosts]:
        """Costs of passes that were measured, as of now."""

    @property
    def patience(self) -> int:
        """How many tokens may be read again along with others before a pass for them alone costs less."""

    def unmeasured(self, depth: int, seconds: float = math.inf) -> Sequence[int]:
        """Widths whose cost at about this depth it wants to be measured, and that so many seconds allow."""

    def calibrate(self, measured: PassCosts) -> None:
        """Take costs that were measured just now."""

    def begin(self) -> None:
        """Another reply begins."""

    def asks(self) -> bool:
        """Whether proposers are asked for the next pass; where not, it is plain and not observed."""

    def at_depth(self, depth: int) -> None:
        """The next pass begins behind so many tokens."""

    def choose(self, options: Sequence[DraftOption]) -> DraftChoice:
        """Who drafts in the next pass, and how many tokens."""

    def promising(self, option: DraftOption) -> bool:
        """Whether it would be chosen over plain decoding, had it read all and were it affordable."""

    def padding(self, drafted: int, room: int) -> int:
        """Throw-away positions, at most `room`, that make a pass over so many drafted tokens cheaper."""

    def synced(self, proposer: str, tokens: int, seconds: float) -> None:
        """A proposer's model read so many tokens that it had missed."""

    def observe(self, entry: Pass) -> None:
        """A pass was made."""


class ThroughputController:
    """Expected tokens over expected time, from this machine's own passes.

    Plain floats throughout: a decision is made before each pass, when no cache is warm.
    """

    def __init__(self, remembered: Sequence[PassCosts] = ()) -> None:
        """remembered: costs that an earlier run measured."""
        self._costs = CostCurve(LONGEST + 1)
        self._costs.remember(remembered)
        # By proposer: seconds to draft a token, and to read one.
        self._draft_seconds: dict[str, float] = {}
        self._read_seconds: dict[str, float] = {}
        # Seconds that drafts may take in vain, less one plain pass.
        self._ledger = 0.0
        # Seconds of reading that were not earned yet.
        self._owed = 0.0
        # Right guesses in a row that a draft in debt needs now, and whether the last draft was one.
        self._run_needed = FIRST_RUN
        self._on_credit = False
        # Whether the last pass was drafted, and whether it was wider than plain for the sake of a draft.
        self._last_drafted = False
        self._behind_draft = False
        # Tokens that a drafted pass leaves to be read again, where memory cannot be cut.
        self._replayed = 0.0
        # Drafted passes, and their seconds, since plain decoding was last measured.
        self._drafts_made = 0
        self._drafted_seconds = 0.0
        # How often in a row no proposer had anything worth a try, and passes for which none is asked.
        self._hopeless = self._resting = 0
        # The least chance, and the prices that it was computed from.
        self._least = math.inf
        self._least_of: Sequence[float] = ()

    @property
    def measured(self) -> Sequence[PassCosts]:
        return self._costs.measured

    @property
    def patience(self) -> int:
        costs = self._costs
        # As many as take the time of a plain pass: then at most twice of what was best is spent.
        return int(min(costs.plain / costs.each, LONGEST)) if costs.known and costs.each > 0.0 else _PATIENCE

    def unmeasured(self, depth: int, seconds: float = math.inf) -> Sequence[int]:
        return self._costs.unmeasured(depth, WIDTHS, seconds)

    def calibrate(self, measured: PassCosts) -> None:
        """Take costs by width. Where not even a plain pass could be measured, nothing is drafted."""
        if 1 in measured.seconds:
            self._costs.take(measured)

    def begin(self) -> None:
        self._hopeless = self._resting = 0

    def asks(self) -> bool:
        if self._resting:
            self._resting -= 1
            return False
        return True

    def at_depth(self, depth: int) -> None:
        self._costs.at_depth(depth)

    @property
    def least_chance(self) -> float:
        costs = self._costs
        if not costs.known:
            return math.inf
        if costs.drafted is not self._least_of:
            # Not even a draft whose every token were as likely as its first could gain more.
            plain = costs.shape[1]
            self._least_of = costs.drafted
            relative = (LEAST_GAIN * each / plain for each in costs.drafted)
            self._least = min((cost - 1.0) / k for k, cost in enumerate(relative, start=1))
        return self._least

    def choose(self, options: Sequence[DraftOption]) -> DraftChoice:
        costs = self._costs
        self._on_credit = False
        stale = self._drafts_made >= REFRESH and self._drafted_seconds >= _REFRESH_SECONDS
        if stale or not costs.known:
            return _PLAIN
        plain = costs.plain
        affordable = self._ledger + 2 * plain
        least = LEAST_GAIN / plain
        chosen, best, on_credit = 0, _Best(0, least, plain), False
        values = []
        for index, option in enumerate(options):
            if not option.forecast:
                continue
            wanted = within = self._best(option, costs)
            proven = wanted.cost > affordable and option.hit_streak >= self._run_needed
            if proven:
                within = self._best(option, costs, longest=option.hit_streak)
            elif wanted.cost > affordable:
                within = self._best(option, costs, affordable)
            if within.k and within.rate > best.rate:
                chosen, best, on_credit = index, within, proven
            plan, refused = (within, None) if within.rate > least else self._refused(option, wanted, least)
            values.append(ExpectedGain(option.proposer, plan.k, plan.rate * plain - 1.0, refused))
        self._on_credit = on_credit
        self._hopeless = 0 if any(each.k for each in values) else self._hopeless + 1
        self._resting = REST if self._hopeless >= HOPELESS else 0
        if best.k == 0 or not options[chosen].stops_early:
            return DraftChoice(chosen, best.k, 0.0, tuple(values))
        return DraftChoice(chosen, *self._stopping(options[chosen], best, costs, affordable), tuple(values))

    def promising(self, option: DraftOption) -> bool:
        costs = self._costs
        if self._owed > 0.0:
            return False
        return not costs.known or self._best(option._replace(lag=0), costs).rate * costs.plain > LEAST_GAIN

    def padding(self, drafted: int, room: int) -> int:
        if drafted == 0 or not self._costs.known:
            return 0
        padding = self._costs.cheapest[drafted + 1] - (drafted + 1)
        return padding if padding <= room else 0

    def synced(self, proposer: str, tokens: int, seconds: float) -> None:
        each = seconds / tokens
        before = self._read_seconds.get(proposer, each)
        self._read_seconds[proposer] = before + _COST_STEP * (each - before)
        self._owed += seconds

    def _refused(self, option: DraftOption, wanted: _Best, least: float) -> tuple[_Best, Refusal]:
        """The plan of an option that cannot be taken, and why."""
        if wanted.rate > least:
            return wanted, "paused" if self._ledger < 0.0 else "risky"
        if option.lag > 1:
            read = self._best(option._replace(lag=0), self._costs)
            if read.rate > least:
                return read, "unread"
        return wanted, "small"

    def _best(
        self, option: DraftOption, costs: CostCurve, affordable: float = math.inf, longest: int = LONGEST
    ) -> _Best:
        """The k of at least 1 with the most tokens a second; k 0 where there is none."""
        draft = self._draft_seconds.get(option.proposer, 0.0)
        scale = costs.scale
        extra = costs.back + (option.lag * self._reading(option.proposer) if option.lag else 0.0)
        if self._replayed:
            extra += self._replayed * costs.each
        longest = min(len(option.forecast), longest)
        expected, best, best_rate, best_cost = 1.0, 0, 0.0, 0.0
        # A filled-up pass takes no longer than a wider one, but for the margin: costs only rise with k.
        for k, (survival, seconds) in enumerate(zip(option.forecast, costs.drafted, strict=False), start=1):
            extra += draft
            expected += survival
            cost = scale * seconds + extra
            if k > longest or cost > affordable:
                break
            if expected > best_rate * cost:
                best, best_rate, best_cost = k, expected / cost, cost
            elif expected + survival * (longest - k) < best_rate * cost:
                # Not even if all the rest were as likely as this one.
                break
        return _Best(best, best_rate, best_cost)

    def _stopping(
        self, option: DraftOption, best: _Best, costs: CostCurve, affordable: float
    ) -> tuple[int, float]:
        """How far a draft may go while its model is sure, and the chance of acceptance that still pays."""
        draft = self._draft_seconds.get(option.proposer, 0.0)

        def cost(k: int) -> float:
            return costs.scale * costs.drafted[k - 1] + k * draft

        longest = min(2 * best.k, len(option.forecast), LONGEST)
        spare = affordable - best.cost + cost(best.k)
        while longest > best.k and cost(longest) > spare:
            longest -= 1
        one_more = (cost(longest) - costs.plain) / longest
        return longest, best.rate * one_more / max(option.forecast[0], 0.01)

    def _reading(self, proposer: str) -> float:
        return self._read_seconds.get(proposer, _READING * self._draft_seconds.get(proposer, 0.0))

    def observe(self, entry: Pass) -> None:
        costs, drafted = self._costs, len(entry.drafted)
        width = drafted + 1 + entry.padded + entry.replayed
        if self._last_drafted:
            self._replayed += _COST_STEP * (entry.replayed - self._replayed)
        if costs.known:
            self._settle(entry, width)
        costs.observe(width, entry.target_seconds)
        if drafted:
            self._drafts_made += 1
            self._drafted_seconds += entry.seconds
            each = (entry.proposer_seconds - entry.reading_seconds) / drafted
            before = self._draft_seconds.get(entry.proposer, each)
            self._draft_seconds[entry.proposer] = before + _COST_STEP * (each - before)
        elif not self._behind_draft:
            self._drafts_made, self._drafted_seconds = 0, 0.0
        self._last_drafted = drafted > 0
        self._behind_draft = drafted > 0 or entry.replayed > 0

    def _settle(self, entry: Pass, width: int) -> None:
        """What a pass earned and what it has to pay, see above."""
        costs, plain = self._costs, self._costs.plain
        if entry.drafted or self._behind_draft:
            # What holds up a pass of usual length holds up plain decoding as well.
            most = _HELD_UP * costs.price(width) if costs.usual(width) else math.inf
            spent = entry.seconds - entry.reading_seconds - max(0.0, entry.target_seconds - most)
            gained = entry.committed * plain - spent
        else:
            gained = entry.reading_seconds - entry.speculation_seconds
        if self._on_credit and entry.drafted and gained < 0.0:
            self._run_needed *= 2
        earned = BUDGET * entry.committed * plain + gained
        if self._owed > 0.0 < earned:
            paid = min(earned, self._owed)
            self._owed -= paid
            earned -= paid
        self._ledger = min(self._ledger + earned, _SAVINGS * plain)
        if self._ledger >= 0.0:
            self._run_needed = FIRST_RUN
