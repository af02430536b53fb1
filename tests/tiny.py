"""Random-weight models of a few hundred kilobytes that llama.cpp loads, for tests that need a real cache.

The weights are scaled so that the next token is peaked (a few tokens hold most of the probability) and
hangs on every earlier token: attention is sharp and adds as much to the stream as the token itself. A
cache that holds one wrong token therefore shows in the output's distribution: changing one of 32 tokens
moves it by 0.2 to 0.4 in total variation, one of the last two of 400 by 0.15 to 0.2.

llama.cpp loads them as architecture "llama"; other names are for tests that read headers only.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import gguf
import numpy as np
from numpy.typing import NDArray

UNKNOWN, BOS, EOS = 0, 1, 2
BYTES = 3  # the token of byte b is BYTES + b
IM_START, IM_END = 259, 260
WORDS = 261  # first of the printable pieces

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

# Each piece longer than two characters is a shorter piece and one more character, or two pieces: the
# tokenizer reaches a piece by merging pairs only.
_PIECES = [
    *"▁etaoinsrhldcm",
    "th",
    "he",
    "an",
    "in",
    "er",
    "ou",
    "the",
    "▁t",
    "▁a",
    "▁th",
    "▁the",
    "▁an",
    "▁and",
]

Value = int | float | bool | str | Sequence[int] | Sequence[float] | Sequence[str]
Extra = Mapping[str, Value]

# What is said of each token, in order.
_BY_TOKEN = ("tokenizer.ggml.tokens", "tokenizer.ggml.scores", "tokenizer.ggml.token_type")


def write_tiny(
    path: Path,
    *,
    seed: int = 0,
    layers: int = 2,
    width: int = 32,
    heads: int = 2,
    vocabulary: int = 288,
    context: int = 512,
    architecture: str = "llama",
    template: str | None = CHATML,
    logit_scale: float = 3.0,
    noise: float = 0.0,
    end_scale: float = 1.0,
    byte_scale: float = 1.0,
    add_bos: bool = False,
    order: Sequence[int] | None = None,
    extra: Extra | None = None,
) -> Path:
    """Write a model to `path` and return it. The same arguments give the same bytes.

    A tensor hangs on its name and the seed only. So the same seed with fewer layers, or with `noise`
    (standard deviation of what is added, relative to the weights' own), is a draft that agrees with the
    other model in part: on random text Σ min(p, q) is 0.6 with noise 0.1, 0.4 with one layer of two,
    0.25 with noise 0.3, under 0.1 with noise 1 or another seed.

    vocabulary: at least 262: <unk>, <s>, </s>, 256 bytes, <|im_start|>, <|im_end|>, then pieces of text.
    logit_scale: standard deviation of the logits; 3 gives a likeliest token of a third or so.
    end_scale: factor on the logits of </s> and <|im_end|>; 0 makes replies go on (odds about 1 to 10⁴).
    byte_scale: the same of the bytes' tokens; 0 makes replies of whole pieces.
    order: the token of each id, if they are to be numbered otherwise: the same model in other ids.
    extra: metadata that is added, or put in place of what is written otherwise. Keys in full.
    """
    if vocabulary <= WORDS or width % heads or width // heads % 2:
        raise ValueError("vocabulary must exceed 261 and width be an even multiple of heads")
    writer = gguf.GGUFWriter(path, architecture)
    metadata: dict[str, Value] = {
        "general.type": "model",
        "general.name": f"tiny {seed}",
        "general.file_type": 0,
        f"{architecture}.context_length": context,
        f"{architecture}.embedding_length": width,
        f"{architecture}.block_count": layers,
        f"{architecture}.feed_forward_length": 2 * width,
        f"{architecture}.attention.head_count": heads,
        f"{architecture}.attention.head_count_kv": heads,
        f"{architecture}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{architecture}.rope.freq_base": 10000.0,
        f"{architecture}.rope.dimension_count": width // heads,
        **tokenizer(vocabulary, add_bos, template),
        **(extra or {}),
    }
    for key, value in (metadata if order is None else _renumbered(metadata, order)).items():
        add_metadata(writer, key, value)

    def tensor(name: str, rows: int, columns: int, deviation: float) -> NDArray[np.float32]:
        rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        values = rng.standard_normal((rows, columns))
        if noise:
            other = np.random.default_rng([seed, zlib.crc32(name.encode()), 1])
            values = (values + noise * other.standard_normal((rows, columns))) / np.hypot(1, noise)
        return (values * deviation).astype(np.float32)

    unit = width**-0.5  # keeps the deviation of a normalised stream
    ones = np.ones(width, np.float32)
    recent = np.zeros(width, np.float32)
    recent[: min(8, width // heads)] = 2.5
    output = tensor("output.weight", vocabulary, width, logit_scale * unit)
    output[[EOS, IM_END]] *= end_scale
    output[BYTES:IM_START] *= byte_scale
    ids = list(range(vocabulary) if order is None else order)
    writer.add_tensor("token_embd.weight", tensor("token_embd.weight", vocabulary, width, 1.0)[ids])
    for layer in range(layers):
        block = f"blk.{layer}."
        writer.add_tensor(block + "attn_norm.weight", ones)
        # Queries and keys of deviation 1.6 give scores of deviation 2.6: sharp, yet never on one token.
        for part, gain in (("attn_q", 1.6), ("attn_k", 1.6), ("attn_v", 1.0), ("attn_output", 2.0)):
            name = f"{block}{part}.weight"
            writer.add_tensor(name, tensor(name, width, width, gain * unit))
        # One bias in queries and keys of the first head, which rotation turns into a liking for the last
        # few tokens: without it a single token is lost among hundreds of others.
        writer.add_tensor(block + "attn_q.bias", recent)
        writer.add_tensor(block + "attn_k.bias", recent)
        writer.add_tensor(block + "ffn_norm.weight", ones)
        for part in ("ffn_gate", "ffn_up"):
            writer.add_tensor(
                f"{block}{part}.weight", tensor(f"{block}{part}.weight", 2 * width, width, unit)
            )
        name = block + "ffn_down.weight"
        writer.add_tensor(name, tensor(name, width, 2 * width, unit))
    writer.add_tensor("output_norm.weight", ones)
    writer.add_tensor("output.weight", output[ids])

    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def tokenizer(
    vocabulary: int, add_bos: bool, template: str | None
) -> dict[str, int | bool | str | Sequence[int] | Sequence[float] | Sequence[str]]:
    """Metadata of a sentencepiece tokenizer that every text can be written in, by its bytes."""
    kinds = gguf.TokenType
    words = (_PIECES + [f"▁w{n}" for n in range(vocabulary)])[: vocabulary - WORDS]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), "<|im_start|>", "<|im_end|>"]
    types = [kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL, *[kinds.BYTE] * 256, *[kinds.CONTROL] * 2]
    written: dict[str, int | bool | str | Sequence[int] | Sequence[float] | Sequence[str]] = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens + words,
        # Longer pieces score higher, so that merging goes on to the longest.
        "tokenizer.ggml.scores": [0.0] * WORDS + [float(len(word)) for word in words],
        "tokenizer.ggml.token_type": [int(kind) for kind in types] + [int(kinds.NORMAL)] * len(words),
        "tokenizer.ggml.bos_token_id": BOS,
        "tokenizer.ggml.eos_token_id": EOS,
        "tokenizer.ggml.eot_token_id": IM_END,
        "tokenizer.ggml.unknown_token_id": UNKNOWN,
        "tokenizer.ggml.add_bos_token": add_bos,
        "tokenizer.ggml.add_eos_token": False,
        "tokenizer.ggml.add_space_prefix": False,
    }
    if template is not None:
        written["tokenizer.chat_template"] = template
    return written


def _renumbered(metadata: Mapping[str, Value], order: Sequence[int]) -> dict[str, Value]:
    """Metadata with the tokens in another order."""
    renumbered = dict(metadata)
    for name, value in metadata.items():
        if name.endswith("_token_id") and isinstance(value, int):
            renumbered[name] = order.index(value)
        elif name in _BY_TOKEN and isinstance(value, Sequence):
            renumbered[name] = [cast("Sequence[str]", value)[token] for token in order]
    return renumbered


def add_metadata(
    writer: gguf.GGUFWriter,
    key: str,
    value: Value,
) -> None:
    """Whole numbers are written as uint32 where they fit, as llama.cpp's keys ask for."""
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value) if value >= 0 else writer.add_int32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)
