"""Numbers of threads for a model that was loaded: measured, remembered, and followed while it answers."""

from __future__ import annotations

from app.engine.thread_tuner import ThreadTuner
from app.knowledge import Knowledge
from app.llama.build import build_and_cpu
from app.llama.context import Context
from app.llama.thread_timing import fastest_threads
from app.llama.threads import Threads, candidate_threads, performance_cores


def follow_threads(context: Context, model: str, knowledge: Knowledge) -> ThreadTuner | None:
    """Let an empty context use what is fastest, and choose on from there.

    model: all that the speed of its passes depends on, but llama.cpp's build, the CPU and the context's
    settings. None where a person has named a number, or where there is one processor.
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
    known = _remembered(knowledge.get(name), candidates)
    threads = fastest_threads(context, candidates, performance_cores(), known)
    knowledge.put(name, threads)
    knowledge.save()
    return ThreadTuner(candidates, threads)


def _remembered(numbers: tuple[float, ...], candidates: tuple[int, ...]) -> Threads | None:
    """Numbers of a file that anything may have written."""
    if len(numbers) != 2 or not all(number in candidates for number in numbers):
        return None
    return Threads(*map(int, numbers))
