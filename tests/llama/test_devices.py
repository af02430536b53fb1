"""What `doctor` and the fit are told of this machine, and RPC servers that are not there."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from app.errors import SpecchatError, UsageError
from app.llama.devices import build_facts, cpu_features, devices, ggml, supports_rpc
from app.llama.model import Model
from app.llama.rpc import add_servers, checked_address, device_list
from app.llama.settings import ModelSettings


def test_the_cpu_is_among_the_devices() -> None:
    """Lost otherwise: a report of the installation that names no device."""
    found = devices()
    cpus = [device for device in found if device.kind == "cpu"]
    assert len(cpus) == 1
    assert cpus[0].name and cpus[0].description and cpus[0].backend == "CPU"
    assert 0 < cpus[0].free <= cpus[0].total
    assert all(device.free <= device.total for device in found)


def test_the_build_says_what_it_can_do() -> None:
    facts = build_facts()
    assert facts.version[0].isdigit()
    assert "CPU" in facts.backends
    assert supports_rpc() == ("RPC" in facts.backends)
    assert facts.gpu_offload or all(device.kind not in ("gpu", "integrated") for device in devices())
    assert all(f"{feature} = 1" in facts.system_info for feature in facts.cpu_features)


def test_features_are_those_of_the_cpu_that_are_on() -> None:
    line = "CUDA : ARCHS = 890 | USE_GRAPHS = 1 | CPU : SSE3 = 1 | AVX512 = 0 | REPACK = 1 | "
    assert cpu_features(line) == ("SSE3", "REPACK")
    assert cpu_features("CPU : NEON = 1 | DOTPROD = 1 | ") == ("NEON", "DOTPROD")
    assert cpu_features("") == ()


def test_a_function_that_a_build_lacks_is_none() -> None:
    """Lost otherwise: a start that fails over a name that another version of ggml has not."""
    assert ggml("ggml_backend_dev_count") is not None
    assert ggml("ggml_no_such_function") is None


@pytest.mark.parametrize(
    "address", ["", "host", "host:", ":50052", "host:port", "host:0", "host:65536", "[::1]:50052", "a b:1"]
)
def test_a_malformed_address_is_wrong_usage(address: str, tiny_path: Path) -> None:
    with pytest.raises(UsageError, match="HOST:PORT"):
        checked_address(address)
    with pytest.raises(UsageError):
        Model(tiny_path, ModelSettings(rpc=(address,)))


def test_addresses() -> None:
    assert checked_address("10.0.0.2:50052") == ("10.0.0.2", 50052)
    assert checked_address("gpu-box.local:1") == ("gpu-box.local", 1)


def test_an_rpc_server_that_cannot_be_had_is_one_sentence(tiny_path: Path) -> None:
    """Lost otherwise: the process, which llama.cpp ends where a server does not answer."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    expected = "does not answer" if supports_rpc() else "no RPC backend: reinstall llama-cpp-python with"
    with pytest.raises(SpecchatError, match=expected) as caught:
        Model(tiny_path, ModelSettings(rpc=(address,)))
    assert caught.value.exit_code == 3


def test_without_servers_llama_cpp_chooses_the_devices() -> None:
    add_servers(())
    assert device_list(()) is None
