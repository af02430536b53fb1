"""The cost curve c(n): seconds of a pass by width, measured once and kept current by real passes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

# How far a plain pass moves the whole curve, how far a wider one does, and how far that moves its own
# width. Whether drafts pay is judged by width 1, so it mostly listens to passes of width 1.
_PLAIN_STEP, _WHOLE_STEP, _WIDTH_STEP = 0.15, 0.02, 0.2
# How far one plain pass behind a wider one moves what such a pass takes longer.
_RETURN_STEP = 0.1
# One pass that was held up by something else says this much at most.
_MOST = 2.0
# A wider pass has to be so much cheaper before passes are filled up to it.
_CHEAPER = 0.97


class CostCurve:
    """Seconds by width, for every width up to the longest.

    Between measured widths it is linear, beyond them it goes on by the last slope. A machine that slows
    down, and a context that grows, slow all widths: so a pass moves the whole curve too.

    A pass as wide as the one before it is cheaper: llama.cpp builds its graph anew for another width. Wide
    passes are mostly alone, so this is part of their cost; the plain pass that follows pays it once more,
    and that is what `back` holds. A drafted pass is charged with it, else plain decoding looks
    dearer than it is.

    plain: seconds of a plain pass. padded: seconds by width, over `scale`, of the cheapest pass that is no
    narrower; cheapest: that pass's width. Index 0 is unused. Most passes move the scale alone, which
    costs them next to nothing.
    """

    def __init__(self, measured: Mapping[int, float], longest: int) -> None:
        """measured: seconds by width, that of width 1 among them."""
        self._shape = filled(measured, longest)
        self.scale = 1.0
        # What a plain pass behind a wider one takes longer, as a share of a plain pass.
        self._back = 0.0
        self._before = 1
        self._fill_up()

    @property
    def plain(self) -> float:
        return self.scale * self._shape[1]

    @property
    def seconds(self) -> Mapping[int, float]:
        """Seconds of a pass by width."""
        return {width: self.scale * each for width, each in enumerate(self._shape) if width}

    @property
    def back(self) -> float:
        """Seconds that a drafted pass costs the plain one after it; 0 where the one before it has been
        charged with them."""
        return self._back * self.plain if self._before == 1 else 0.0

    def observe(self, width: int, seconds: float) -> None:
        """A pass of this width took so long."""
        before, self._before = self._before, width
        if not 1 <= width < len(self._shape) or seconds <= 0.0:
            return
        ratio = max(1 / _MOST, min(seconds / (self.scale * self._shape[width]), _MOST))
        if width > 1:
            self.scale *= 1.0 + _WHOLE_STEP * (ratio - 1.0)
            self._shape[width] *= 1.0 + _WIDTH_STEP * (ratio - 1.0)
            self._fill_up()
        elif before > 1:
            self._back = max(0.0, self._back + _RETURN_STEP * (ratio - 1.0 - self._back))
            self.scale *= 1.0 + _WHOLE_STEP * (ratio - 1.0 - self._back)
        else:
            self.scale *= 1.0 + _PLAIN_STEP * (ratio - 1.0)

    def _fill_up(self) -> None:
        self.cheapest = list(range(len(self._shape)))
        self.padded = list(self._shape)
        for width in range(len(self._shape) - 2, 0, -1):
            if self.padded[width + 1] < _CHEAPER * self._shape[width]:
                self.cheapest[width] = self.cheapest[width + 1]
                self.padded[width] = self.padded[width + 1]
        # The same by what is drafted: 1, 2, …
        self.drafted = self.padded[2:]


def filled(measured: Mapping[int, float], longest: int) -> list[float]:
    """Seconds of every width; index 0 is unused."""
    widths = sorted(measured)
    filled = [0.0]
    for width in range(1, longest + 1):
        place = bisect_right(widths, width) - 1
        if len(widths) == 1:
            # Nothing is known of wider passes: too much for any draft.
            filled.append(measured[1] * (1 if width == 1 else 1e9))
            continue
        first = min(place, len(widths) - 2)
        low, high = widths[first], widths[first + 1]
        slope = (measured[high] - measured[low]) / (high - low)
        filled.append(max(measured[low] + slope * (width - low), 1e-9))
    return filled


def curve_numbers(seconds: Mapping[int, float]) -> tuple[float, ...]:
    """A cost curve as numbers: width, seconds, width, seconds, …"""
    return tuple(number for width, cost in sorted(seconds.items()) for number in (float(width), cost))


def curve_of(numbers: Sequence[float]) -> dict[int, float]:
    """The cost curve of these numbers; {} where they are none."""
    widths, costs = numbers[::2], numbers[1::2]
    sound = (
        len(widths) == len(costs) > 1
        and all(width == int(width) and 1 <= width <= 4096 for width in widths)
        and all(0.0 < cost < 3600.0 for cost in costs)
        and 1.0 in widths
    )
    return {int(width): cost for width, cost in zip(widths, costs, strict=True)} if sound else {}
