"""llama.cpp's own speed: the shortest loop that decodes, as a baseline for the engine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import llama_cpp
import numpy as np

if TYPE_CHECKING:
    from app.llama.context import Context


def raw_decode(context: Context, token: int, steps: int) -> float:
    """Seconds to decode `steps` tokens greedily, one a call, starting with `token` after what the context
    holds.

    The loop uses nothing of ours: llama_batch_get_one, llama_decode, the argmax of the logits. The context
    is left as it was.
    """
    pointer = context.pointer
    context.checkpoint()
    size = context.model.vocabulary.size
    single = (llama_cpp.llama_token * 1)(token)
    started = time.perf_counter()
    for _ in range(steps):
        batch = llama_cpp.llama_batch_get_one(single, 1)
        if llama_cpp.llama_decode(pointer, batch):
            raise RuntimeError("llama_decode failed")
        logits = llama_cpp.llama_get_logits(pointer)
        single[0] = int(np.ctypeslib.as_array(logits, shape=(size,)).argmax())
    seconds = time.perf_counter() - started
    context.recover()
    return seconds
