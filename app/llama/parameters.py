"""llama.cpp's parameters for a new context."""

from __future__ import annotations

from typing import TYPE_CHECKING

import llama_cpp

from app.llama.settings import ContextSettings
from app.llama.threads import Threads

if TYPE_CHECKING:
    from app.llama.model import Model

# Rows of logits that one forward may return. This bounds llama.cpp's buffer: 64 rows of 152k floats are
# 39 MB, while its default of one row for each token of a chunk would be 311 MB.
MAX_ROWS = 64

_CACHE_TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "bf16": 30}
_FLASH = {"auto": -1, "off": 0, "on": 1}


def context_parameters(
    model: Model, length: int, settings: ContextSettings, threads: Threads
) -> llama_cpp.llama_context_params:
    """Parameters of a context for `length` tokens."""
    parameters = llama_cpp.llama_context_default_params()
    # Exact mode needs room for its throw-away position.
    parameters.n_ctx = length + 1 if settings.exact else length
    # llama.cpp ends the process if a pass has no room for the snapshots and two more tokens.
    snapshots = max(0, min(settings.snapshots, length - 2)) if model.recurrent else 0
    parameters.n_rs_seq = snapshots
    parameters.n_batch = parameters.n_ubatch = max(settings.chunk, MAX_ROWS, snapshots + 2)
    parameters.n_outputs_max = MAX_ROWS
    parameters.n_threads, parameters.n_threads_batch = threads
    parameters.flash_attn_type = _FLASH[settings.flash_attention]
    parameters.type_k = parameters.type_v = _CACHE_TYPES[settings.cache_type]
    # Passes of 32 tokens or more would copy weights from the CPU to a GPU; narrower passes would not.
    parameters.op_offload = not settings.exact
    # In a cache of the window alone, the order of rows depends on their history, and rounding on that order.
    # With recurrent layers too, llama.cpp does not tell which rows are left.
    parameters.swa_full = settings.whole_window or settings.exact or model.recurrent
    # The branches of a tree share the cells of what precedes it.
    parameters.n_seq_max = settings.branches
    parameters.kv_unified = True
    return parameters
