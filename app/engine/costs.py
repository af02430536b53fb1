"""The cost curve c(n): seconds of a pass by width, measured once and kept current by real passes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

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
    """Seconds by width, for every width up to the longest: `seconds`, and `padded`, those of the cheapest
    width that is no narrower.

    Between measured widths it is linear, beyond them it goes on by the last slope. A machine that slows
    down, and a context that grows, slow all widths: so a pass moves the whole curve too.

    A pass as wide as the one before it is cheaper: llama.cpp builds its graph anew for another width. Wide
    passes are mostly alone, so this is part of their cost; the plain pass that follows pays it once more,
    and that is what `back` holds. A drafted pass is charged with it, else plain decoding looks
    dearer than it is.
    """

    def __init__(self, measured: Mapping[int, float], longest: int) -> None:
        """measured: seconds by width, that of width 1 among them."""
        self._shape = filled(measured, longest)
        self._scale = 1.0
        # What a plain pass behind a wider one takes longer, as a share of a plain pass.
        self._back = 0.0
        self._before = 1
        self._apply()

    @property
    def back(self) -> float:
        """Seconds that a drafted pass costs the plain one after it; 0 where the one before it has been
        charged with them."""
        return self._back * self.seconds[1] if self._before == 1 else 0.0

    def observe(self, width: int, seconds: float) -> None:
        """A pass of this width took so long."""
        before, self._before = self._before, width
        if not 1 <= width < len(self._shape) or seconds <= 0.0:
            return
        ratio = max(1 / _MOST, min(seconds / self.seconds[width], _MOST))
        if width == 1 and before > 1:
            self._back = max(0.0, self._back + _RETURN_STEP * (ratio - 1.0 - self._back))
            self._scale *= 1.0 + _WHOLE_STEP * (ratio - 1.0 - self._back)
        elif width == 1:
            self._scale *= 1.0 + _PLAIN_STEP * (ratio - 1.0)
        else:
            self._scale *= 1.0 + _WHOLE_STEP * (ratio - 1.0)
            self._shape[width] *= 1.0 + _WIDTH_STEP * (ratio - 1.0)
        self._apply()

    def _apply(self) -> None:
        scale = self._scale
        # By width; index 0 is unused. cheapest: the width to fill a pass up to, mostly its own.
        self.seconds = [scale * each for each in self._shape]
        self.cheapest = list(range(len(self.seconds)))
        self.padded = list(self.seconds)
        for width in range(len(self.seconds) - 2, 0, -1):
            if self.padded[width + 1] < _CHEAPER * self.seconds[width]:
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
