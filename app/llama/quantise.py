"""Copies of a GGUF in another number format, made by llama.cpp's quantiser."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import llama_cpp

from app.errors import SpecchatError
from app.llama.native import native_log

FileType = Literal["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q4_K_M", "Q2_K"]

# llama_ftype
_FILE_TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q2_K": 10, "Q4_K_M": 15, "BF16": 32}


def requantise(source: Path, target: Path, file_type: FileType) -> Path:
    """Write a copy of `source` with weights of another type, unless `target` exists already.

    The copy gets its name only when it is complete. Raises SpecchatError if llama.cpp fails.
    """
    if target.exists():
        return target
    native_log()
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype = _FILE_TYPES[file_type]
    parameters.allow_requantize = True
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        if llama_cpp.llama_model_quantize(os.fsencode(source), os.fsencode(partial), parameters):
            raise SpecchatError(
                f"{source} could not be requantised to {file_type}: check that the file is complete and "
                f"that {target.parent} has room."
            )
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return target
