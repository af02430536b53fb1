"""What attention is said to cost, where a test decides which way is faster."""

from __future__ import annotations

from pathlib import Path

from app.assembly.attention import costs_to_numbers, name_of
from app.llama.attention import DRAFTED, READING, AttentionHeads, AttentionTiming
from app.llama.settings import ContextSettings, FlashAttention
from app.measurements import Measurements

# Of the model of tiny.py.
TINY = AttentionHeads(2, 2, 16)


def measured(read: float, deep: float) -> tuple[AttentionTiming, ...]:
    """Without flash attention everything takes a second at any depth. With it, reading takes `read`, and a
    pass grows from a second to `deep` at 1,000 tokens."""
    without = [
        AttentionTiming(False, width, depth, 1.0)
        for width in (1, DRAFTED, READING)
        for depth in (0.0, 1000.0)
    ]
    reading = [AttentionTiming(True, READING, depth, read) for depth in (0.0, 1000.0)]
    passes = [
        AttentionTiming(True, width, at, cost)
        for width in (1, DRAFTED)
        for at, cost in ((0.0, 1.0), (1e3, deep))
    ]
    return (*without, *reading, *passes)


def prefer(chosen: FlashAttention, path: Path) -> None:
    """Make it known of the tiny model that this is faster."""
    measurements = Measurements(path)
    measurements.put(
        name_of(TINY, ContextSettings()), costs_to_numbers(measured(1.0, 5.0 if chosen == "off" else 0.5))
    )
    measurements.save()
