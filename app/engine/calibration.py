"""What a pass of each width costs on this machine, with this model, at this context length."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from statistics import median_low

from app.llama.context import Context

# Widths at which real cost curves bend or jump: quantised rows run in groups of four on a CPU, and
# GPU kernels change at nine.
WIDTHS = (2, 3, 4, 6, 8, 9, 12, 17, 25, 33)

# All widths are run so often, where there is time for it.
_ROUNDS = 3


def calibrate(
    target: Context,
    tokens: Sequence[int],
    budget: float = 0.25,
    known: Mapping[int, float] | None = None,
    rounds: int = _ROUNDS,
) -> dict[int, float]:
    """Seconds of a pass by width, run behind what the cache holds and taken back again.

    known: a curve measured earlier. Then only plain passes are measured, and the curve is scaled to them:
    the machine may be busier than it was, or the context longer.

    tokens: at least one, repeated to fill a pass. A machine's speed drifts within a second, and whether
    drafts pay is a question of ratios: each pass is timed beside a plain one, `rounds` times where there is
    time. What would not be done within `budget` seconds is left out, but for the narrowest width, as are
    widths that the context has no room for. The result may be empty.
    """
    length = target.length

    def run(width: int) -> float:
        started = time.perf_counter()
        target.forward([tokens[index % len(tokens)] for index in range(width)], rows=width)
        seconds = time.perf_counter() - started
        target.rollback(length)
        return seconds

    if length + 1 > target.capacity:
        return {}
    # The first pass of all takes longer than any other, weights may come from the disk: part of loading.
    run(1)
    if known:
        now = min(run(1), run(1))
        return {width: seconds * now / known[1] for width, seconds in known.items()}
    ends = time.perf_counter() + budget
    plain = [run(1)]
    each = plain[-1]
    ratios: dict[int, list[float]] = {}
    widths = [width for width in WIDTHS if length + width <= target.capacity]
    for width in widths * rounds:
        if ratios:
            # Per token, no pass takes longer than the next narrower one.
            if time.perf_counter() + 2 * plain[-1] + width * each > ends:
                break
            # A pass behind a wider one is slower, see costs.py: it is none to compare with.
            run(1)
            plain.append(run(1))
        seconds = run(width)
        ratios.setdefault(width, []).append(seconds / plain[-1])
        each = seconds / width
    return curve(plain, ratios)


def curve(plain: Sequence[float], ratios: Mapping[int, Sequence[float]]) -> dict[int, float]:
    """Seconds by width out of those of plain passes, and what wider ones took in terms of the one beside
    each. Of an even number the smaller of the middle two: noise mostly adds."""
    seconds = median_low(plain)
    return {1: seconds, **{width: seconds * median_low(each) for width, each in ratios.items()}}
