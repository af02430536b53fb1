"""Where llama.cpp placed what it loaded, according to its own log."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from app.llama.native import native_log

_LINE = re.compile(r":\s+(\S+)\s+(\w+) buffer size = *([0-9.]+) MiB")
_MIB = 1 << 20


class Buffer(NamedTuple):
    """place: begins with the device's name, such as "CUDA0" or "CPU_Mapped". kind: "model", "KV", …"""

    place: str
    kind: str
    size: int


def clear_buffers() -> None:
    """Start over: `buffers` then covers what is loaded from now on."""
    native_log().sizes.clear()


def buffers() -> tuple[Buffer, ...]:
    """What was allocated since `clear_buffers`, for at most one model and one context."""
    return buffers_in(native_log().sizes)


def buffers_in(lines: Iterable[str]) -> tuple[Buffer, ...]:
    """The buffers named in these lines of the log. A buffer that is named again has grown."""
    found: dict[tuple[str, str], Buffer] = {}
    for line in lines:
        match = _LINE.search(line)
        if match:
            found[match[1], match[2]] = Buffer(match[1], match[2], round(float(match[3]) * _MIB))
    return tuple(found.values())


def bytes_on_device(found: Iterable[Buffer], device: str, kind: str | None = None) -> int:
    """Bytes of these buffers on a device, or only of those of one kind."""
    return sum(
        each.size
        for each in found
        if (each.place == device or each.place.startswith(f"{device}_")) and kind in (None, each.kind)
    )
