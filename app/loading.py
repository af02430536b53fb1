"""Loading where memory is short: what is free, and smaller attempts after one that llama.cpp refused.

What llama.cpp is refused by the system or a GPU's driver ends in MemoryShort. It can also ask for more than
there is and be given it (Linux does so), and is then ended from outside: only the estimate before it helps.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from app.errors import SpecchatError
from app.llama.context import Context
from app.llama.devices import build_facts, devices
from app.llama.facts import Device
from app.llama.layouts import AMX, layouts_in_use
from app.llama.model import MemoryShort
from app.llama.rpc import add_servers
from app.llama.settings import ModelSettings
from app.models.estimate import Copies, repacked_types
from app.models.fit import SMALLEST_CONTEXT, Memory
from app.models.gguf import Header, read_header
from app.models.locate import find_model
from app.models.memory import system_memory

Opened = TypeVar("Opened")

# How GPUs begin to call themselves that are programs of the CPU (Mesa's), and so use the system's memory.
_SOFTWARE = "llvmpipe"
# Where the system does not tell what is free, nothing is limited.
_UNKNOWN = 1 << 62


def machine_memory(rpc: Sequence[str] = ()) -> Memory:
    """What is free on this machine and on the RPC servers. Raises as add_servers does."""
    add_servers(rpc)
    apple = sys.platform == "darwin" and platform.machine() == "arm64"
    return memory_of(_free_system(), devices(), rpc, unified=apple)


def memory_of(system: int, found: Sequence[Device], rpc: Sequence[str], *, unified: bool) -> Memory:
    """Free memory out of a list of devices, chosen as llama.cpp chooses them.

    unified: the GPUs of this machine use its memory. A device that does not tell what is free is left to
    llama.cpp and counts as boundless.
    """
    chosen = chosen_gpus(found, rpc)
    own = [device for device in chosen if device.backend != "RPC"]
    return Memory(
        system=system,
        gpus=tuple(_free_on(device) for device in chosen),
        shared=any(
            device.kind == "integrated" or unified or device.description.startswith(_SOFTWARE)
            for device in own
        ),
    )


def chosen_gpus(found: Sequence[Device], rpc: Sequence[str]) -> tuple[Device, ...]:
    """The devices that layers can go to, as llama.cpp chooses them: asked-for servers, then GPUs, and one
    built into the CPU only without others."""
    remote = [device for device in found if device.backend == "RPC" and device.description in rpc]
    own = [device for device in found if device.backend != "RPC"]
    gpus = [device for device in own if device.kind == "gpu"]
    integrated = [] if gpus else [device for device in own if device.kind == "integrated"][:1]
    return (*remote, *gpus, *integrated)


def _free_on(device: Device) -> int:
    if device.total == 0:
        return _UNKNOWN
    # Vulkan takes what is used from what the driver grants; where that is less, the difference is a number
    # beyond all memory.
    return device.free if device.free <= device.total else 0


def cpu_copies() -> Copies:
    """Which weights llama.cpp holds a second time here, laid out for this CPU."""
    return Copies(repacked_types(build_facts().cpu_features), AMX in layouts_in_use())


def header_of(name: str | None) -> Header | None:
    """The header of a model that may be loaded later; None where it cannot be read, which is told then."""
    try:
        return read_header(find_model(name)) if name is not None else None
    except SpecchatError:
        return None


def open_smaller(
    opened: Callable[[ModelSettings], Opened],
    settings: ModelSettings,
    layers: int,
    memory: Memory,
    say: Callable[[str], None],
) -> tuple[Opened, ModelSettings]:
    """Open a model, or one with its context; where a GPU has no room for it, with half as many layers there,
    at last with none.

    layers: of the model. Returns it with the settings that were used, and says what was changed.
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
    """Make a context; where there is no memory for it, with half the length, down to SMALLEST_CONTEXT.

    fixed: the length was asked for, so no other is tried. Says what was changed; raises MemoryShort.
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


def _free_system() -> int:
    memory = system_memory()
    return _UNKNOWN if memory is None else memory.free
