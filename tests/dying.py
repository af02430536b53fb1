"""An environment in which llama.cpp really kills its process under some settings."""

from __future__ import annotations

import os
from pathlib import Path

# Python runs a module of this name at its start, whatever it was started for.
_MODULE = """
import os, signal
import llama_cpp

make = llama_cpp.llama_init_from_model

def dying(model, parameters):
    if {condition}:
        os.kill(os.getpid(), signal.{signal})
    return make(model, parameters)

llama_cpp.llama_init_from_model = dying
"""


def dying(folder: Path, condition: str, signal: str = "SIGILL") -> str:
    """A PYTHONPATH under which making a context kills the process where `condition` holds, an expression over
    llama.cpp's `parameters` of the context."""
    (folder / "sitecustomize.py").write_text(_MODULE.format(condition=condition, signal=signal))
    return os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
