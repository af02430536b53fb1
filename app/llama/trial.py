"""Loads a model and makes a few passes in a separate process, to see whether it survives."""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from app.children import python_command
from app.llama.settings import ContextSettings, ModelSettings

# Seconds that a trial may take besides reading the file, and bytes that any disk reads in a second.
_TIMEOUT, _DISK = 120.0, 50e6
_CHILD = python_command("app.llama.trial_child")


@dataclass(frozen=True, slots=True)
class Trial:
    """status: the exit code, 0 if the process survived, None if it hung. logits: the last row of each
    pass."""

    status: int | None
    logits: NDArray[np.float32]


def try_model(path: Path, model: ModelSettings, context: ContextSettings | None = None) -> Trial:
    """Load a model with these settings in a separate process, and make passes of several widths there."""
    settings = json.dumps([asdict(model), asdict(context or ContextSettings())])
    try:
        done = subprocess.run(
            (*_CHILD, str(path), settings),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT + path.stat().st_size / _DISK,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Trial(None, np.empty(0, np.float32))
    whole = len(done.stdout) // 4 * 4
    return Trial(done.returncode, np.frombuffer(done.stdout[:whole], np.float32))
