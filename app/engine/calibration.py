"""Times passes of each width on this machine, with this model, at the current depth."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from statistics import median_low

from app.engine.costs import PassCosts
from app.llama.context import Context

# How often each width is run, if there is time.
_ROUNDS = 3
# This width is run however little time is left: from plain passes alone, no draft would ever look worthwhile.
_LEAST_WIDTH = 2


def calibrate(
    target: Context,
    tokens: Sequence[int],
    widths: Sequence[int],
    budget: float = 0.25,
    rounds: int = _ROUNDS,
) -> PassCosts:
    """Seconds of passes of these widths and of plain ones, which are then rolled back.

    tokens: at least one, repeated to fill a pass. A machine's speed drifts within a second, and whether
    drafts pay depends on ratios: so each pass is timed next to a plain one, `rounds` times if possible.
    Passes that would not end within `budget` seconds are left out, except plain ones and one of width 2. So
    are widths that the context has no room for; the result may be empty.
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
    # The very first pass may read weights from the disk, which is part of loading.
    run(1)
    plain = [run(1)]
    each = plain[-1]
    ratios: dict[int, list[float]] = {}
    for width in [width for width in widths if length + width <= target.capacity] * rounds:
        # No wider pass takes longer per token than a narrower one.
        expected = width * each + (2 * plain[-1] if ratios else 0.0)
        if (ratios or width > _LEAST_WIDTH) and time.perf_counter() + expected > ends:
            continue
        if ratios:
            # A plain pass after a wider one is slower, see costs.py, so it is not compared with.
            run(1)
            plain.append(run(1))
        seconds = run(width)
        ratios.setdefault(width, []).append(seconds / plain[-1])
        each = min(each, seconds / width)
    return PassCosts(length, curve(plain, ratios), _load())


def curve(plain: Sequence[float], ratios: Mapping[int, Sequence[float]]) -> dict[int, float]:
    """Seconds by width, from the seconds of plain passes and the ratios of wider passes to the plain pass
    next to each. Uses the lower median, because noise mostly adds time."""
    seconds = median_low(plain)
    return {1: seconds, **{width: seconds * median_low(each) for width, each in ratios.items()}}


def _load() -> float:
    """The system's load average over the last minute, 0 if it has none."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return 0.0
