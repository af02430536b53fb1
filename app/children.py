"""How our own processes are started, and how they ended."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import app

# `python -m` would search the current folder first, and run a package named "app" that lies there.
_START = "import sys; sys.path[:] = [*filter(None, sys.path), {root!r}]; from {module} import main; main()"
# Windows' exit codes for what other systems call by these names.
_WINDOWS = {0xC000001D: "SIGILL", 0xC0000005: "SIGSEGV", 0xC0000409: "SIGABRT"}


def python_command(module: str) -> tuple[str, ...]:
    """The command that runs `main` of one of our modules, whatever the current folder."""
    root = str(Path(app.__file__ or "").resolve().parents[1])
    return (sys.executable, "-c", _START.format(root=root, module=module))


def how_it_ended(status: int) -> str:
    """How a process ended, by its exit code, such as "was killed by SIGILL"."""
    name = _WINDOWS.get(status % (1 << 32))
    if name is not None:
        return f"was killed by {name}"
    if status >= 0:
        return f"ended with code {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def is_native(end: str) -> bool:
    """Whether a process that ended so (see how_it_ended) died of its own code, not by somebody's signal."""
    return any(name in end for name in ("SIGILL", "SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE"))
