"""The line that is advised must install what the card, its driver and this Python can use."""

from __future__ import annotations

import pytest

from app.doctor.hardware import Card
from app.doctor.install import Host, build_for, cuda_index, from_source, install_command, required

LINUX = Host((3, 12, 1), "linux", "x86_64", "python -m pip install")


@pytest.mark.parametrize(
    ("driver", "name", "index"),
    [
        ((580, 82), "NVIDIA H200", "cu130"),
        ((560, 35), "NVIDIA H200", "cu125"),
        ((550, 54), "NVIDIA H200", "cu124"),
        ((535, 1), "NVIDIA H200", ""),
        ((), "NVIDIA GPU", "cu124"),
        # CUDA 13 has no code for these.
        ((580, 82), "NVIDIA GeForce GTX 1080 Ti", "cu125"),
        ((580, 82), "Tesla V100-SXM2-16GB", "cu125"),
        ((580, 82), "NVIDIA GeForce GTX 1660", "cu130"),
        ((580, 82), "Tesla T4", "cu130"),
        ((580, 82), "NVIDIA RTX A2000", "cu130"),
        ((580, 82), "NVIDIA GB200", "cu130"),
    ],
)
def test_the_wheel_suits_the_driver_and_the_card(driver: tuple[int, ...], name: str, index: str) -> None:
    assert cuda_index(Card("nvidia", name, driver=driver)) == index


def test_a_wheel_where_there_is_one() -> None:
    build = build_for(Card("nvidia", "NVIDIA H200", driver=(555, 42)), LINUX)
    assert build.command == (
        f"python -m pip install {required('llama-cpp-python')} --force-reinstall --no-cache-dir "
        "--extra-index-url https://abetlen.github.io/llama-cpp-python/whl/cu125"
    )
    assert "CUDA 12.5" in build.needs


@pytest.mark.parametrize(
    ("host", "card", "start"),
    [
        (
            Host((3, 13), "linux", "x86_64", "pip install"),
            Card("nvidia", "H200"),
            'CMAKE_ARGS="-DGGML_CUDA=on" pip',
        ),
        (
            Host((3, 12), "linux", "aarch64", "pip install"),
            Card("nvidia", "GB10"),
            'CMAKE_ARGS="-DGGML_CUDA=on" pip',
        ),
        (
            Host((3, 14), "win32", "AMD64", "pip install"),
            Card("nvidia", "H200"),
            '$env:CMAKE_ARGS="-DGGML_CUDA=on"; ',
        ),
        (
            Host((3, 12), "linux", "x86_64", "pip install"),
            Card("nvidia", "H200", driver=(470, 1)),
            "CMAKE_ARGS=",
        ),
        (
            Host((3, 12), "linux", "x86_64", "pip install"),
            Card("amd", "x", driver=(6, 4)),
            'CMAKE_ARGS="-DGGML_HIP=on"',
        ),
    ],
)
def test_the_source_where_there_is_no_wheel(host: Host, card: Card, start: str) -> None:
    build = build_for(card, host)
    assert build.command.startswith(start) and "index" not in build.command and build.needs


@pytest.mark.parametrize(
    ("card", "host", "index"),
    [
        (Card("amd", "AMD GPU", driver=(7, 2, 0)), LINUX, "rocm72"),
        (Card("amd", "AMD GPU"), LINUX, "vulkan"),
        (Card("intel", "Intel GPU"), LINUX, "vulkan"),
        (Card("apple", "Apple graphics"), Host((3, 11), "darwin", "arm64", "pip install"), "metal"),
    ],
)
def test_other_makers(card: Card, host: Host, index: str) -> None:
    assert build_for(card, host).command.endswith(f"/whl/{index}")


def test_installing_goes_into_this_python() -> None:
    assert install_command("/my env/bin/python", "linux", True) == "'/my env/bin/python' -m pip install"
    assert (
        install_command(r"C:\my env\python.exe", "win32", True) == r'& "C:\my env\python.exe" -m pip install'
    )
    assert install_command("/env/bin/python", "linux", False) == "uv pip install --python /env/bin/python"
    assert "--no-binary" in from_source(LINUX)
