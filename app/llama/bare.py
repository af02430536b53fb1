"""llama.cpp's own speed: the shortest loop that decodes, to compare the engine with."""

from __future__ import annotations

import time

import llama_cpp
import numpy as np

from app.llama.context import Context


def bare_decode(context: Context, token: int, steps: int) -> float:
    """Seconds to decode `steps` tokens greedily behind what the context holds, one a call.

    Nothing of ours runs: llama_batch_get_one, llama_decode, the argmax of the logits. The context is
    left as it was found.
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
