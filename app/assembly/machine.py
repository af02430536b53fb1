"""What this machine has for a model: free memory, GPUs, and how its CPU wants weights laid out."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence

from app.errors import SpecchatError
from app.llama.devices import build_facts, devices
from app.llama.facts import Device
from app.llama.layouts import AMX, layouts_in_use
from app.llama.rpc import add_servers
from app.models.estimate import Copies, repacked_types
from app.models.fit import Memory
from app.models.gguf import Header, read_header
from app.models.locate import find_model
from app.models.memory import system_memory

# The name of Mesa's GPU in software, which runs on the CPU and uses the system's memory.
_SOFTWARE = "llvmpipe"
# Free memory where the system does not tell it: nothing is limited.
_UNKNOWN = 1 << 62


def machine_memory(rpc: Sequence[str] = ()) -> Memory:
    """What is free on this machine and on the RPC servers. Raises as add_servers does."""
    add_servers(rpc)
    apple = sys.platform == "darwin" and platform.machine() == "arm64"
    return memory_of(_free_system(), devices(), rpc, unified=apple)


def memory_of(system: int, found: Sequence[Device], rpc: Sequence[str], *, unified: bool) -> Memory:
    """Free memory in total, on the devices that llama.cpp would choose.

    unified: this machine's GPUs use its memory. A device that does not tell what is free counts as boundless.
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
    """The devices that layers can go to, as llama.cpp chooses them: servers that were named, then GPUs; one
    built into the CPU only where there are no others."""
    remote = [device for device in found if device.backend == "RPC" and device.description in rpc]
    own = [device for device in found if device.backend != "RPC"]
    gpus = [device for device in own if device.kind == "gpu"]
    integrated = [] if gpus else [device for device in own if device.kind == "integrated"][:1]
    return (*remote, *gpus, *integrated)


def _free_on(device: Device) -> int:
    if device.total == 0:
        return _UNKNOWN
    # Vulkan subtracts what is used from what the driver grants; where more is used, the result wraps around
    # to a huge number.
    return device.free if device.free <= device.total else 0


def cpu_copies() -> Copies:
    """Which weights llama.cpp holds a second time, laid out for this CPU."""
    return Copies(repacked_types(build_facts().cpu_features), AMX in layouts_in_use())


def header_of(name: str | None) -> Header | None:
    """The header of a model that may be loaded later; None where it cannot be read: loading tells."""
    try:
        return read_header(find_model(name)) if name is not None else None
    except SpecchatError:
        return None


def _free_system() -> int:
    memory = system_memory()
    return _UNKNOWN if memory is None else memory.free
