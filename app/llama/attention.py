"""What attention costs on this CPU with flash attention and without it, by width and depth of a pass.

Flash attention changes the attention of a pass and nothing else. So both ways are timed on a model that has
the heads of the one in question and next to no other weights: that takes about a second for a model of any
size, where the model itself would need minutes to be read deep into, and what differs is not lost in what
does not. Left out of account: a sliding window, outside of which flash attention saves time.
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

# Tokens of a pass that reads, and of one with a draft in it; a plain pass has one.
READING, DRAFTED = 256, 8
# Depths at which passes are timed, beside the deepest that is reached.
_DEPTHS = (32, 512)
_DEEPEST = 2048
# Reading goes on, and passes are repeated, while so many seconds last.
_READING_SECONDS, _PASSES_SECONDS, _REPEATS = 0.8, 0.08, 10
# Layers are added until they have so many numbers in the queries of a token: tiny heads are timed better
# in company.
_ENOUGH, _MOST_LAYERS = 2048, 4


class Heads(NamedTuple):
    """The shape of a model's attention: heads of queries, heads that are cached, numbers in each head."""

    queries: int
    cached: int
    length: int


class Point(NamedTuple):
    """A measured pass of `width` tokens. depth: tokens before it, and half of its own where it reads."""

    flash: bool
    width: int
    depth: float
    seconds: float


def measure_attention(heads: Heads, settings: ContextSettings, trained: int) -> tuple[Point, ...]:
    """Time both ways in turn. trained: tokens of context that the model was trained with.

    Reading is timed once at each depth, and given at two: in the mean over the first half and over the
    second. Passes are timed several times, the fastest counts.

    Raises SpecchatError where llama.cpp cannot, OSError where no file can be written.
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


def _reading(ways: Sequence[Context], deepest: int) -> list[Point]:
    """Fill both caches."""
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
            points.append(Point(bool(index), READING, depth, fmean(each[index] for each in taken[first:end])))
    return points


def _passes(ways: Sequence[Context], depth: int) -> list[Point]:
    """Plain passes and wider ones at this depth."""
    points = []
    for width in (1, DRAFTED):
        ends = time.perf_counter() + _PASSES_SECONDS
        fastest = [float("inf")] * 2
        for repeat in range(_REPEATS):
            # The first builds the graph for this width.
            if repeat > 1 and time.perf_counter() > ends:
                break
            for index, way in enumerate(ways):
                way.rollback(depth)
                fastest[index] = min(fastest[index], _timed(way, width))
        points += [Point(bool(index), width, depth, seconds) for index, seconds in enumerate(fastest)]
    return points


def _timed(context: Context, width: int) -> float:
    """Seconds that llama.cpp takes for a pass."""
    before = context.seconds
    context.forward(range(width), rows=0 if width == READING else width)
    return context.seconds - before
