"""How many threads a loaded model uses: measured once, and adjusted while it answers."""

from __future__ import annotations

from app.engine.thread_tuner import ThreadTuner
from app.llama.build import build_and_cpu
from app.llama.context import Context
from app.llama.thread_timing import fastest_threads
from app.llama.threads import Threads, candidate_threads, performance_cores
from app.measurements import Measurements


def follow_threads(context: Context, model: str, measurements: Measurements) -> ThreadTuner | None:
    """Let an empty context use as many threads as are fastest, and adjust from there.

    model: what the speed of its passes depends on, besides llama.cpp's build, the CPU and the context's
    settings. None where the person chose a number, or there is one processor.
    """
    candidates = candidate_threads()
    settings = context.settings
    if settings.threads is not None or len(candidates) == 1:
        return None
    parts = (
        build_and_cpu(),
        model,
        settings.flash_attention,
        settings.cache_type,
        settings.exact,
        *candidates,
    )
    name = " ".join(("threads", *map(str, parts)))
    known = _remembered(measurements.get(name), candidates)
    threads = fastest_threads(context, candidates, performance_cores(), known)
    measurements.put(name, threads)
    measurements.save()
    return ThreadTuner(candidates, threads)


def _remembered(numbers: tuple[float, ...], candidates: tuple[int, ...]) -> Threads | None:
    """Numbers from a file, which may hold anything."""
    if len(numbers) != 2 or not all(number in candidates for number in numbers):
        return None
    return Threads(*map(int, numbers))
