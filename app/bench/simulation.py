"""Recorded replies and pass costs in place of a model: what each pass would have cost, exactly.

The first token of a reply comes from the prefill and is not counted. In each pass the proposer sees the
prompt and the reply so far; a draft is compared with what follows; the pass commits the part that agrees and
one token more, never more than the reply has left. A pass with a draft of k tokens after d tokens costs
c(1 + k, d); plain decoding costs c(1, d) for each token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import geometric_mean

import numpy as np

from app.bench.record import CostTable, RecordedReply
from app.engine.control import Controller, DraftOption
from app.engine.costs import PassCosts
from app.engine.events import Pass
from app.engine.sampling import Sampler
from app.engine.settings import LONGEST_DRAFT, Sampling
from proposers.lookup import Lookup

FIXED_LENGTHS = (0, 1, 2, 4, 8, 16, 32)
FIXED_MATCHES = (1, 2, 3, 6)
_STAGES = 8


@dataclass(frozen=True, slots=True)
class FixedSetting:
    """A fixed draft length, and the fewest tokens that must match before anything is drafted."""

    k: int
    minimum_match: int

    def __str__(self) -> str:
        return f"k {self.k}, match {self.minimum_match}"


@dataclass(frozen=True, slots=True)
class Speedups:
    """Speedups over plain decoding in one category: of the controller, of the fixed setting that is best in
    hindsight, and of an oracle that knows of each pass what will be accepted."""

    category: str
    auto: float
    best_static: float
    oracle: float
    best_static_setting: FixedSetting


@dataclass(frozen=True, slots=True)
class LearningStage:
    """Some replies in a row: auto's speed over that of the fixed setting that is best for each category in
    hindsight, and over the oracle's."""

    over_static: float
    over_oracle: float


class Auto:
    """Lookup and controller as the chat uses them; they learn from one reply to the next."""

    def __init__(self, costs: CostTable, learned: Sequence[float] = ()) -> None:
        """learned: what lookup knows from earlier runs, () for nothing."""
        self._costs = costs
        self._lookup = Lookup()
        self._lookup.restore_acceptance(learned)
        self._controller = Controller()
        self._sampler = Sampler(Sampling(temperature=0.0))
        self._rng = np.random.default_rng(0)
        self._asked = True

    def begin(self, history: list[int]) -> None:
        """Another reply. Widths that were not measured at this depth are measured."""
        depth = len(history) - 1
        widths = self._controller.costs.unmeasured(depth)
        if widths:
            seconds = {width: self._costs.at(width, depth) for width in (1, *widths)}
            self._controller.costs.calibrate(PassCosts(depth, seconds))
        self._controller.begin()
        self._lookup.begin(history)

    def draft(self, history: list[int], left: int) -> tuple[int, ...]:
        """Tokens that may follow. history: prompt and reply so far; left: tokens a draft may have at most."""
        controller, lookup = self._controller, self._lookup
        self._asked = controller.may_draft()
        if not self._asked:
            return ()
        controller.costs.set_depth(len(history) - 1)
        forecast = lookup.forecast(history, min(LONGEST_DRAFT, left), controller.min_chance)
        k = controller.choose([DraftOption(lookup.name, forecast, hit_streak=lookup.hit_streak)]).k
        if k == 0:
            return ()
        return lookup.propose(history, k, self._sampler, self._rng).tokens

    def observe(self, history: list[int], drafted: tuple[int, ...], accepted: int, seconds: float) -> None:
        if not self._asked:
            return
        self._lookup.observe(history)
        committed = tuple(history[len(history) - accepted - 1 :])
        self._controller.observe(
            Pass("lookup", drafted, accepted, accepted + 1, committed, (), "", seconds, seconds, 0.0)
        )

    def reply_cost(self, recorded: RecordedReply) -> float:
        """Seconds of all passes of a reply."""
        total, done = 0.0, 1
        history = [*recorded.prompt, recorded.reply[0]]
        self.begin(history)
        while done < len(recorded.reply):
            following = recorded.reply[done:]
            drafted = self.draft(history, len(following) - 1)
            accepted = agreeing(drafted, following)
            seconds = self._costs.at(1 + len(drafted), len(history) - 1)
            history.extend(following[: accepted + 1])
            done += accepted + 1
            self.observe(history, drafted, accepted, seconds)
            total += seconds
        return total


@dataclass(frozen=True, slots=True)
class Copy:
    """What lookup would copy at one place of a reply: length of the match, how many of the copied tokens
    agree with what follows (at most LONGEST_DRAFT), and the depth of the pass."""

    match: int
    agreeing: int
    depth: int


