"""What a pass of each width costs on this machine, with this model, at this context length."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from app.llama import Context

# Widths at which real cost curves bend or jump: quantised rows run in groups of four on a CPU, and
# GPU kernels change at nine.
WIDTHS = (1, 2, 3, 4, 6, 8, 9, 12, 17, 25, 33)


def calibrate(
    target: Context, tokens: Sequence[int], budget: float = 0.25, known: Mapping[int, float] | None = None
) -> dict[int, float]:
    """Seconds of a pass by width, run behind what the cache holds and taken back again.

    known: a curve measured earlier. Then only a plain pass is measured, and the curve is scaled to it: the
    machine may be busier than it was, or the context longer.

    tokens: at least one, repeated to fill a pass. A width of one is run three times and the fastest
    run counts, since noise only ever adds and all others are compared with it. Wider passes are left
    out once `budget` seconds are spent, or where the context has no room; the result may be empty.
    """
    length = target.length
    costs: dict[int, float] = {}
    began = time.perf_counter()
    for width in (1,) if known else WIDTHS:
        if length + width > target.capacity or time.perf_counter() - began > budget:
            break
        batch = [tokens[index % len(tokens)] for index in range(width)]
        times = []
        for _ in range(3 if width == 1 else 1):
            started = time.perf_counter()
            target.forward(batch, rows=width)
            times.append(time.perf_counter() - started)
            target.rollback(length)
        costs[width] = min(times)
    if known and costs:
        return {width: seconds * costs[1] / known[1] for width, seconds in known.items()}
    return costs
