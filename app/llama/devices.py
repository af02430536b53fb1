"""What this machine and this build of llama.cpp offer: devices with their memory, backends, CPU features.

llama-cpp-python binds none of ggml's device functions, so they are looked up in the libraries that it ships.
What a build's missing functions would tell is left out here too.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import llama_cpp
from llama_cpp import _ctypes_extensions, _ggml

from app.llama.facts import Device, DeviceKind, LlamaBuild
from app.llama.native import native_log

# ggml_backend_dev_type
_KINDS: tuple[DeviceKind, ...] = ("cpu", "gpu", "integrated", "accelerator")
_SETTING = re.compile(r"^\s*([\w.]+)\s*=\s*(\S+)\s*$")
_POINTER, _SIZE, _TEXT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p


def devices() -> tuple[Device, ...]:
    """All devices, the CPU included; empty if this build does not say."""
    return tuple(device for _, device in device_handles())


def device_handles() -> Iterator[tuple[int, Device]]:
    """Each device with ggml's own pointer to it, for llama.cpp's parameters."""
    type_of = ggml("ggml_backend_dev_type", ctypes.c_int, _POINTER)
    backend_of = ggml("ggml_backend_dev_backend_reg", _POINTER, _POINTER)
    for handle in _handles("ggml_backend_dev_count", "ggml_backend_dev_get"):
        kind = type_of(handle) if type_of else 0
        if handle and kind < len(_KINDS):
            yield (
                handle,
                Device(
                    _text("ggml_backend_dev_name", handle),
                    _text("ggml_backend_dev_description", handle),
                    _KINDS[kind],
                    *_memory(handle),
                    _text("ggml_backend_reg_name", backend_of(handle)) if backend_of else "",
                ),
            )


def build_facts() -> LlamaBuild:
    """What was compiled in, for a report on the installation."""
    backends = _handles("ggml_backend_reg_count", "ggml_backend_reg_get")
    info = llama_cpp.llama_print_system_info().decode("utf-8", "replace")
    return LlamaBuild(
        version=llama_cpp.__version__,
        backends=tuple(_text("ggml_backend_reg_name", each) for each in backends),
        gpu_offload=bool(llama_cpp.llama_supports_gpu_offload()),
        cpu_features=cpu_features(info),
        system_info=info.strip(),
    )


def supports_rpc() -> bool:
    """Whether this build can place layers on other machines."""
    return bool(llama_cpp.llama_supports_rpc())


def cpu_features(system_info: str) -> tuple[str, ...]:
    """The CPU features that are on in llama.cpp's line, which reads "CPU : AVX = 1 | … | CUDA : …"."""
    found: list[str] = []
    section = ""
    for part in system_info.split("|"):
        named, colon, rest = part.partition(" : ")
        if colon:
            section = named.strip()
        setting = _SETTING.match(rest if colon else part)
        if setting and section == "CPU" and setting[2] == "1":
            found.append(setting[1])
    return tuple(found)


def cpu_device_function(name: str) -> tuple[int, int] | None:
    """The CPU device, and the address of a function that its backend offers; None if there is none."""
    native_log()
    by_type = ggml("ggml_backend_dev_by_type", _POINTER, ctypes.c_int)
    backend_of = ggml("ggml_backend_dev_backend_reg", _POINTER, _POINTER)
    device = by_type(_KINDS.index("cpu")) if by_type else None
    address = backend_function(backend_of(device), name) if device and backend_of else None
    return (device, address) if device and address else None


def backend_function(backend: int, name: str) -> int | None:
    """The address of a function that a backend offers by name; None if it does not."""
    find = ggml("ggml_backend_reg_get_proc_address", _POINTER, _POINTER, _TEXT)
    address: int | None = find(backend, name.encode()) if find else None
    return address


def _handles(count_name: str, get_name: str) -> list[int]:
    """The pointers in one of ggml's lists; empty if this build hides it."""
    native_log()
    count, get = ggml(count_name, _SIZE), ggml(get_name, _POINTER, _SIZE)
    return [get(index) for index in range(count())] if count and get else []


def _memory(device: int) -> tuple[int, int]:
    """Free and total bytes of a device."""
    pointer = ctypes.POINTER(_SIZE)
    function = ggml("ggml_backend_dev_memory", None, _POINTER, pointer, pointer)
    free, total = _SIZE(), _SIZE()
    if function:
        function(device, ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


def _text(name: str, handle: int) -> str:
    """What a function says of a handle; "" if this build has no such function."""
    function = ggml(name, _TEXT, _POINTER)
    text: bytes | None = function(handle) if function else None
    return (text or b"").decode("utf-8", "replace")


@cache
def ggml(name: str, *types: Any) -> Any | None:
    """A function of ggml by its C name; None if no library of this build has it. types: the ctypes of its
    result and of its arguments, if it is to be called."""
    for library in _libraries():
        try:
            function = getattr(library, name)
        except AttributeError:
            continue
        if types:
            function.restype, function.argtypes = types[0], types[1:]
        return function
    return None


@cache
def _libraries() -> tuple[Any, ...]:
    """llama.cpp's shared libraries. A build may hold ggml in one, in three, or inside libllama."""
    libraries = [llama_cpp.llama_cpp._lib, _ggml.libggml]
    try:
        base = _ctypes_extensions.load_shared_library("ggml-base", _ggml.libggml_base_path)
    except (FileNotFoundError, RuntimeError):
        return tuple(libraries)
    return (*libraries, base)
