"""Process-wide parts of llama.cpp: initialisation, its log (kept off the terminal), and its memory."""

from __future__ import annotations

import ctypes
import weakref
from collections import deque
from functools import cache
from typing import TypeVar

import llama_cpp
import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", np.float32, np.int32)
Owner = TypeVar("Owner", bound="NativeOwner")

# ggml_log_level
_WARNING, _ERROR, _CONTINUED = 3, 4, 5


class NativeLog:
    """The last lines that llama.cpp logged. Warnings, errors and buffer sizes have separate lists, because
    hundreds of lines about tensors follow them."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=400)
        self.faults: deque[str] = deque(maxlen=40)
        self.sizes: deque[str] = deque(maxlen=100)
        self._partial = ""
        self._level = 0
        # Keep a reference: ctypes frees a callback without one, and llama.cpp would call freed memory.
        self._callback = llama_cpp.llama_log_callback(self._receive)
        llama_cpp.llama_log_set(self._callback, ctypes.c_void_p(0))

    def _receive(self, level: int, text: bytes, _: object) -> None:
        if level != _CONTINUED:
            self._level = level
        self._partial += text.decode("utf-8", "replace")
        *whole, self._partial = self._partial.split("\n")
        self.lines.extend(whole)
        self.sizes.extend(line for line in whole if "buffer size" in line)
        if self._level in (_WARNING, _ERROR):
            self.faults.extend(line for line in whole if line.strip())


@cache
def native_log() -> NativeLog:
    """Start llama.cpp once in this process and return its log."""
    log = NativeLog()
    llama_cpp.llama_backend_init()
    return log


class NativeOwner:
    """Owns something of llama.cpp's, freed once: by `close`, at the end of a `with` block, or with the
    object."""

    _free: weakref.finalize[..., object]

    def __enter__(self: Owner) -> Owner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._free()

    @property
    def closed(self) -> bool:
        return not self._free.alive


def array_at(address: int, rows: int, columns: int, kind: type[Number]) -> NDArray[Number]:
    """Native memory as an array (rows, columns) of 4-byte numbers, without a copy."""
    buffer = (ctypes.c_byte * (4 * rows * columns)).from_address(address)
    return np.frombuffer(memoryview(buffer), dtype=kind).reshape(rows, columns)
