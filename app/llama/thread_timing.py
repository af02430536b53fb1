"""Which numbers of threads make passes fastest here, found by trying them in turn."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from app.llama.threads import Threads

if TYPE_CHECKING:
    from app.llama.context import Context

# Width of a wider pass: quantised rows run in groups of four. The best number for it also serves prompts.
_WIDE = 4
_ROUNDS = 5
# Seconds. A model with slow passes gets one round, if that takes no longer than `_MOST`.
_BUDGET, _MOST = 0.4, 2.0
# How much faster another number must be to be chosen. A remembered one needs more evidence against it, as
# that comes from a single round.
_LEAST_GAIN, _DOUBT = 0.05, 0.15

# Seconds of a pass by number of threads.
Round = Mapping[int, float]


def fastest_threads(
    context: Context, candidates: Sequence[int], usual: int, remembered: Threads | None = None
) -> Threads:
    """The numbers of threads that an empty context decodes fastest with. The context then uses them.

    usual: used unless another number is clearly faster. remembered: an earlier result for this model; one
    round that does not contradict it is enough.
    """
    favoured = remembered or Threads(usual, usual)
    context.use_threads(favoured)
    if context.capacity < _WIDE:
        return favoured
    # The first pass may read weights from the disk, which is part of loading.
    _seconds(context, _WIDE)
    most = _BUDGET if remembered else _MOST
    each = len(candidates) * 2 * _seconds(context, 1)
    if each <= most:
        each += len(candidates) * _seconds(context, _WIDE)
    found = favoured
    if each <= most:
        found = _try(context, candidates, favoured, each, remembered is not None)
    context.use_threads(found)
    return found


def _try(
    context: Context, candidates: Sequence[int], favoured: Threads, each: float, is_remembered: bool
) -> Threads:
    """each: seconds that a round will take. is_remembered: whether one round may be enough."""
    ends = time.perf_counter() + _BUDGET
    narrow: list[Round] = []
    wide: list[Round] = []
    for number in range(_ROUNDS):
        if number and time.perf_counter() + each > ends:
            break
        # Up, then down: a machine that slows down in between favours no number.
        order = candidates if number % 2 == 0 else candidates[::-1]
        rounds = {threads: _pair(context, threads) for threads in order}
        narrow.append({threads: seconds[0] for threads, seconds in rounds.items()})
        wide.append({threads: seconds[1] for threads, seconds in rounds.items()})
        if is_remembered and number == 0 and _fastest_both(narrow, wide, favoured, _DOUBT) == favoured:
            return favoured
    return _fastest_both(narrow, wide, favoured, _LEAST_GAIN)


def _pair(context: Context, threads: int) -> tuple[float, float]:
    """Seconds of a narrow and of a wide pass with this many threads."""
    context.use_threads(Threads(threads, threads))
    # The first pass after a change may have to start threads.
    return min(_seconds(context, 1), _seconds(context, 1)), _seconds(context, _WIDE)


def _seconds(context: Context, width: int) -> float:
    """Seconds of one pass, which is then rolled back."""
    length = context.length
    started = time.perf_counter()
    context.forward([0] * width, rows=width)
    seconds = time.perf_counter() - started
    context.rollback(length)
    return seconds


def _fastest_both(
    narrow: Sequence[Round], wide: Sequence[Round], favoured: Threads, least_gain: float
) -> Threads:
    return Threads(fastest(narrow, favoured.narrow, least_gain), fastest(wide, favoured.wide, least_gain))


def fastest(rounds: Sequence[Round], favoured: int, least_gain: float = _LEAST_GAIN) -> int:
    """The number with the smallest median if it is faster by `least_gain`, else the favoured one."""
    medians = {threads: median(each[threads] for each in rounds) for threads in rounds[0]}
    best = min(medians, key=medians.__getitem__)
    return best if medians[best] < (1 - least_gain) * medians[favoured] else favoured
