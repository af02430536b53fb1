"""A process of its own that loads a model and makes a few passes, to see whether it lives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from app.children import python_command
from app.llama.settings import ContextSettings, ModelSettings

# Seconds that a trial may take beside reading the file, and bytes that any disk reads in a second.
_PATIENCE, _DISK = 120.0, 50e6
# Widths at which llama.cpp goes over to other kernels, a whole chunk of a prompt among them.
_WIDTHS = (1, 2, 8, 33, 64)
_CONTEXT = 256
_CHILD = python_command("app.llama.trial")


@dataclass(frozen=True, slots=True)
class Trial:
    """status: the exit code, 0 if it lived, None if it hung. logits: the last row of each pass."""

    status: int | None
    logits: NDArray[np.float32]


def try_model(path: Path, model: ModelSettings, context: ContextSettings | None = None) -> Trial:
    """Load a model with these settings in another process, and make passes of several widths there."""
    settings = json.dumps([asdict(model), asdict(context or ContextSettings())])
    try:
        done = subprocess.run(
            (*_CHILD, str(path), settings),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE + path.stat().st_size / _DISK,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Trial(None, np.empty(0, np.float32))
    whole = len(done.stdout) // 4 * 4
    return Trial(done.returncode, np.frombuffer(done.stdout[:whole], np.float32))


def main() -> None:
    """The process: a path and the settings as JSON. Logits go to stdout, out of native code's reach."""
    from app.llama.context import Context
    from app.llama.model import Model

    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    path, settings = sys.argv[1:]
    of_model, of_context = json.loads(settings)
    of_model["rpc"] = tuple(of_model["rpc"])
    with (
        Model(Path(path), ModelSettings(**of_model)) as model,
        Context(model, _CONTEXT, ContextSettings(**of_context)) as context,
        answers,
    ):
        size = model.vocabulary.size
        for width in _WIDTHS:
            row = context.forward([(7 * place + width) % size for place in range(width)])[-1]
            answers.write(row.tobytes())
