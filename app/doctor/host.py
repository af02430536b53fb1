"""The machine and the Python that specchat runs on, as far as they decide what can be installed."""

from __future__ import annotations

import importlib.util
import platform
import shlex
import sys
from dataclasses import dataclass


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
