"""What llama.cpp says of itself and of this machine. Importing these records does not load it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DeviceKind = Literal["cpu", "gpu", "integrated", "accelerator"]


@dataclass(frozen=True, slots=True)
class Device:
    """Where layers can be placed. free, total: bytes, 0 where the driver does not tell.

    integrated: a GPU that shares the system's memory. accelerator: helps the CPU, holds no weights.
    llama.cpp calls all of the system's memory free (Windows excepted): app.models.memory knows better.
    """

    name: str
    description: str
    kind: DeviceKind
    free: int
    total: int
    backend: str


@dataclass(frozen=True, slots=True)
class LlamaBuild:
    """How llama.cpp was built.

    version: of llama-cpp-python. backends: such as "CPU", "CUDA", "Metal". cpu_features: what the
    CPU's code uses here, such as "AVX2". system_info: llama.cpp's own line on all of it.
    """

    version: str
    backends: tuple[str, ...]
    gpu_offload: bool
    cpu_features: tuple[str, ...]
    system_info: str