def copies_of(recorded: RecordedReply) -> list[Copy]:
    """The copy at each place of the reply but the first: the same whatever was drafted before."""
    lookup = Lookup()
    sampler, rng = Sampler(Sampling(temperature=0.0)), np.random.default_rng(0)
    history = [*recorded.prompt, recorded.reply[0]]
    lookup.begin(history)
    found = []
    for done in range(1, len(recorded.reply)):
        following = recorded.reply[done:]
        drafted = lookup.propose(history, LONGEST_DRAFT, sampler, rng).tokens
        found.append(Copy(lookup.match.length, agreeing(drafted, following), len(history) - 1))
        history.append(recorded.reply[done])
        lookup.observe(history)
    return found


def agreeing(drafted: Sequence[int], following: Sequence[int]) -> int:
    """How many tokens of a draft agree with what follows, up to the first that does not."""
    for count, (guessed, token) in enumerate(zip(drafted, following, strict=False)):
        if guessed != token:
            return count
    return min(len(drafted), len(following))


def reply_cost(copies: Sequence[Copy], costs: CostTable, length: Callable[[Copy, int], int]) -> float:
    """Seconds of all passes of a reply where `length` decides how much of each copy is drafted, given how
    many tokens the reply has left."""
    seconds, done = 0.0, 0
    while done < len(copies):
        copy, left = copies[done], len(copies) - done - 1
        drafted = min(length(copy, left), left)
        seconds += costs.at(1 + drafted, copy.depth)
        done += min(drafted, copy.agreeing) + 1
    return seconds


def fixed_length(setting: FixedSetting) -> Callable[[Copy, int], int]:
    """Always the same, wherever the match is long enough."""
    return lambda copy, left: setting.k if copy.match >= setting.minimum_match else 0


def oracle_length(costs: CostTable) -> Callable[[Copy, int], int]:
    """Of the tokens that will be accepted, as many as pay best in this pass."""

    def length(copy: Copy, left: int) -> int:
        longest = min(copy.agreeing, left, LONGEST_DRAFT)
        return max(range(longest + 1), key=lambda k: ((k + 1) / costs.at(k + 1, copy.depth), -k))

    return length


class Replay:
    """What every way to draft takes for each of the recorded replies."""

    def __init__(self, replies: Sequence[RecordedReply], costs: CostTable) -> None:
        self._replies, self._costs = replies, costs
        copies = [copies_of(each) for each in replies]
        auto, oracle = Auto(costs), oracle_length(costs)
        self.auto = [auto.reply_cost(each) for each in replies]
        self.oracle = [reply_cost(each, costs, oracle) for each in copies]
        settings = [FixedSetting(k, match) for k in FIXED_LENGTHS for match in FIXED_MATCHES]
        self.fixed = {
            setting: [reply_cost(each, costs, fixed_length(setting)) for each in copies]
            for setting in settings
        }

    def by_category(self) -> dict[str, Speedups]:
        """All speedups in each category."""
        fixed = {setting: self._speedups(spent) for setting, spent in self.fixed.items()}
        oracle = self._speedups(self.oracle)
        found = {}
        for category, auto in self._speedups(self.auto).items():
            best = max(fixed, key=lambda setting: fixed[setting][category])
            found[category] = Speedups(category, auto, fixed[best][category], oracle[category], best)
        return found

    def _speedups(self, spent: Sequence[float]) -> dict[str, float]:
        return speedups(self._replies, self._costs, spent)

    def stages(self) -> list[LearningStage]:
        """How near auto is to the best while it learns: the replies in up to eight parts, in their order."""
        best = {category: each.best_static_setting for category, each in self.by_category().items()}
        fixed = [self.fixed[best[each.category]][index] for index, each in enumerate(self._replies)]
        parts = min(_STAGES, len(self._replies))
        borders = [len(self._replies) * part // parts for part in range(parts + 1)]
        return [
            LearningStage(
                sum(fixed[start:end]) / sum(self.auto[start:end]),
                sum(self.oracle[start:end]) / sum(self.auto[start:end]),
            )
            for start, end in pairwise(borders)
        ]


def speedups(replies: Sequence[RecordedReply], costs: CostTable, spent: Sequence[float]) -> dict[str, float]:
    """By category: what plain decoding takes, over what was spent on each reply."""
    plain: dict[str, float] = {}
    taken: dict[str, float] = {}
    for each, seconds in zip(replies, spent, strict=True):
        depths = range(len(each.prompt), len(each.prompt) + len(each.reply) - 1)
        plain[each.category] = plain.get(each.category, 0.0) + sum(costs.at(1, depth) for depth in depths)
        taken[each.category] = taken.get(each.category, 0.0) + seconds
    return {category: plain[category] / seconds for category, seconds in taken.items()}


def means(found: Mapping[str, Speedups]) -> dict[str, float]:
    """Geometric means over the categories."""
    return {
        name: geometric_mean([getattr(each, name) for each in found.values()])
        for name in ("auto", "best_static", "oracle")
    }
