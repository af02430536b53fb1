"""The process of a trial. Arguments: a path, and the settings as JSON. Output: the last row of each pass."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from app.llama.context import Context
from app.llama.model import Model
from app.llama.settings import ContextSettings, ModelSettings

# Widths at which llama.cpp switches to other kernels; the largest stands for a chunk of a prompt.
_WIDTHS = (1, 2, 8, 33, 64)
_CONTEXT = 256


def main() -> None:
    """Write logits to the original stdout, and let native code write to stderr only."""
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
