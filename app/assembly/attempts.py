"""Smaller attempts where memory is short.

Where the system or a GPU's driver refuses memory, llama.cpp fails and MemoryShort is raised. Linux may also
grant more than there is and kill the process later: only the estimate before it helps against that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from app.llama.context import Context
from app.llama.model import MemoryShort
from app.llama.settings import ModelSettings
from app.models.fit import SMALLEST_CONTEXT, Memory

Opened = TypeVar("Opened")


def open_smaller(
    opened: Callable[[ModelSettings], Opened],
    settings: ModelSettings,
    layers: int,
    memory: Memory,
    say: Callable[[str], None],
) -> tuple[Opened, ModelSettings]:
    """Open a model, or one with its context. Where a GPU has no room for it, try half as many layers there,
    down to none.

    layers: of the model. Returns what was opened and with which settings, and says what was changed.
    Raises MemoryShort where the system's memory is short.
    """
    first = settings
    while True:
        try:
            found = opened(settings)
        except MemoryShort:
            if not memory.gpus or settings.gpu_layers == 0:
                raise
            count = layers + 1 if settings.gpu_layers < 0 else min(settings.gpu_layers, layers + 1)
            settings = replace(settings, gpu_layers=count // 2)
            continue
        if settings is not first:
            said = "All layers" if first.gpu_layers < 0 else f"{first.gpu_layers} layers"
            left = f"it holds {settings.gpu_layers}" if settings.gpu_layers else "the CPU takes them all"
            say(f"{said} did not fit into the GPU's memory: {left}.")
        return found, settings


def make_shorter(
    made: Callable[[int], Context], length: int, fixed: bool, cache_type: str, say: Callable[[str], None]
) -> Context:
    """Make a context. Where there is no memory for it, try half the length, down to SMALLEST_CONTEXT.

    fixed: the person chose the length, so no other is tried. Says what was changed; raises MemoryShort.
    """
    first = length
    while True:
        try:
            context = made(length)
        except MemoryShort:
            shorter = max(SMALLEST_CONTEXT, length // 2)
            if fixed or shorter >= length:
                raise
            length = shorter
            continue
        if length < first:
            advice = "; --kv-type q8_0 halves the cache" if cache_type in ("f32", "f16", "bf16") else ""
            say(f"{first:,} tokens of context did not fit into memory: {length:,} are used{advice}.")
        return context
