"""Random-weight models of the architectures whose memory is not one row a token, see tiny.py for the rest.

lfm2       hybrid: short convolutions and attention in turn; llama.cpp keeps snapshots of its state
qwen35     hybrid: gated delta net and attention in turn; keeps snapshots
mamba      recurrent in every layer; keeps none
gemma3     attention, every second layer over a sliding window

As in tiny.py a tensor comes from its name and the seed alone, so `noise` and a draft work alike.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

from app.llama.settings import ContextSettings, FlashAttention
from tests.tiny import CHATML, EOS, IM_END, Value, add_metadata, tokenizer

Tensor = tuple[str, tuple[int, ...], float | NDArray[np.float32]]
"""Name, shape (as numpy has it), and the deviation of random values or the values themselves."""

WIDTH, HEADS, INNER, LENGTH = 32, 2, 64, 16
# Numbers in the state of a recurrent layer's channel, and tokens that its convolution looks at.
_STATE, _KERNEL = 16, 4
_UNIT = WIDTH**-0.5
_ONES = np.ones(WIDTH, np.float32)


def write_architecture(
    path: Path,
    architecture: str,
    *,
    seed: int = 0,
    layers: int = 2,
    window: int = 64,
    vocabulary: int = 288,
    context: int = 1024,
    logit_scale: float = 3.0,
    noise: float = 0.0,
    end_scale: float = 0.0,
) -> Path:
    """Write a model to `path` and return it. window: of gemma3's windowed layers, in tokens."""
    metadata, tensors = _ARCHITECTURES[architecture](layers, window)
    writer = gguf.GGUFWriter(path, architecture)
    common: dict[str, Value] = {
        "general.name": f"tiny {architecture} {seed}",
        f"{architecture}.context_length": context,
        f"{architecture}.embedding_length": WIDTH,
        f"{architecture}.block_count": layers,
        f"{architecture}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{architecture}.rope.freq_base": 10000.0,
        f"{architecture}.vocab_size": vocabulary,
        **tokenizer(vocabulary, False, CHATML),
    }
    for key, value in {**common, **{f"{architecture}.{key}": each for key, each in metadata.items()}}.items():
        add_metadata(writer, key, value)

    def values(name: str, shape: tuple[int, ...], deviation: float) -> NDArray[np.float32]:
        drawn = np.random.default_rng([seed, zlib.crc32(name.encode())]).standard_normal(shape)
        if noise:
            other = np.random.default_rng([seed, zlib.crc32(name.encode()), 1]).standard_normal(shape)
            drawn = (drawn + noise * other) / np.hypot(1, noise)
        return (deviation * drawn).astype(np.float32)

    output = values("output.weight", (vocabulary, WIDTH), logit_scale * _UNIT)
    output[[EOS, IM_END]] *= end_scale
    # gemma3 multiplies its embeddings by the root of the width.
    scale = _UNIT if architecture == "gemma3" else 1.0
    norm = "token_embd_norm.weight" if architecture == "lfm2" else "output_norm.weight"
    writer.add_tensor("token_embd.weight", values("token_embd.weight", (vocabulary, WIDTH), scale))
    writer.add_tensor("output.weight", output)
    writer.add_tensor(norm, _ONES)
    for name, shape, content in tensors:
        given = content if isinstance(content, np.ndarray) else values(name, shape, content)
        writer.add_tensor(name, given)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


Made = tuple[Mapping[str, Value], Iterator[Tensor]]


def _feed_forward(block: str) -> Iterator[Tensor]:
    yield f"{block}ffn_gate.weight", (INNER, WIDTH), _UNIT
    yield f"{block}ffn_up.weight", (INNER, WIDTH), _UNIT
    yield f"{block}ffn_down.weight", (WIDTH, INNER), _UNIT


def _attention(block: str, gated: bool = False) -> Iterator[Tensor]:
    """Queries and keys of deviation 1.6 as in tiny.py, by the weights of their norms."""
    sharp = np.full(LENGTH, 1.6, np.float32)
    yield f"{block}attn_q.weight", (HEADS * LENGTH * (2 if gated else 1), WIDTH), _UNIT
    yield f"{block}attn_k.weight", (HEADS * LENGTH, WIDTH), _UNIT
    yield f"{block}attn_v.weight", (HEADS * LENGTH, WIDTH), _UNIT
    yield f"{block}attn_output.weight", (WIDTH, HEADS * LENGTH), 2 * _UNIT
    yield f"{block}attn_q_norm.weight", (LENGTH,), sharp
    yield f"{block}attn_k_norm.weight", (LENGTH,), sharp


def _heads(cached: Value = HEADS) -> dict[str, Value]:
    return {
        "feed_forward_length": INNER,
        "attention.head_count": HEADS,
        "attention.head_count_kv": cached,
        "attention.key_length": LENGTH,
        "attention.value_length": LENGTH,
        "rope.dimension_count": LENGTH,
    }


def _gemma3(layers: int, window: int) -> Made:
    def tensors() -> Iterator[Tensor]:
        for layer in range(layers):
            block = f"blk.{layer}."
            for name in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"):
                yield f"{block}{name}.weight", (WIDTH,), _ONES
            yield from _attention(block)
            yield from _feed_forward(block)

    return {
        **_heads(),
        "attention.sliding_window": window,
        "attention.sliding_window_pattern": 2,
    }, tensors()


