"""Writes a model of a megabyte, or of another shape, with random weights in formats that llama.cpp repacks
for CPUs."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

_VOCABULARY = 256
_ALIGNMENT = 32
# Types of values and tensors in GGUF (the specification, version 3).
_UINT32, _FLOAT32, _STRING = 4, 6, 8
_F32, _Q4_0, _Q8_0 = 0, 2, 8
# Bytes after the scale in a block of 32 weights, and a scale that gives weights of a usual size.
_BLOCK = {_Q4_0: (16, 0.02), _Q8_0: (32, 0.001)}


@dataclass(frozen=True, slots=True)
class ProbeShape:
    """width: of the hidden state; inner: of the feed-forward part. heads: of queries; cached_heads: of keys
    and values; head_length: numbers in each. Every width is a multiple of 32."""

    layers: int = 2
    width: int = 256
    inner: int = 512
    heads: int = 4
    cached_heads: int = 4
    head_length: int = 64


_DEFAULT = ProbeShape()


def write_probe_model(path: Path, shape: ProbeShape = _DEFAULT) -> Path:
    """Write the model and return its path. The architecture is "llama", without a vocabulary."""
    metadata: dict[str, str | int | float] = {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "no_vocab",
        "llama.vocab_size": _VOCABULARY,
        "llama.context_length": 512,
        "llama.embedding_length": shape.width,
        "llama.block_count": shape.layers,
        "llama.feed_forward_length": shape.inner,
        "llama.attention.head_count": shape.heads,
        "llama.attention.head_count_kv": shape.cached_heads,
        "llama.attention.key_length": shape.head_length,
        "llama.attention.value_length": shape.head_length,
        "llama.rope.dimension_count": shape.head_length,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
    }
    head = [*map(_entry, metadata, metadata.values())]
    data: list[bytes] = []
    offset = 0
    tensors = list(_tensors(shape))
    for name, columns, rows, kind in tensors:
        values = _values(columns, rows, kind, seed=len(data))
        extents = struct.pack("<IQQ", 2, columns, rows) if rows > 1 else struct.pack("<IQ", 1, columns)
        head.append(_text(name) + extents + struct.pack("<IQ", kind, offset))
        data.append(values + bytes(-len(values) % _ALIGNMENT))
        offset += len(data[-1])
    start = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)) + b"".join(head)
    path.write_bytes(start + bytes(-len(start) % _ALIGNMENT) + b"".join(data))
    return path


def _tensors(shape: ProbeShape) -> Iterator[tuple[str, int, int, int]]:
    """Name, columns, rows and type of each tensor."""
    width, queries = shape.width, shape.heads * shape.head_length
    yield "token_embd.weight", width, _VOCABULARY, _Q8_0
    yield "output.weight", width, _VOCABULARY, _Q8_0
    yield "output_norm.weight", width, 1, _F32
    for layer in range(shape.layers):
        for name in ("attn_norm", "ffn_norm"):
            yield f"blk.{layer}.{name}.weight", width, 1, _F32
        yield f"blk.{layer}.attn_q.weight", width, queries, _Q4_0
        for name in ("attn_k", "attn_v"):
            yield f"blk.{layer}.{name}.weight", width, shape.cached_heads * shape.head_length, _Q4_0
        yield f"blk.{layer}.attn_output.weight", queries, width, _Q4_0
        for name in ("ffn_gate", "ffn_up"):
            yield f"blk.{layer}.{name}.weight", width, shape.inner, _Q8_0
        yield f"blk.{layer}.ffn_down.weight", shape.inner, width, _Q4_0


def _values(columns: int, rows: int, kind: int, seed: int) -> bytes:
    if kind == _F32:
        return np.ones(columns, np.float32).tobytes()
    size, scale = _BLOCK[kind]
    blocks = np.empty((rows * columns // 32, 2 + size), np.uint8)
    blocks[:, :2] = np.array([scale], np.float16).view(np.uint8)
    blocks[:, 2:] = np.random.default_rng(seed).integers(0, 256, (len(blocks), size))
    return blocks.tobytes()


def _entry(key: str, value: str | int | float) -> bytes:
    if isinstance(value, str):
        return _text(key) + struct.pack("<I", _STRING) + _text(value)
    if isinstance(value, int):
        return _text(key) + struct.pack("<II", _UINT32, value)
    return _text(key) + struct.pack("<If", _FLOAT32, value)


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()
