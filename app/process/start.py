"""How a process of ours is started."""

from __future__ import annotations

import sys
from pathlib import Path

import app

# `python -m` would put the folder that the person is in first: a package named "app" there would be run.
_START = "import sys; sys.path[:] = [*filter(None, sys.path), {root!r}]; from {module} import main; main()"


def python_command(module: str) -> tuple[str, ...]:
    """The command that runs the `main` of a module of ours, whatever folder it is run in."""
    root = str(Path(app.__file__ or "").resolve().parents[1])
    return (sys.executable, "-c", _START.format(root=root, module=module))
