"""How a model and its context are loaded. Plain values, to be had without llama.cpp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CacheType = Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"]

# auto: on a CPU what was measured to be faster, see app/attention.py; on a GPU llama.cpp's own choice.
FlashAttention = Literal["auto", "on", "off"]

# sound: the layouts that work on this machine (see layouts.py). all: those that llama.cpp would use.
# plain: as the file has it.
Layouts = Literal["sound", "all", "plain"]

# Copies of memory that cannot be cut, which stay for later turns: so many, and so many bytes, but always the
# last two.
MOST_TURNS, LEAST_TURNS, MOST_TURN_BYTES = 16, 2, 256 << 20


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How weights are held. gpu_layers: layers on the GPU, -1 for all that llama.cpp can place, 0 for a model
    that has nothing to do with one.

    rpc: llama.cpp's RPC servers, each HOST:PORT, which count as GPUs.
    """

    gpu_layers: int = -1
    mmap: bool = True
    vocabulary_only: bool = False
    rpc: tuple[str, ...] = ()
    layouts: Layouts = "sound"


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """threads: None for what turns out to be fastest, see thread_count.py; chunk: most tokens that are read
    in one pass.

    exact: logits must not depend on the width of their pass, so a pass is never one wide: a single
    token carries a throw-away position that is rolled back.
    branches: so many a tree of tokens may have that is read in one pass, see Context.forward_tree.
    candidates: so many of each row's largest logits can be had without whole rows, see candidates.py.
    snapshots: states of recurrent layers that are kept beside the last one, see memory.py; each takes as much
    memory as the state. whole_window: layers with a sliding window keep all rows, so that any can be cut; in
    exact mode they always do.
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
            raise ValueError("exact mode and hidden states are for whole rows")
