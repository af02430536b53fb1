"""What this machine and this build of llama.cpp offer: devices with their memory, backends, CPU features.

llama-cpp-python binds none of ggml's device functions. They are looked up in the libraries that it ships;
where a build has left one out, what it would tell is left out here too.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import llama_cpp
from llama_cpp import _ctypes_extensions, _ggml

from app.llama.facts import BuildFacts, Device, DeviceKind
from app.llama.native import native_log

# ggml_backend_dev_type
_KINDS: tuple[DeviceKind, ...] = ("cpu", "gpu", "integrated", "accelerator")
_SETTING = re.compile(r"^\s*([\w.]+)\s*=\s*(\S+)\s*$")


def devices() -> tuple[Device, ...]:
    """All devices, the CPU included; empty where this build does not tell."""
    return tuple(device for _, device in device_handles())


def device_handles() -> Iterator[tuple[int, Device]]:
    """Each device with ggml's own pointer to it, for llama.cpp's parameters."""
    native_log()
    count, get = ggml("ggml_backend_dev_count"), ggml("ggml_backend_dev_get")
    if count is None or get is None:
        return
    count.restype = ctypes.c_size_t
    get.argtypes, get.restype = [ctypes.c_size_t], ctypes.c_void_p
    for index in range(count()):
        handle = get(index)
        kind = _number("ggml_backend_dev_type", handle)
        if handle and kind < len(_KINDS):
            free, total = _memory(handle)
            yield (
                handle,
                Device(
                    name=_text("ggml_backend_dev_name", handle),
                    description=_text("ggml_backend_dev_description", handle),
                    kind=_KINDS[kind],
                    free=free,
                    total=total,
                    backend=_backend(handle),
                ),
            )


def build_facts() -> BuildFacts:
    """What was compiled in, for a report of the installation."""
    native_log()
    info = llama_cpp.llama_print_system_info().decode("utf-8", "replace")
    return BuildFacts(
        version=llama_cpp.__version__,
        backends=tuple(_backends()),
        gpu_offload=bool(llama_cpp.llama_supports_gpu_offload()),
        rpc=supports_rpc(),
        cpu_features=cpu_features(info),
        system_info=info.strip(),
    )


def supports_rpc() -> bool:
    """Whether this build can hand layers to other machines."""
    return bool(llama_cpp.llama_supports_rpc())


def cpu_features(system_info: str) -> tuple[str, ...]:
    """The features that are on in llama.cpp's line, which is "CPU : AVX = 1 | … | CUDA : …"."""
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
    """The CPU's device, and the address of a function that its backend offers; None where it has none."""
    native_log()
    by_type, of_device = ggml("ggml_backend_dev_by_type"), ggml("ggml_backend_dev_backend_reg")
    find = ggml("ggml_backend_reg_get_proc_address")
    if by_type is None or of_device is None or find is None:
        return None
    by_type.argtypes, by_type.restype = [ctypes.c_int], ctypes.c_void_p
    of_device.argtypes, of_device.restype = [ctypes.c_void_p], ctypes.c_void_p
    find.argtypes, find.restype = [ctypes.c_void_p, ctypes.c_char_p], ctypes.c_void_p
    device = by_type(_KINDS.index("cpu"))
    address = find(of_device(device), name.encode()) if device else None
    return (device, address) if address else None


def _backends() -> Iterator[str]:
    count, get = ggml("ggml_backend_reg_count"), ggml("ggml_backend_reg_get")
    if count is None or get is None:
        return
    count.restype = ctypes.c_size_t
    get.argtypes, get.restype = [ctypes.c_size_t], ctypes.c_void_p
    for index in range(count()):
        yield _text("ggml_backend_reg_name", get(index))


def _backend(device: int) -> str:
    function = ggml("ggml_backend_dev_backend_reg")
    if function is None:
        return ""
    function.argtypes, function.restype = [ctypes.c_void_p], ctypes.c_void_p
    return _text("ggml_backend_reg_name", function(device))


def _memory(device: int) -> tuple[int, int]:
    """Free and total bytes of a device."""
    function = ggml("ggml_backend_dev_memory")
    if function is None:
        return 0, 0
    function.argtypes = [ctypes.c_void_p] + [ctypes.POINTER(ctypes.c_size_t)] * 2
    function.restype = None
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    function(device, ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


def _text(name: str, handle: int) -> str:
    function = ggml(name)
    if function is None:
        return ""
    function.argtypes, function.restype = [ctypes.c_void_p], ctypes.c_char_p
    text: bytes | None = function(handle)
    return (text or b"").decode("utf-8", "replace")


def _number(name: str, handle: int) -> int:
    function = ggml(name)
    if function is None:
        return 0
    function.argtypes, function.restype = [ctypes.c_void_p], ctypes.c_int
    return int(function(handle))


@cache
def ggml(name: str) -> Any | None:
    """A function of ggml by its C name; None where no library of this build has it."""
    for library in _libraries():
        try:
            return getattr(library, name)
        except AttributeError:
            continue
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
