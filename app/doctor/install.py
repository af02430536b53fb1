"""What to type to install: packages into this Python, and llama-cpp-python for a graphics card."""

from __future__ import annotations

import importlib.util
import platform
import re
import shlex
import sys
from dataclasses import dataclass
from importlib import metadata

from app.doctor.hardware import Card

_INDEX = "https://abetlen.github.io/llama-cpp-python/whl/"
_PACKAGE = "llama-cpp-python"
# Wheels are made for these; a wheel of CUDA needs a driver of at least that series.
_PYTHONS = ((3, 10), (3, 12))
_CUDA = ((580, "cu130"), (555, "cu125"), (550, "cu124"))
_ROCM = (7, 2)
# CUDA 13 has left out all cards before Turing.
_BEFORE_TURING = re.compile(
    r"\b(GTX (9|10)\d\d|GT (7|10)\d\d|TITAN (X|V)|[PV]100|[PM]\d\d?|MX[1-3]\d\d|(Quadro )?[GP]V?\d{3,4})\b",
    re.IGNORECASE,
)


_REQUIREMENT = re.compile(r"([\w.-]+)>=([\d.]+)")


@dataclass(frozen=True, slots=True)
class Host:
    """python: its version. system: as sys.platform has it. machine: as platform.machine() has it. install:
    the command that installs packages into that Python."""

    python: tuple[int, ...]
    system: str
    machine: str
    install: str


def this_host() -> Host:
    """What this runs on."""
    return Host(
        python=tuple(sys.version_info[:3]),
        system=sys.platform,
        machine=platform.machine(),
        install=install_command(sys.executable, sys.platform, importlib.util.find_spec("pip") is not None),
    )


def install_command(executable: str, system: str, pip: bool) -> str:
    """What installs into that Python. pip: whether it has pip; environments made by uv have none."""
    if system == "win32":
        quoted = f'"{executable}"' if " " in executable else executable
        # PowerShell runs what is quoted only after an ampersand.
        call = f"& {quoted}" if " " in executable else quoted
    else:
        quoted = call = shlex.quote(executable)
    return f"{call} -m pip install" if pip else f"uv pip install --python {quoted}"


def requirements() -> list[tuple[str, str]]:
    """The packages that specchat needs, each with its least version."""
    try:
        listed = metadata.requires("specchat") or []
    except metadata.PackageNotFoundError:
        return []
    found = (_REQUIREMENT.match(each) for each in listed if "extra ==" not in each)
    return [(match[1], match[2]) for match in found if match]


def required(name: str) -> str:
    """A package with its least version, quoted for a shell."""
    least = dict(requirements()).get(name)
    return f'"{name}>={least}"' if least else name


@dataclass(frozen=True, slots=True)
class Build:
    """A build of llama.cpp for a card. needs: what must be on the machine before, "" for nothing."""

    name: str
    command: str
    needs: str = ""


def build_for(card: Card, host: Host) -> Build:
    """The build that uses this card."""
    if card.vendor == "apple":
        return _build("Metal", "metal", "-DGGML_METAL=on", host)
    if card.vendor == "nvidia":
        flags = "-DGGML_CUDA=on"
        index = cuda_index(card)
        if index and _has_wheels(host):
            version = f"{index[2:4]}.{index[4:]}"
            return _build("CUDA", index, flags, host, f"CUDA {version}'s runtime libraries")
        return _build("CUDA", "", flags, host, "the CUDA toolkit and a C++ compiler")
    if card.vendor == "amd" and card.driver:
        index = "rocm72" if card.driver >= _ROCM and host.system == "linux" else ""
        needs = "" if index and _has_wheels(host) else "ROCm's compiler"
        return _build("ROCm", index, "-DGGML_HIP=on", host, needs)
    needs = "" if _has_wheels(host) else "the Vulkan SDK and a C++ compiler"
    return _build("Vulkan", "vulkan", "-DGGML_VULKAN=on", host, needs)


def from_source(host: Host) -> str:
    """The command that compiles llama.cpp for the CPU it runs on."""
    return f"{_install(host)} --no-binary {_PACKAGE}"


def without_broken_amx(host: Host) -> str:
    """The command that compiles llama.cpp so that its code for AMX works: gcc 12 takes the stores of the tile
    configuration for dead ones, and leaves them out."""
    flags = "-fno-tree-dse -fno-dse"
    return f'CFLAGS="{flags}" CXXFLAGS="{flags}" {from_source(host)}'


def cuda_index(card: Card) -> str:
    """The newest wheel index that the card and its driver can use; "" where there is none.

    The oldest where the driver's version cannot be read: newer drivers take it too.
    """
    if not card.driver:
        return _CUDA[-1][1]
    old = bool(_BEFORE_TURING.search(card.name))
    fitting = (name for least, name in _CUDA if card.driver[0] >= least and not (old and name == "cu130"))
    return next(fitting, "")


def _has_wheels(host: Host) -> bool:
    machines = ("arm64", "x86_64") if host.system == "darwin" else ("x86_64", "amd64")
    return _PYTHONS[0] <= host.python[:2] <= _PYTHONS[1] and host.machine.lower() in machines


def _build(name: str, index: str, flags: str, host: Host, needs: str = "") -> Build:
    command = _install(host)
    if index and _has_wheels(host):
        return Build(name, f"{command} --extra-index-url {_INDEX}{index}", needs)
    if host.system == "win32":
        return Build(name, f'$env:CMAKE_ARGS="{flags}"; {command}', needs)
    return Build(name, f'CMAKE_ARGS="{flags}" {command}', needs)


def _install(host: Host) -> str:
    return f"{host.install} {required(_PACKAGE)} --force-reinstall --no-cache-dir"
