"""The largest logits of each row, found where the output is computed: all that top-k needs of it.

On a GPU whole rows are the largest thing that a pass brings to the CPU: 8 of 152,000 floats are 4.9 MB.
llama.cpp takes samplers into a context's graph. One that only keeps the K largest logits leaves K tokens
and raw logits of each row, and then no whole row is copied.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from app.llama.native import array_at
from app.llama.settings import ContextSettings, ModelSettings

# Enough for top-k of 40 with penalties that look at 64 tokens, see Sampler.candidates.
CANDIDATES = 128


@dataclass(frozen=True, slots=True)
class Candidates:
    """The K largest raw logits of each row, in no order; of several that tie for the last place, any.

    tokens, logits: (n, K), views like rows: the next forward overwrites them.
    """

    tokens: NDArray[np.int32]
    logits: NDArray[np.float32]


def candidates_for(settings: ContextSettings, placed: ModelSettings, layers: int, own_gpu: bool) -> int:
    """How many a target's context is to give: as set, else some where a GPU computes the output.

    layers: of the model; llama.cpp places the output behind the last. own_gpu: a GPU of this machine, with
    memory of its own: elsewhere whole rows are read where they lie. Not over RPC, where each row would be a
    message, and llama.cpp does not ask the server whether it can.
    """
    if settings.candidates or settings.exact or settings.hidden_states or placed.rpc or not own_gpu:
        return settings.candidates
    return CANDIDATES if placed.gpu_layers < 0 or placed.gpu_layers > layers else 0


class DeviceTopK:
    """The sampler in the graph of a context's sequence 0. While it is there, no whole rows come.

    llama.cpp lays its graphs out anew after each change, some milliseconds in the next pass; so it is put
    in and taken out as the kind of rows asked for changes, once or twice a reply.
    """

    def __init__(self, count: int, vocabulary_size: int, parameters: llama_cpp.llama_context_params) -> None:
        """count: 0 for none; as many as there are tokens would be whole rows, so these are none either.

        parameters: of the context, which is made with it. Where the device has no memory for it llama.cpp
        says so then; in a pass it would end the process.
        """
        self.count = count if count < vocabulary_size else 0
        self._size = vocabulary_size
        # llama.cpp ends the process where a chain is put into a graph twice, so each serves once.
        self._chain: llama_cpp.llama_sampler_p | None = None
        if self.count:
            self._chain = self._new_chain()
            config = llama_cpp.llama_sampler_seq_config(0, ctypes.cast(self._chain, ctypes.c_void_p))
            parameters.samplers = (llama_cpp.llama_sampler_seq_config * 1)(config)
            parameters.n_samplers = 1
            parameters.n_outputs_max_per_seq = parameters.n_outputs_max

    def put_in(self, context: object) -> None:
        if self.count == 0:
            raise ValueError("the context was made without candidates")
        if self._chain is None:
            self._chain = self._new_chain()
            llama_cpp.llama_set_sampler(context, 0, self._chain)

    def take_out(self, context: object) -> None:
        if self._chain is not None:
            llama_cpp.llama_set_sampler(context, 0, None)
            self.free()

    def free(self) -> None:
        """To be called when no context has it."""
        if self._chain is not None:
            llama_cpp.llama_sampler_free(self._chain)
            self._chain = None

    def of_last_pass(self, context: object, rows: int) -> Candidates | None:
        """Those of the last pass, which gave `rows` rows. None where the device cannot look for them.

        llama.cpp takes a sampler there too, and only leaves it out of the graph.
        """
        if llama_cpp.llama_get_sampled_candidates_count_ith(context, 0) != self.count:
            self.count = 0
            return None
        tokens = llama_cpp.llama_get_sampled_candidates_ith(context, 0).contents
        logits = llama_cpp.llama_get_sampled_logits_ith(context, 0).contents
        # What llama.cpp keeps of each row lies as far apart as whole rows would.
        return Candidates(
            array_at(ctypes.addressof(tokens), rows, self._size, np.int32)[:, : self.count],
            array_at(ctypes.addressof(logits), rows, self._size, np.float32)[:, : self.count],
        )

    def _new_chain(self) -> llama_cpp.llama_sampler_p:
        chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
        llama_cpp.llama_sampler_chain_add(chain, llama_cpp.llama_sampler_init_top_k(self.count))
        return chain
