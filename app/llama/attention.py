"""What attention costs on this CPU with and without flash attention, by width and depth of a pass.

Flash attention changes only the attention of a pass. So both ways are timed on a model with the same heads
and hardly any other weights. That takes about a second for a model of any size, while filling the model's own
cache could take minutes; and the difference is not lost in everything else. Sliding windows are ignored:
outside of them flash attention saves time.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from app.llama.context import Context
from app.llama.model import Model
from app.llama.probe_model import ProbeShape, write_probe_model
from app.llama.settings import ContextSettings, ModelSettings

# Width of a pass that reads a prompt, and of one with a draft; a plain pass has width 1.
READING, DRAFTED = 256, 8
# Depths at which passes are timed, besides the deepest one reached.
_DEPTHS = (32, 512)
_DEEPEST = 2048
# Seconds for reading and for repeating passes of one width, and the most repeats.
_READING_SECONDS, _PASSES_SECONDS, _REPEATS = 0.8, 0.08, 10
# Layers are added until the queries of a token have this many numbers: tiny heads are timed better together.
_ENOUGH, _MOST_LAYERS = 2048, 4


class AttentionHeads(NamedTuple):
    """The shape of a model's attention: heads of queries, heads in the cache, numbers in each head."""

    queries: int
    cached: int
    length: int


class AttentionTiming(NamedTuple):
    """A timed pass of `width` tokens. depth: tokens before it, plus half of its own if it reads a prompt."""

    flash: bool
    width: int
    depth: float
    seconds: float


def measure_attention(
    heads: AttentionHeads, settings: ContextSettings, trained: int
) -> tuple[AttentionTiming, ...]:
    """Time both ways in turn. trained: tokens of context that the model was trained with.

    Reading is timed once at each depth and returned as two means, over the first half and the second. Other
    passes are timed several times, and the fastest counts.

    Raises SpecchatError if llama.cpp fails, OSError if no file can be written.
    """
    layers = min(_MOST_LAYERS, max(1, _ENOUGH // (heads.queries * heads.length)))
    deepest = max(2 * READING, min(trained, _DEEPEST))
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        path = write_probe_model(Path(folder) / "attention.gguf", ProbeShape(layers, 32, 32, *heads))
        model = stack.enter_context(Model(path, ModelSettings(gpu_layers=0, layouts="plain")))
        ways = [
            stack.enter_context(
                Context(model, deepest + DRAFTED, replace(settings, flash_attention=each, chunk=READING))
            )
            for each in ("off", "on")
        ]
        points = _reading(ways, deepest)
        reached = ways[0].length
        for depth in sorted({*(each for each in _DEPTHS if each < reached), reached}, reverse=True):
            points += _passes(ways, depth)
    return tuple(points)


def _reading(ways: Sequence[Context], deepest: int) -> list[AttentionTiming]:
    """Time how both caches are filled."""
    ends = time.perf_counter() + _READING_SECONDS
    for way in ways:
        _timed(way, READING)
        way.rollback(0)
    taken: list[list[float]] = []
    while len(taken) < 2 or (
        len(taken) * READING + READING <= deepest and time.perf_counter() + sum(taken[-1]) < ends
    ):
        taken.append([_timed(way, READING) for way in ways])
    half = len(taken) // 2
    points = []
    for first, end in ((0, half), (half, len(taken))):
        depth = READING * (first + end) / 2
        for index in range(len(ways)):
            points.append(
                AttentionTiming(bool(index), READING, depth, fmean(each[index] for each in taken[first:end]))
            )
    return points


def _passes(ways: Sequence[Context], depth: int) -> list[AttentionTiming]:
    """Time plain passes and wider ones at this depth."""
    points = []
    for width in (1, DRAFTED):
        ends = time.perf_counter() + _PASSES_SECONDS
        fastest = [float("inf")] * 2
        for repeat in range(_REPEATS):
            # The first pass builds the graph for this width.
            if repeat > 1 and time.perf_counter() > ends:
                break
            for index, way in enumerate(ways):
                way.rollback(depth)
                fastest[index] = min(fastest[index], _timed(way, width))
        points += [
            AttentionTiming(bool(index), width, depth, seconds) for index, seconds in enumerate(fastest)
        ]
    return points


def _timed(context: Context, width: int) -> float:
    """Seconds that llama.cpp needs for a pass."""
    before = context.seconds
    context.forward(range(width), rows=0 if width == READING else width)
    return context.seconds - before
