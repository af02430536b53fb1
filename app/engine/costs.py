"""The cost of a pass by its width and by how deep in the context it stands: measured, and kept current.

    c(n, d) = scale · what was measured of width n behind d tokens

Between measured widths and depths it is linear; a width that was only run at other depths costs as many
plain passes as there. Nothing is predicted beyond: a wider pass than was ever run costs as much per token as
the widest that was, so no draft gains by it, and a deeper one costs what the deepest does, until passes there
have moved it. What an earlier run measured gives proportions only: how fast the machine is now is not known
until a plain pass was timed at this depth.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

# How far a plain pass moves the whole surface. A wider pass moves its own width, as long as plain passes
# say how fast the machine is; the longer there was none (in seconds), the more it moves the whole surface.
_PLAIN_STEP, _WIDTH_STEP, _LATE_WIDTH_STEP, _LATE_STEP = 0.15, 0.15, 0.03, 0.2
_LATE = 0.3
# What holds a pass up only ever adds to it: a plain pass that is so much faster says more than a slower one.
_FASTER, _FASTER_STEP = 0.8, 0.5
# How far one plain pass behind a wider one moves what such a pass takes longer.
_RETURN_STEP = 0.1
# One pass that was held up by something else says this much at most, once it was seen so often what is usual.
_MOST, _USUAL = 2.0, 3
# Plain passes before a machine's speed counts as known: one alone may have been held up.
_SURE = 2
# As wide as a pass with a draft usually is.
_USUAL_WIDTH = 8
# A wider pass has to be so much cheaper before passes are filled up to it.
_CHEAPER = 0.97
# Depths count as the same within so many tokens, or within this share.
_NEAR_TOKENS, _NEAR_SHARE = 128, 0.25
# Measurements of one width that differ by more were made on two machines, or on one in two states.
_AGREE = 0.3
# Widths that were not run at a depth are taken from so many of the nearest, itself among them.
_NEAREST = 4
# The prices of a depth serve until the context has grown by so much, or by an eighth.
_STRIDE = 64


@dataclass(frozen=True, slots=True)
class PassCosts:
    """Seconds of passes by width behind `depth` tokens; only widths that were run, 1 among them.

    load: of the machine when they were measured (the system's load average), 0 where it does not tell.
    """

    depth: int
    seconds: Mapping[int, float]
    load: float = 0.0


@dataclass(slots=True)
class _Knot:
    """One depth's costs. seen: how often each width was run in this process."""

    depth: int
    seconds: dict[int, float]
    load: float
    seen: dict[int, int] = field(default_factory=dict)


class CostCurve:
    """Seconds by width, for every width up to the longest, behind the depth that was asked for last.

    A pass as wide as the one before it is cheaper: llama.cpp builds its graph anew for another width. Wide
    passes are mostly alone, so this is part of their cost; the plain pass that follows pays it once more,
    and that is what `back` holds. A drafted pass is charged with it, else plain decoding looks
    dearer than it is.

    shape: seconds by width, over `scale`; index 0 is unused. drafted: the same by tokens drafted (1, 2, …),
    of the cheapest pass that is no narrower; it never falls. cheapest: that pass's width, by width. Most
    passes move the scale alone, which costs them next to nothing.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._knots: list[_Knot] = []
        # Where the passes stand; where they stood when the prices were computed, and how long those serve.
        self._depth = 0
        self._priced, self._stride = 0, _STRIDE
        # Plain passes timed since the depth last changed by much, the depth of the last one, and how far from
        # it counts as the same.
        self._plain_seen = 0
        self._plain_depth, self._plain_reach = 0, _reach(0)
        # Seconds of wider passes since.
        self._since = 0.0
        # What a plain pass behind a wider one takes longer, as a share of a plain pass.
        self._back = 0.0
        self._before = 1
        self.scale = 1.0
        self.shape: list[float] = []
        self.cheapest: list[int] = []
        self.drafted: list[float] = []

    @property
    def known(self) -> bool:
        """Whether there is anything to choose by: widths, and plain passes that were timed at this depth."""
        return bool(self._knots) and self._plain_seen >= _SURE

    @property
    def plain(self) -> float:
        return self.scale * self.shape[1]

    def price(self, width: int) -> float:
        """Seconds of a pass of this width."""
        return self.scale * self.shape[width]

    @property
    def each(self) -> float:
        """Seconds that one more token in a pass takes, in those of usual width."""
        wide = min(_USUAL_WIDTH, self._longest)
        return self.scale * (self.shape[wide] - self.shape[1]) / max(1, wide - 1)

    @property
    def seconds(self) -> dict[int, float]:
        """Seconds of a pass by width."""
        return {width: self.scale * each for width, each in enumerate(self.shape) if width}

    @property
    def back(self) -> float:
        """Seconds that a drafted pass costs the plain one after it; 0 where the one before it has been
        charged with them."""
        return self._back * self.plain if self._before == 1 else 0.0

    @property
    def measured(self) -> tuple[PassCosts, ...]:
        """What was run, as of now: nothing that was read between or beyond measurements."""
        return tuple(
            PassCosts(knot.depth, {n: self.scale * each for n, each in knot.seconds.items()}, knot.load)
            for knot in self._knots
        )

    def remember(self, measured: Iterable[PassCosts]) -> None:
        """Start from what another run measured."""
        for each in measured:
            self._put(_Knot(each.depth, dict(each.seconds), each.load))

    def take(self, measured: PassCosts) -> None:
        """What was measured just now."""
        factor = 1.0 / self.scale
        seconds = {width: factor * each for width, each in measured.seconds.items()}
        near = self.near(measured.depth)
        if near is not None:
            # The machine's speed of now holds for all depths.
            change = seconds[1] / near.seconds[1]
            for knot in self._knots:
                knot.seconds = {width: change * each for width, each in knot.seconds.items()}
            remembered = {width: each for width, each in near.seconds.items() if width not in seconds}
            if all(_agree(seconds[width], near.seconds[width]) for width in seconds if width in near.seconds):
                seconds = {**remembered, **seconds}
            self._knots.remove(near)
        self._put(_Knot(measured.depth, seconds, measured.load, dict.fromkeys(measured.seconds, _USUAL)))
        self._plain_seen = _SURE
        self._plain_depth, self._plain_reach = measured.depth, _reach(measured.depth)

    def near(self, depth: int) -> _Knot | None:
        """What was measured at about this depth."""
        close = [knot for knot in self._knots if abs(knot.depth - depth) <= _reach(knot.depth)]
        return min(close, key=lambda knot: abs(knot.depth - depth), default=None)

    def unmeasured(self, depth: int, widths: Sequence[int], seconds: float = math.inf) -> tuple[int, ...]:
        """Those of the widths that were never run at about this depth. Where others were, only those that
        can be run within so many seconds, with the plain passes that they are compared with."""
        near = self.near(depth)
        if near is None:
            return tuple(widths)
        plain = self.scale * near.seconds[1]
        each = self.scale * min(cost / width for width, cost in near.seconds.items())
        return tuple(
            width for width in widths if width not in near.seconds and 2 * plain + width * each <= seconds
        )

    def _put(self, new: _Knot) -> None:
        """Keep the knots in their order, and plain passes no cheaper the deeper they stand: where an earlier
        measurement says so, the machine was slower then."""
        for knot in self._knots:
            shallower = knot.depth < new.depth
            if (knot.seconds[1] > new.seconds[1]) == shallower:
                factor = new.seconds[1] / knot.seconds[1]
                knot.seconds = {width: factor * each for width, each in knot.seconds.items()}
        self._knots.append(new)
        self._knots.sort(key=lambda knot: knot.depth)
        self._price()

    def at_depth(self, depth: int) -> None:
        """Make the costs those of passes behind so many tokens."""
        self._depth = depth
        if abs(depth - self._plain_depth) > self._plain_reach:
            self._plain_seen = 0
        if abs(depth - self._priced) >= self._stride and self._knots:
            self._price()

    def observe(self, width: int, seconds: float) -> None:
        """A pass of this width took so long, at the depth where the costs stand."""
        before, self._before = self._before, width
        if not self._knots or not 1 <= width <= self._longest or seconds <= 0.0:
            return
        ratio = seconds / (self.scale * self.shape[width])
        if width > 1:
            self._since += seconds
            self._learn(width, ratio)
            return
        self._plain_seen += 1
        self._plain_depth, self._plain_reach = self._depth, _reach(self._depth)
        if self._plain_seen == 1:
            self.scale *= ratio / (1.0 + self._back if before > 1 else 1.0)
        elif before > 1:
            ratio = _clipped(ratio)
            self._back = max(0.0, self._back + _RETURN_STEP * (ratio - 1.0 - self._back))
            self.scale *= 1.0 + _RETURN_STEP * (ratio - 1.0 - self._back)
        elif self._plain_seen == 2 and ratio < 1.0:
            self.scale *= ratio
        else:
            step = _FASTER_STEP if ratio < _FASTER else _PLAIN_STEP
            self.scale *= 1.0 + step * (_clipped(ratio) - 1.0)
            self._since = 0.0

    def usual(self, width: int) -> bool:
        """Whether this width was run often enough to tell what is usual from a pass that was held up."""
        if width == 1:
            return self._plain_seen > _USUAL
        return any(knot.seen.get(width, 0) >= _USUAL for knot, weight in self._beside() if weight >= 0.5)

    def _learn(self, width: int, ratio: float) -> None:
        late = min(1.0, self._since / _LATE)
        usual = self.usual(width)
        ratio = _clipped(ratio) if usual else ratio
        least = (1.0 - late) * _WIDTH_STEP + late * _LATE_WIDTH_STEP
        for knot, weight in self._beside():
            seen = knot.seen.get(width, 0)
            change = 1.0 + weight * max(least, 1 / (seen + 1)) * (ratio - 1.0)
            if width in knot.seconds:
                knot.seconds[width] = change * max(knot.seconds[width], knot.seconds[1])
            elif weight >= 0.5:
                knot.seconds[width] = self.shape[width] * change
            knot.seen[width] = seen + (weight >= 0.5)
        if usual:
            self.scale *= 1.0 + late * _LATE_STEP * (ratio - 1.0)
        self._price()

    def _beside(self) -> list[tuple[_Knot, float]]:
        """The knots on both sides of the depth, with what each weighs there."""
        deeper = next((index for index, knot in enumerate(self._knots) if knot.depth > self._depth), None)
        if deeper is None:
            return [(self._knots[-1], 1.0)]
        if deeper == 0:
            return [(self._knots[0], 1.0)]
        first, second = self._knots[deeper - 1], self._knots[deeper]
        share = (self._depth - first.depth) / (second.depth - first.depth)
        return [(first, 1.0 - share), (second, share)]

    def _completed(self, knot: _Knot) -> dict[int, float]:
        """A depth's costs with the widths that were only run at other depths: as many plain passes as at the
        nearest of those, and more by as much as the widest pass that both know has become longer."""
        seconds = dict(knot.seconds)
        for other in sorted(self._knots, key=lambda other: abs(other.depth - knot.depth))[1:_NEAREST]:
            plain = knot.seconds[1] / other.seconds[1]
            common = max(width for width in other.seconds if width in knot.seconds)
            growth = max(1.0, knot.seconds[common] / (plain * other.seconds[common]))
            for width, cost in other.seconds.items():
                seconds.setdefault(width, growth * plain * cost)
        return seconds

    def _price(self) -> None:
        self._priced, self._stride = self._depth, max(_STRIDE, self._depth // 8)
        shape = [0.0] * (self._longest + 1)
        for knot, weight in self._beside():
            if weight:
                each = filled(self._completed(knot), self._longest)
                shape = [one + weight * other for one, other in zip(shape, each, strict=True)]
        # No pass costs less than a plain one, and a wider pass stands in for a narrower that costs more.
        shape = [max(each, shape[1]) for each in shape]
        self.shape = shape
        self.cheapest = list(range(len(shape)))
        best = shape[-1]
        for width in range(len(shape) - 2, 0, -1):
            if best < _CHEAPER * shape[width]:
                self.cheapest[width] = self.cheapest[width + 1]
            best = min(best, shape[width])
        self.drafted = list(accumulate(reversed(shape[2:]), min))[::-1]


def _agree(one: float, other: float) -> bool:
    return abs(one - other) <= _AGREE * max(one, other)


def _reach(depth: int) -> float:
    """How far from a depth counts as the same."""
    return max(_NEAR_TOKENS, _NEAR_SHARE * depth)


def _clipped(ratio: float) -> float:
    return max(1 / _MOST, min(ratio, _MOST))


def filled(measured: Mapping[int, float], longest: int) -> list[float]:
    """Seconds of every width; index 0 is unused. Wider than was measured: as much a token as the widest."""
    widths = sorted(measured)
    filled = [0.0]
    for low, high in pairwise(widths):
        slope = (measured[high] - measured[low]) / (high - low)
        filled += [measured[low] + slope * step for step in range(high - low)]
    widest = widths[-1]
    filled += [measured[widest] * width / widest for width in range(widest, longest + 1)]
    return filled[: longest + 1]


def numbers_of(measured: Sequence[PassCosts]) -> tuple[float, ...]:
    """As numbers: for each depth its tokens, the load, how many widths, and each width with its seconds."""
    return tuple(
        number
        for each in measured
        for number in (
            float(each.depth),
            each.load,
            float(len(each.seconds)),
            *(part for width, cost in sorted(each.seconds.items()) for part in (float(width), cost)),
        )
    )


def measured_of(numbers: Sequence[float]) -> tuple[PassCosts, ...]:
    """The measurements of these numbers; () where they are none."""
    found: list[PassCosts] = []
    place = 0
    while place + 3 <= len(numbers):
        depth, load, count = numbers[place : place + 3]
        end = place + 3 + 2 * int(count)
        widths, costs = numbers[place + 3 : end : 2], numbers[place + 4 : end : 2]
        sound = (
            count == int(count) >= 1
            and depth == int(depth) >= 0
            and len(widths) == len(costs) == count
            and all(width == int(width) and 1 <= width <= 4096 for width in widths)
            and all(0.0 < cost < 3600.0 for cost in costs)
            and 1.0 in widths
        )
        if not sound:
            return ()
        seconds = {int(width): cost for width, cost in zip(widths, costs, strict=True)}
        found.append(PassCosts(int(depth), seconds, load))
        place = end
    return tuple(found) if place == len(numbers) else ()
