"""What a pass of each width costs on this machine, with this model, behind what the cache holds."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from statistics import median_low

from app.engine.costs import PassCosts
from app.llama.context import Context

# All widths are run so often, where there is time for it.
_ROUNDS = 3
# A pass of this width is run whatever time is left: with nothing but plain passes to go by, no draft would
# ever look worth a try.
_LEAST_WIDTH = 2


def calibrate(
    target: Context,
    tokens: Sequence[int],
    widths: Sequence[int],
    budget: float = 0.25,
    rounds: int = _ROUNDS,
) -> PassCosts:
    """Seconds of passes of these widths, and of plain ones, run behind what the cache holds and taken back.

    tokens: at least one, repeated to fill a pass. A machine's speed drifts within a second, and whether
    drafts pay is a question of ratios: each pass is timed beside a plain one, `rounds` times where there is
    time. What would not be done within `budget` seconds is left out, but for plain passes and one of width
    2, as are widths that the context has no room for. Nothing may be left.
    """
    length = target.length
    target.checkpoint()

    def run(width: int) -> float:
        started = time.perf_counter()
        target.forward([tokens[index % len(tokens)] for index in range(width)], rows=width)
        seconds = time.perf_counter() - started
        target.rollback(length)
        return seconds

    if length + 1 > target.capacity:
        return PassCosts(length, {})
    ends = time.perf_counter() + budget
    # The first pass of all takes longer than any other, weights may come from the disk: part of loading.
    run(1)
    plain = [run(1)]
    each = plain[-1]
    ratios: dict[int, list[float]] = {}
    for width in [width for width in widths if length + width <= target.capacity] * rounds:
        # Per token, no pass takes longer than the narrowest wider one.
        expected = width * each + (2 * plain[-1] if ratios else 0.0)
        if (ratios or width > _LEAST_WIDTH) and time.perf_counter() + expected > ends:
            continue
        if ratios:
            # A pass behind a wider one is slower, see costs.py: it is none to compare with.
            run(1)
            plain.append(run(1))
        seconds = run(width)
        ratios.setdefault(width, []).append(seconds / plain[-1])
        each = min(each, seconds / width)
    return PassCosts(length, curve(plain, ratios), _load())


def curve(plain: Sequence[float], ratios: Mapping[int, Sequence[float]]) -> dict[int, float]:
    """Seconds by width out of those of plain passes, and what wider ones took in terms of the one beside
    each. Of an even number the smaller of the middle two: noise mostly adds."""
    seconds = median_low(plain)
    return {1: seconds, **{width: seconds * median_low(each) for width, each in ratios.items()}}


def _load() -> float:
    """The system's load average of the last minute, 0 where it has none."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return 0.0
