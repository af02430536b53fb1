"""The cost of a pass by its width and its depth in the context: measured, and kept up to date.

    c(n, d) = scale · what was measured for width n after d tokens

Between measured widths and depths costs are linear; a width measured only at other depths costs as many plain
passes as there. Nothing is extrapolated to be cheap: a pass wider than any measured costs as much per token
as the widest, so that no draft gains by it, and a deeper one costs as much as the deepest until passes there
have corrected it. Measurements of earlier runs give proportions only: how fast the machine is now is not
known until a plain pass has been timed at this depth.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

# Widths at which real cost curves bend or jump: quantised rows run in groups of four on a CPU, and GPU
# kernels change at nine. The most informative first, as there may not be time for all.
WIDTHS = (2, 8, 4, 17, 33, 6, 12, 3, 9, 25)
# How far a plain pass moves all costs. A wider pass moves the cost of its own width as long as plain passes
# tell how fast the machine is; the longer ago the last one was (in seconds), the more it moves all costs.
_PLAIN_STEP, _WIDTH_STEP, _LATE_WIDTH_STEP, _LATE_STEP = 0.15, 0.15, 0.03, 0.2
_LATE = 0.3
# Delays only ever add time, so a plain pass that is this much faster says more than a slower one.
_FASTER, _FASTER_STEP = 0.8, 0.5
# How far one plain pass after a wider one moves the extra time that such a pass takes.
_RETURN_STEP = 0.1
# The most by which a single pass may differ from its usual time, which is known after _USUAL passes.
_MOST, _USUAL = 2.0, 3
# Plain passes before the machine's speed counts as known: a single one may have been delayed.
_SURE = 2
# The usual width of a pass with a draft.
_USUAL_WIDTH = 8
# How much cheaper a wider pass must be for passes to be padded to it.
_CHEAPER = 0.97
# Depths count as the same within this many tokens, or within this share.
_NEAR_TOKENS, _NEAR_SHARE = 128, 0.25
# Measurements of one width that differ by more come from two machines, or from one in two states.
_AGREE = 0.3
# Widths not measured at a depth are taken from the nearest depths: this many, itself included.
_NEAREST = 4
# Prices are valid until the context has grown by this much, or by an eighth.
_STRIDE = 64


@dataclass(frozen=True, slots=True)
class PassCosts:
    """Seconds of passes by width, after `depth` tokens; only measured widths, which include 1.

    load: the system's load average when they were measured, 0 if it has none.
    """

    depth: int
    seconds: Mapping[int, float]
    load: float = 0.0


@dataclass(slots=True)
class _Knot:
    """A knot of the interpolation: costs at one depth. seen: how often each width was run in this process."""

    depth: int
    seconds: dict[int, float]
    load: float
    seen: dict[int, int] = field(default_factory=dict)


class CostCurve:
    """Seconds of a pass for every width up to the longest, at the depth given last.

    A pass as wide as the one before it is cheaper, because llama.cpp rebuilds its graph for another width.
    Wide passes rarely follow each other, so this is part of their cost. The plain pass after one pays it once
    more: `return_cost`, which is charged to the drafted pass, or plain decoding would look slower than it is.

    relative: seconds by width, over `scale`; index 0 is unused. drafted: the same by tokens drafted (1, 2,
    …), for the cheapest pass that is no narrower; it never falls. cheapest: the width of that pass, by width.
    Most passes change only the scale, which takes next to no time.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._knots: list[_Knot] = []
        # The current depth; the depth that prices were computed for, and the distance at which they expire.
        self._depth = 0
        self._priced, self._stride = 0, _STRIDE
        # Plain passes timed since the depth last changed much, the depth of the last one, and the distance
        # from it that counts as the same depth.
        self._plain_seen = 0
        self._plain_depth, self._plain_reach = 0, _reach(0)
        # Seconds of wider passes since then.
        self._since = 0.0
        # The extra time of a plain pass after a wider one, as a share of a plain pass.
        self._return_share = 0.0
        self._before = 1
        self.scale = 1.0
        self.relative: list[float] = []
        self.cheapest: list[int] = []
        self.drafted: list[float] = []

    @property
    def known(self) -> bool:
        """Whether there is enough to decide by: costs of widths, and plain passes timed at this depth."""
        return bool(self._knots) and self._plain_seen >= _SURE

    @property
    def plain(self) -> float:
        return self.scale * self.relative[1]

    def price(self, width: int) -> float:
        """Seconds of a pass of this width."""
        return self.scale * self.relative[width]

    @property
    def per_token(self) -> float:
        """Seconds that one more token adds to a pass of usual width."""
        wide = min(_USUAL_WIDTH, self._longest)
        return self.scale * (self.relative[wide] - self.relative[1]) / max(1, wide - 1)

    @property
    def return_cost(self) -> float:
        """Seconds that a drafted pass costs the plain one after it; 0 if the pass before was charged for
        them."""
        return self._return_share * self.plain if self._before == 1 else 0.0

    @property
    def measured(self) -> tuple[PassCosts, ...]:
        """Current costs of the widths and depths that were run, nothing interpolated."""
        return tuple(
            PassCosts(knot.depth, {n: self.scale * each for n, each in knot.seconds.items()}, knot.load)
            for knot in self._knots
        )

    def remember(self, measured: Iterable[PassCosts]) -> None:
        """Start from what an earlier run measured."""
        for each in measured:
            self._insert(_Knot(each.depth, dict(each.seconds), each.load))

    def calibrate(self, measured: PassCosts) -> None:
        """Use what was measured just now; nothing if not even a plain pass could be."""
        if 1 not in measured.seconds:
            return
        factor = 1.0 / self.scale
        seconds = {width: factor * each for width, each in measured.seconds.items()}
        near = self._nearest(measured.depth)
        if near is not None:
            # The machine's current speed holds for all depths.
            change = seconds[1] / near.seconds[1]
            for knot in self._knots:
                knot.seconds = {width: change * each for width, each in knot.seconds.items()}
            remembered = {width: each for width, each in near.seconds.items() if width not in seconds}
            if all(_agree(seconds[width], near.seconds[width]) for width in seconds if width in near.seconds):
                seconds = {**remembered, **seconds}
            self._knots.remove(near)
        self._insert(_Knot(measured.depth, seconds, measured.load, dict.fromkeys(measured.seconds, _USUAL)))
        self._plain_seen = _SURE
        self._plain_depth, self._plain_reach = measured.depth, _reach(measured.depth)

    def _nearest(self, depth: int) -> _Knot | None:
        """The measured costs at about this depth, if any."""
        close = [knot for knot in self._knots if abs(knot.depth - depth) <= _reach(knot.depth)]
        return min(close, key=lambda knot: abs(knot.depth - depth), default=None)

    def unmeasured(self, depth: int, seconds: float = math.inf) -> tuple[int, ...]:
        """Those of WIDTHS that were never run at about this depth. If others were, only those that take no
        more than these seconds, together with the plain passes they are compared with."""
        near = self._nearest(depth)
        if near is None:
            return WIDTHS
        plain = self.scale * near.seconds[1]
        each = self.scale * min(cost / width for width, cost in near.seconds.items())
        return tuple(
            width for width in WIDTHS if width not in near.seconds and 2 * plain + width * each <= seconds
        )

    def _insert(self, new: _Knot) -> None:
        """Keep depths sorted, and plain passes no cheaper at greater depths: where an earlier measurement
        says otherwise, the machine was slower then."""
        for knot in self._knots:
            shallower = knot.depth < new.depth
            if (knot.seconds[1] > new.seconds[1]) == shallower:
                factor = new.seconds[1] / knot.seconds[1]
                knot.seconds = {width: factor * each for width, each in knot.seconds.items()}
        self._knots.append(new)
        self._knots.sort(key=lambda knot: knot.depth)
        self._update_prices()

    def set_depth(self, depth: int) -> None:
        """Use the costs of passes after `depth` tokens."""
        self._depth = depth
        if abs(depth - self._plain_depth) > self._plain_reach:
            self._plain_seen = 0
        if abs(depth - self._priced) >= self._stride and self._knots:
            self._update_prices()

    def observe(self, width: int, seconds: float) -> None:
        """A pass of this width took these seconds at the current depth."""
        before, self._before = self._before, width
        if not self._knots or not 1 <= width <= self._longest or seconds <= 0.0:
            return
        ratio = seconds / (self.scale * self.relative[width])
        if width > 1:
            self._since += seconds
            self._learn(width, ratio)
            return
        self._plain_seen += 1
        self._plain_depth, self._plain_reach = self._depth, _reach(self._depth)
        if self._plain_seen == 1:
            self.scale *= ratio / (1.0 + self._return_share if before > 1 else 1.0)
        elif before > 1:
            ratio = _clipped(ratio)
            self._return_share = max(
                0.0, self._return_share + _RETURN_STEP * (ratio - 1.0 - self._return_share)
            )
            self.scale *= 1.0 + _RETURN_STEP * (ratio - 1.0 - self._return_share)
        elif self._plain_seen == 2 and ratio < 1.0:
            self.scale *= ratio
        else:
            step = _FASTER_STEP if ratio < _FASTER else _PLAIN_STEP
            self.scale *= 1.0 + step * (_clipped(ratio) - 1.0)
            self._since = 0.0

    def usual(self, width: int) -> bool:
        """Whether this width was run often enough to tell its usual time from a delay."""
        if width == 1:
            return self._plain_seen > _USUAL
        return any(knot.seen.get(width, 0) >= _USUAL for knot, weight in self._neighbours() if weight >= 0.5)

    def _learn(self, width: int, ratio: float) -> None:
        late = min(1.0, self._since / _LATE)
        usual = self.usual(width)
        ratio = _clipped(ratio) if usual else ratio
        least = (1.0 - late) * _WIDTH_STEP + late * _LATE_WIDTH_STEP
        for knot, weight in self._neighbours():
            seen = knot.seen.get(width, 0)
            change = 1.0 + weight * max(least, 1 / (seen + 1)) * (ratio - 1.0)
            if width in knot.seconds:
                knot.seconds[width] = change * max(knot.seconds[width], knot.seconds[1])
            elif weight >= 0.5:
                knot.seconds[width] = self.relative[width] * change
            knot.seen[width] = seen + (weight >= 0.5)
        if usual:
            self.scale *= 1.0 + late * _LATE_STEP * (ratio - 1.0)
        self._update_prices()

    def _neighbours(self) -> list[tuple[_Knot, float]]:
        """The measured depths on both sides of the current one, with their weights in interpolation."""
        deeper = next((index for index, knot in enumerate(self._knots) if knot.depth > self._depth), None)
        if deeper is None:
            return [(self._knots[-1], 1.0)]
        if deeper == 0:
            return [(self._knots[0], 1.0)]
        first, second = self._knots[deeper - 1], self._knots[deeper]
        share = (self._depth - first.depth) / (second.depth - first.depth)
        return [(first, 1.0 - share), (second, share)]

    def _completed(self, knot: _Knot) -> dict[int, float]:
        """Costs at a depth, completed with widths that were only run at other depths: as many plain passes as
        at the nearest of those, times the growth of the widest pass that both have."""
        seconds = dict(knot.seconds)
        for other in sorted(self._knots, key=lambda other: abs(other.depth - knot.depth))[1:_NEAREST]:
            plain = knot.seconds[1] / other.seconds[1]
            common = max(width for width in other.seconds if width in knot.seconds)
            growth = max(1.0, knot.seconds[common] / (plain * other.seconds[common]))
            for width, cost in other.seconds.items():
                seconds.setdefault(width, growth * plain * cost)
        return seconds

    def _update_prices(self) -> None:
        self._priced, self._stride = self._depth, max(_STRIDE, self._depth // 8)
        relative = [0.0] * (self._longest + 1)
        for knot, weight in self._neighbours():
            if weight:
                each = interpolated(self._completed(knot), self._longest)
                relative = [one + weight * other for one, other in zip(relative, each, strict=True)]
        # No pass costs less than a plain one. A wider pass replaces a narrower one that costs more.
        relative = [max(each, relative[1]) for each in relative]
        self.relative = relative
        self.cheapest = list(range(len(relative)))
        best = relative[-1]
        for width in range(len(relative) - 2, 0, -1):
            if best < _CHEAPER * relative[width]:
                self.cheapest[width] = self.cheapest[width + 1]
            best = min(best, relative[width])
        self.drafted = list(accumulate(reversed(relative[2:]), min))[::-1]


def _agree(one: float, other: float) -> bool:
    return abs(one - other) <= _AGREE * max(one, other)


def _reach(depth: int) -> float:
    """The distance from a depth that counts as the same depth."""
    return max(_NEAR_TOKENS, _NEAR_SHARE * depth)


def _clipped(ratio: float) -> float:
    return max(1 / _MOST, min(ratio, _MOST))


def interpolated(measured: Mapping[int, float], longest: int) -> list[float]:
    """Seconds of every width; index 0 is unused. Beyond the widest measured, each token costs the same."""
    widths = sorted(measured)
    interpolated = [0.0]
    for low, high in pairwise(widths):
        slope = (measured[high] - measured[low]) / (high - low)
        interpolated += [measured[low] + slope * step for step in range(high - low)]
    widest = widths[-1]
    interpolated += [measured[widest] * width / widest for width in range(widest, longest + 1)]
    return interpolated[: longest + 1]
