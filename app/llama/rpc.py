"""llama.cpp's RPC servers: other machines that hold layers of a model, as if they were local GPUs."""

from __future__ import annotations

import ctypes
import re
import socket
from collections.abc import Sequence
from typing import Any

from app.errors import SpecchatError, UsageError
from app.llama.devices import backend_function, device_handles, ggml, supports_rpc

_ADDRESS = re.compile(r"([A-Za-z0-9._-]+):([0-9]{1,5})")
_BACKEND = "RPC"
# Seconds a server may take to answer.
_TIMEOUT = 5.0


def checked_address(address: str) -> tuple[str, int]:
    """Host and port. Raises UsageError where `address` is not HOST:PORT (llama.cpp knows no IPv6)."""
    found = _ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found[2]) < 1 << 16:
        raise UsageError(
            f"{address} is not the address of an RPC server: write HOST:PORT, such as 10.0.0.2:50052."
        )
    return found[1], int(found[2])


def add_servers(addresses: Sequence[str]) -> None:
    """Register the devices of these servers with llama.cpp; known servers stay registered.

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

    None leaves the choice to llama.cpp. It would use every server ever added, so once there is one, the list
    is explicit.
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
    """An empty list of devices, for a model that stays on the CPU."""
    return (ctypes.c_void_p * 1)(None)


def _reach(address: str, place: tuple[str, int]) -> None:
    """Check that the server answers: llama.cpp ends the process if it does not."""
    try:
        socket.create_connection(place, timeout=_TIMEOUT).close()
    except OSError as error:
        raise SpecchatError(
            f"The RPC server {address} does not answer ({error.strerror or error}): start rpc-server there, "
            "or leave it out of --rpc."
        ) from error


def _add(address: str) -> None:
    by_name = ggml("ggml_backend_reg_by_name", ctypes.c_void_p, ctypes.c_char_p)
    register = ggml("ggml_backend_register", None, ctypes.c_void_p)
    if by_name is None or register is None:
        raise SpecchatError("This build of llama.cpp hides its RPC backend: reinstall llama-cpp-python.")
    function = backend_function(by_name(_BACKEND.encode()), "ggml_backend_rpc_add_server")
    add = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)(function or 0)
    registry = add(address.encode()) if function else None
    if not registry:
        raise SpecchatError(f"The RPC server {address} offers no device: start rpc-server there with one.")
    register(registry)
