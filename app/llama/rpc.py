"""llama.cpp's RPC servers: other machines that hold layers of a model, as if they were GPUs of this one."""

from __future__ import annotations

import ctypes
import re
import socket
from collections.abc import Sequence
from typing import Any

from app.errors import SpecchatError, UsageError
from app.llama.devices import device_handles, ggml, supports_rpc

_ADDRESS = re.compile(r"([A-Za-z0-9._-]+):([0-9]{1,5})")
_BACKEND = "RPC"
# Seconds in which a server has to answer.
_PATIENCE = 5.0


def checked_address(address: str) -> tuple[str, int]:
    """Host and port. Raises UsageError where `address` is not HOST:PORT (llama.cpp knows no IPv6)."""
    found = _ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found[2]) < 1 << 16:
        raise UsageError(
            f"{address} is no address of an RPC server: write HOST:PORT, such as 10.0.0.2:50052."
        )
    return found[1], int(found[2])


def add_servers(addresses: Sequence[str]) -> None:
    """Make the devices of these servers known; those that are known already stay.

    Raises UsageError for a malformed address, SpecchatError where this build has no RPC backend or a
    server does not answer.
    """
    places = [checked_address(address) for address in addresses]
    if places and not supports_rpc():
        raise SpecchatError(
            "This build of llama.cpp has no RPC backend: reinstall llama-cpp-python with "
            "CMAKE_ARGS=-DGGML_RPC=on."
        )
    known = {device.description for _, device in device_handles() if device.backend == _BACKEND}
    for address, place in zip(addresses, places, strict=True):
        if address not in known:
            _reach(address, place)
            _add(address)


def device_list(addresses: Sequence[str]) -> ctypes.Array[Any] | None:
    """What llama.cpp may place layers on: these servers first, then the GPUs of this machine.

    None stands for llama.cpp's own choice. It would take every server that was ever added, so a list is
    given once there is one.
    """
    found = list(device_handles())
    servers = [(handle, device) for handle, device in found if device.backend == _BACKEND]
    if not servers:
        return None
    chosen = [handle for handle, device in servers if device.description in addresses]
    own = [(handle, device) for handle, device in found if device.backend != _BACKEND]
    gpus = [handle for handle, device in own if device.kind == "gpu"]
    chosen += gpus or [handle for handle, device in own if device.kind == "integrated"][:1]
    return (ctypes.c_void_p * (len(chosen) + 1))(*chosen, None)


def no_devices() -> ctypes.Array[Any]:
    """The same for a model that stays on the CPU."""
    return (ctypes.c_void_p * 1)(None)


def _reach(address: str, place: tuple[str, int]) -> None:
    """See whether anybody answers: llama.cpp ends the process where nobody does."""
    try:
        socket.create_connection(place, timeout=_PATIENCE).close()
    except OSError as error:
        raise SpecchatError(
            f"The RPC server {address} does not answer ({error.strerror or error}): start rpc-server there, "
            "or leave it out of --rpc."
        ) from error


def _add(address: str) -> None:
    by_name, find = ggml("ggml_backend_reg_by_name"), ggml("ggml_backend_reg_get_proc_address")
    register = ggml("ggml_backend_register")
    if by_name is None or find is None or register is None:
        raise SpecchatError("This build of llama.cpp hides its RPC backend: reinstall llama-cpp-python.")
    by_name.argtypes, by_name.restype = [ctypes.c_char_p], ctypes.c_void_p
    find.argtypes, find.restype = [ctypes.c_void_p, ctypes.c_char_p], ctypes.c_void_p
    register.argtypes, register.restype = [ctypes.c_void_p], None
    function = find(by_name(_BACKEND.encode()), b"ggml_backend_rpc_add_server")
    add = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)(function or 0)
    registry = add(address.encode()) if function else None
    if not registry:
        raise SpecchatError(f"The RPC server {address} offers no device: start rpc-server there with one.")
    register(registry)
