"""How a model and its context are loaded: plain values that need no llama.cpp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CacheType = Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"]

# auto: on a CPU whichever was measured to be faster, see app/attention.py; on a GPU llama.cpp's choice.
FlashAttention = Literal["auto", "on", "off"]

# safe: the layouts that work on this machine (see layouts.py). all: those that llama.cpp would use.
# plain: only the one in the file.
Layouts = Literal["safe", "all", "plain"]

# Limits on copies of memory kept for later turns: their number, those kept whatever their size, and bytes.
MOST_TURNS, LEAST_TURNS, MOST_TURN_BYTES = 16, 2, 256 << 20


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How weights are held. gpu_layers: layers on the GPU, -1 for as many as llama.cpp can place, 0 for a
    model that does not use one.

    rpc: llama.cpp's RPC servers, each HOST:PORT, which count as GPUs.
    """

    gpu_layers: int = -1
    mmap: bool = True
    vocabulary_only: bool = False
    rpc: tuple[str, ...] = ()
    layouts: Layouts = "safe"


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """threads: None for whatever is fastest, see thread_timing.py. chunk: the most tokens read in one pass.

    exact: logits must not depend on the width of their pass. So no pass has width one: a single token gets a
    throw-away position, which is rolled back.
    branches: the most branches of a tree that is read in one pass, see Context.forward_tree.
    candidates: how many of each row's largest logits are available without whole rows, see candidates.py.
    snapshots: states of recurrent layers kept besides the last one, see memory.py; each takes as much memory
    as the state. whole_window: layers with a sliding window keep all rows, so that any can be cut; always so
    in exact mode.
    """

    threads: int | None = None
    flash_attention: FlashAttention = "auto"
    cache_type: CacheType = "f16"
    chunk: int = 512
    branches: int = 1
    hidden_states: bool = False
    exact: bool = False
    candidates: int = 0
    snapshots: int = 0
    whole_window: bool = True

    def __post_init__(self) -> None:
        if self.candidates and (self.exact or self.hidden_states):
            raise ValueError("exact mode and hidden states need whole rows")