def _lfm2(layers: int, _: int) -> Made:
    def tensors() -> Iterator[Tensor]:
        for layer in range(layers):
            block = f"blk.{layer}."
            for name in ("attn_norm", "ffn_norm"):
                yield f"{block}{name}.weight", (WIDTH,), _ONES
            if layer % 2:
                yield from _attention(block)
            else:
                yield f"{block}shortconv.conv.weight", (WIDTH, _KERNEL), 1.0
                yield f"{block}shortconv.in_proj.weight", (3 * WIDTH, WIDTH), _UNIT
                yield f"{block}shortconv.out_proj.weight", (WIDTH, WIDTH), _UNIT
            yield from _feed_forward(block)

    cached = [HEADS * (layer % 2) for layer in range(layers)]
    return {**_heads(cached), "shortconv.l_cache": _KERNEL}, tensors()


def _qwen35(layers: int, _: int) -> Made:
    keys, values = 1, 2
    mixed = (2 * keys + values) * _STATE

    def tensors() -> Iterator[Tensor]:
        for layer in range(layers):
            block = f"blk.{layer}."
            for name in ("attn_norm", "post_attention_norm"):
                yield f"{block}{name}.weight", (WIDTH,), _ONES
            if layer % 2:
                yield from _attention(block, gated=True)
            else:
                yield f"{block}attn_qkv.weight", (mixed, WIDTH), _UNIT
                yield f"{block}attn_gate.weight", (values * _STATE, WIDTH), _UNIT
                yield f"{block}ssm_conv1d.weight", (mixed, _KERNEL), 1.0
                yield f"{block}ssm_dt.bias", (values,), np.zeros(values, np.float32)
                yield f"{block}ssm_a", (values,), np.full(values, -0.1, np.float32)
                yield f"{block}ssm_beta.weight", (values, WIDTH), _UNIT
                yield f"{block}ssm_alpha.weight", (values, WIDTH), _UNIT
                yield f"{block}ssm_norm.weight", (_STATE,), np.ones(_STATE, np.float32)
                yield f"{block}ssm_out.weight", (WIDTH, values * _STATE), 2 * _UNIT
            yield from _feed_forward(block)

    return {
        **_heads(),
        "full_attention_interval": 2,
        "rope.dimension_sections": [4, 2, 2, 0],
        "ssm.conv_kernel": _KERNEL,
        "ssm.inner_size": values * _STATE,
        "ssm.state_size": _STATE,
        "ssm.time_step_rank": values,
        "ssm.group_count": keys,
    }, tensors()


def _mamba(layers: int, _: int) -> Made:
    inner, rank = 2 * WIDTH, 4

    def tensors() -> Iterator[Tensor]:
        for layer in range(layers):
            block = f"blk.{layer}."
            yield f"{block}attn_norm.weight", (WIDTH,), _ONES
            yield f"{block}ssm_in.weight", (2 * inner, WIDTH), _UNIT
            yield f"{block}ssm_conv1d.weight", (inner, _KERNEL), 1.0
            yield f"{block}ssm_conv1d.bias", (inner,), np.zeros(inner, np.float32)
            yield f"{block}ssm_x.weight", (rank + 2 * _STATE, inner), _UNIT
            yield f"{block}ssm_dt.weight", (inner, rank), 0.5
            yield f"{block}ssm_dt.bias", (inner,), np.full(inner, -2.0, np.float32)
            rates = np.tile(np.linspace(-1.0, -0.1, _STATE), (inner, 1)).astype(np.float32)
            yield f"{block}ssm_a", (inner, _STATE), rates
            yield f"{block}ssm_d", (inner,), np.ones(inner, np.float32)
            yield f"{block}ssm_out.weight", (WIDTH, inner), 2 * _UNIT

    return {
        "feed_forward_length": 0,
        "attention.head_count": 0,
        "ssm.conv_kernel": _KERNEL,
        "ssm.inner_size": inner,
        "ssm.state_size": _STATE,
        "ssm.time_step_rank": rank,
    }, tensors()


_ARCHITECTURES: dict[str, Callable[[int, int], Made]] = {
    "gemma3": _gemma3,
    "lfm2": _lfm2,
    "qwen35": _qwen35,
    "mamba": _mamba,
}


@dataclass(frozen=True, slots=True)
class Kind:
    """A model, how its context is made, and how its memory goes back then."""

    name: str
    architecture: str
    label: str
    window: int = 64
    snapshots: int = 4
    whole_window: bool = True
    flash_attention: FlashAttention = "off"

    @property
    def settings(self) -> ContextSettings:
        """Exact, so that the same tokens give the same bits; no window that is cut short can be that."""
        return ContextSettings(
            threads=1,
            chunk=64,
            exact=self.whole_window,
            snapshots=self.snapshots,
            whole_window=self.whole_window,
            flash_attention=self.flash_attention,
        )


KINDS = (
    Kind("lfm2", "lfm2", "snapshots", flash_attention="on"),
    Kind("lfm2 copied", "lfm2", "copied state", snapshots=0),
    Kind("qwen35", "qwen35", "snapshots"),
    Kind("qwen35 copied", "qwen35", "copied state", snapshots=0, flash_attention="on"),
    Kind("mamba", "mamba", "copied state"),
    Kind("gemma3 64", "gemma3", "sliding window", flash_attention="on"),
    Kind("gemma3 250", "gemma3", "sliding window", window=250),
    Kind("gemma3 64 cut short", "gemma3", "sliding window", whole_window=False),
    Kind("gemma3 250 cut short", "gemma3", "sliding window", window=250, whole_window=False),
)
