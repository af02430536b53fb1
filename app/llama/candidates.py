"""The largest logits of each row, selected on the device that computes them: top-k needs no others.

Whole rows are the largest thing that a pass copies from a GPU: 8 rows of 152,000 floats are 4.9 MB. llama.cpp
can run samplers inside a context's graph. One that keeps only the K largest logits leaves K tokens and raw
logits for each row, and no whole row is copied.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from app.llama.native import array_at
from app.llama.settings import ContextSettings, ModelSettings

# Enough for top-k of 40 with penalties that look at 64 tokens, see Sampler.candidates_needed.
CANDIDATES = 128


@dataclass(frozen=True, slots=True)
class Candidates:
    """The K largest raw logits of each row, unordered; any of those that tie for the last place.

    tokens, logits: (n, K), views that the next forward overwrites.
    """

    tokens: NDArray[np.int32]
    logits: NDArray[np.float32]


def candidates_for(settings: ContextSettings, placed: ModelSettings, layers: int, own_gpu: bool) -> int:
    """How many candidates a target's context should give: as set, else some if a GPU computes the output.

    layers: of the model; llama.cpp places the output after the last. own_gpu: whether this machine has a GPU
    with memory of its own; without one, whole rows need no copy. Not over RPC, where each row would be a
    message and llama.cpp does not ask whether the server supports it.
    """
    if settings.candidates or settings.exact or settings.hidden_states or placed.rpc or not own_gpu:
        return settings.candidates
    return CANDIDATES if placed.gpu_layers < 0 or placed.gpu_layers > layers else 0


class DeviceTopK:
    """The sampler in the graph of a context's sequence 0. While it is attached, there are no whole rows.

    llama.cpp rebuilds its graphs after each change, which costs the next pass some milliseconds. So it is
    attached and detached only when the kind of rows wanted changes, once or twice a reply.
    """

    def __init__(self, count: int, vocabulary_size: int, parameters: llama_cpp.llama_context_params) -> None:
        """count: 0 for none. As many as the vocabulary has would be whole rows, which counts as none too.

        parameters: of the context, which is created with the sampler: llama.cpp then reports it if the device
        lacks the memory, where a later pass would end the process.
        """
        self.count = count if count < vocabulary_size else 0
        self._size = vocabulary_size
        # llama.cpp ends the process if a chain is attached twice, so each is used once.
        self._chain: llama_cpp.llama_sampler_p | None = None
        if self.count:
            self._chain = self._new_chain()
            config = llama_cpp.llama_sampler_seq_config(0, ctypes.cast(self._chain, ctypes.c_void_p))
            parameters.samplers = (llama_cpp.llama_sampler_seq_config * 1)(config)
            parameters.n_samplers = 1
            parameters.n_outputs_max_per_seq = parameters.n_outputs_max

    def attach(self, context: object) -> None:
        if self.count == 0:
            raise ValueError("the context was made without candidates")
        if self._chain is None:
            self._chain = self._new_chain()
            llama_cpp.llama_set_sampler(context, 0, self._chain)

    def detach(self, context: object) -> None:
        if self._chain is not None:
            llama_cpp.llama_set_sampler(context, 0, None)
            self.free()

    def free(self) -> None:
        """Call this only when no context uses it."""
        if self._chain is not None:
            llama_cpp.llama_sampler_free(self._chain)
            self._chain = None

    def read(self, context: object, rows: int) -> Candidates | None:
        """The candidates of the last pass, which had `rows` rows. None if the device cannot select them:
        llama.cpp accepts the sampler all the same, but leaves it out of the graph.
        """
        if llama_cpp.llama_get_sampled_candidates_count_ith(context, 0) != self.count:
            self.count = 0
            return None
        tokens = llama_cpp.llama_get_sampled_candidates_ith(context, 0).contents
        logits = llama_cpp.llama_get_sampled_logits_ith(context, 0).contents
        # llama.cpp stores each row's candidates at the stride of whole rows.
        return Candidates(
            array_at(ctypes.addressof(tokens), rows, self._size, np.int32)[:, : self.count],
            array_at(ctypes.addressof(logits), rows, self._size, np.float32)[:, : self.count],
        )

    def _new_chain(self) -> llama_cpp.llama_sampler_p:
        chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
        llama_cpp.llama_sampler_chain_add(chain, llama_cpp.llama_sampler_init_top_k(self.count))
        return chain
