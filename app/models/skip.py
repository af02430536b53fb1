"""Self-speculation: a draft model that is the target itself without some of its layers.

The copy shares vocabulary, embeddings and the layers that stay, so it needs no training and no download
(Draft & Verify, arXiv 2309.08168; SWIFT, arXiv 2410.06916). It is written once, into a cache folder.
Which layers are dropped decides everything; see `skipped_layers_default`.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import struct
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeAlias

from app.errors import SpecchatError, UsageError
from app.files import whole_file
from app.models.gguf import Header, Tensor
from app.models.gguf_source import Array, opened
from app.models.gguf_types import ARRAY, BOOL, STRING, UINT32
from app.models.shape import WINDOW_PATTERN, WINDOW_PERIODS
from app.models.usable import SKIPPED_LAYERS

# Architectures whose layers are all alike in llama.cpp (src/models/): a layer's number changes nothing.
_ALIKE = frozenset(
    [
        *("llama", "mistral3", "arcee", "seed_oss", "stablelm", "starcoder2", "internlm2"),
        *("qwen2", "qwen2moe", "qwen3", "qwen3moe", "phi2", "phi3", "gemma", "chatglm", "glm4"),
        *("granite", "granitemoe", "olmo", "olmoe"),
        # Recurrent, or by their lists of heads: a layer without any is recurrent.
        *("mamba", "mamba2", "lfm2"),
    ]
)
# Of so many layers one attends, the others are recurrent. This pattern, like that of windows, follows the
# layers' numbers, but may be given layer by layer, which keeps each layer's kind when its number changes.
_RECURRENT_PERIODS = {"qwen35": 4}
# llama.cpp takes the attention scale of these from the number of layers.
_SCALED_BY_DEPTH = {("gemma2", 46), ("gemma3", 62)}
# Metadata that may be a list with a value for each layer (llama.cpp's get_key_or_arr and get_arr).
_RECURRENT_LAYERS, _INTERVAL = "attention.recurrent_layers", "full_attention_interval"
_BY_LAYER = (
    "feed_forward_length",
    "expert_feed_forward_length",
    "expert_used_count",
    "attention.head_count",
    "attention.head_count_kv",
    "deepstack_mapping",
    WINDOW_PATTERN,
    _RECURRENT_LAYERS,
)

_CHUNK = 4 << 20
_DIGEST_BLOCKS, _DIGEST_BLOCK = 64, 64 << 10
_CHOICE_BYTES = 1 << 16
_STALE_SECONDS = 24 * 3600.0

Piece: TypeAlias = bytes | tuple[int, int]
"""A part of the file to be written: bytes, or a range (start, end) of the target's file."""


def skipped_layers_default(block_count: int) -> tuple[int, ...]:
    """Layers (from 0, ascending) to skip where nothing better was chosen; none of fewer than 8 layers.

    A tenth of the layers, spread from 2/5 to 13/20 of the depth. The first and last layers carry most: of the
    bundled model's 30, leaving out layer 1 alone keeps 15 % of the greedy choices, layer 28 47 %, one of the
    middle mostly 70 to 80 % (240 tokens of two replies). Its default, 12, 14 and 17, keeps 67 %, the best of
    eight sets of three 71 %. Models differ, so a search for the set pays.
    """
    count = max(1, block_count // 10) if block_count >= 8 else 0
    return tuple(2 * block_count // 5 + n * block_count // (4 * count) for n in range(count))


def skip_problem(header: Header) -> str | None:
    """A sentence that says why layers of this file cannot be skipped; None where they can."""
    architecture, blocks = header.architecture, header.block_count
    other = "choose another proposer, such as lookup."
    if architecture not in _ALIKE.union(WINDOW_PERIODS, _RECURRENT_PERIODS):
        return (
            f"Skipping layers is not supported for the architecture {architecture or 'of this file'}; {other}"
        )
    name = header.path.name
    if isinstance(count := header.metadata.get("split.count"), int) and count > 1:
        return f"{name} is split into parts, and layers are skipped in whole files only; {other}"
    if header.count("nextn_predict_layers") is not None:
        return f"Layers of {name} cannot be skipped, because its last ones are an MTP head; {other}"
    if (architecture, blocks) in _SCALED_BY_DEPTH:
        return f"{name} changes its attention with its number of layers; {other}"
    numbers = [tensor.layer for tensor in header.tensors if tensor.layer is not None]
    if blocks is None or not numbers:
        return f"{name} has no layers; choose a whole model."
    if max(numbers) >= blocks:
        return f"{name} is damaged: it has more layers than it says; download it again."
    for key in _BY_LAYER:
        value = header.metadata.get(f"{architecture}.{key}")
        if isinstance(value, Array) and (value.length != blocks or value.kind == STRING):
            return f"{name} is damaged: its list {key} does not fit its layers; download it again."
    return None


def skip_size(header: Header, layers: Collection[int]) -> int:
    """Bytes of the file that `write_skip` would write; raises as it does."""
    return _size(_plan(header, layers))


def skip_path(header: Header, layers: Collection[int], directory: Path) -> Path:
    """Where `write_skip` puts the file of these layers."""
    mask = sum(1 << layer for layer in layers)
    return directory / f"skip-{content_digest(header)}-{mask:x}.gguf"


def skip_written(header: Header, layers: Collection[int], directory: Path) -> bool:
    """Whether the file is there already, whole."""
    return _is_whole(skip_size(header, layers), skip_path(header, layers, directory))


def _is_whole(size: int, path: Path) -> bool:
    return path.is_file() and path.stat().st_size == size


def write_skip(header: Header, layers: Collection[int], directory: Path) -> Path:
    """Write the model without `layers` (numbers from 0) into `directory`, and return the file.

    The name comes from the content and the layers, so a file that is there already is returned as it is.
    It appears whole or not at all. Raises UsageError for layers that the model does not have, and
    SpecchatError where they cannot be skipped, the folder cannot be written, or room is short.
    """
    pieces = _plan(header, layers)
    size, written = _size(pieces), skip_path(header, layers, directory)
    if not _is_whole(size, written):
        with _writing(written, size) as file:
            for data in _contents(header.path, pieces):
                file.write(data)
    return written


def content_digest(header: Header) -> str:
    """16 hexadecimal digits that identify a model file by its content, not by name or time.

    Hashing 40 GB at each start would take a minute, so it covers the size, the whole header and 64
    blocks of 64 KiB spread evenly over the file. A fine-tune changes practically every weight, so it
    changes the blocks; should two files ever agree in all of them, the draft made from one is merely a
    worse guess for the other, and verification keeps the output right.
    """
    digest = hashlib.blake2b(header.size.to_bytes(8, "little"), digest_size=8)
    room = max(header.size - _DIGEST_BLOCK, 0)
    starts = [room * n // (_DIGEST_BLOCKS - 1) for n in range(_DIGEST_BLOCKS)]
    ranges = [(0, header.data_offset)]
    ranges += [(start, min(start + _DIGEST_BLOCK, header.size)) for start in starts]
    for data in _contents(header.path, ranges):
        digest.update(data)
    return digest.hexdigest()


def load_choice(directory: Path, digest: str) -> tuple[int, ...] | None:
    """The layers chosen for the model of this `content_digest`; None without a choice that can be read."""
    try:
        chosen = json.loads((directory / _choice_name(digest)).read_bytes()[:_CHOICE_BYTES])
    except (OSError, ValueError, RecursionError):
        return None
    layers = chosen.get("layers") if isinstance(chosen, dict) else None
    if not isinstance(layers, list) or not all(type(layer) is int and layer >= 0 for layer in layers):
        return None
    return tuple(sorted(layers)) if len(set(layers)) == len(layers) else None


def save_choice(directory: Path, digest: str, layers: Collection[int]) -> None:
    """Keep the layers chosen for the model of this `content_digest`. Raises SpecchatError where it cannot."""
    data = json.dumps({"layers": sorted(layers)}).encode()
    with _writing(directory / _choice_name(digest), len(data)) as file:
        file.write(data)


def _choice_name(digest: str) -> str:
    return f"skip-{digest}.json"


def _plan(header: Header, layers: Collection[int]) -> list[Piece]:
    """The file to be written, piece by piece."""
    blocks = header.block_count or 0
    problem = skip_problem(header)
    if problem is not None:
        raise SpecchatError(problem)
    if len(set(layers)) < len(layers) or not all(0 <= layer < blocks for layer in layers):
        raise UsageError(f"Layers to skip are different numbers from 0 to {blocks - 1}.")
    kept = [layer for layer in range(blocks) if layer not in layers]
    if not kept:
        raise UsageError("A draft needs a layer; name fewer layers to skip.")

    entries = _entries(header, kept, sorted(layers))
    tensors = list(_kept_tensors(header, kept))
    infos: list[Piece] = []
    data: list[Piece] = []
    offset = 0
    for name, tensor in tensors:
        shape = struct.pack(f"<I{len(tensor.shape)}q", len(tensor.shape), *tensor.shape)
        infos.append(_text(name) + shape + struct.pack("<IQ", tensor.kind, offset))
        start = header.data_offset + tensor.offset
        padding = -tensor.size % header.alignment
        data += [(start, start + tensor.size), bytes(padding)]
        offset += tensor.size + padding
    start_of_file = b"GGUF" + struct.pack("<IQQ", header.version, len(tensors), len(entries))
    head: list[Piece] = [start_of_file, *(piece for entry in entries.values() for piece in entry), *infos]
    return [*head, bytes(-_size(head) % header.alignment), *data]


def _entries(header: Header, kept: list[int], skipped: list[int]) -> dict[str, list[Piece]]:
    """Metadata by key: the target's own bytes, but for what depends on the number of layers."""
    prefix = f"{header.architecture}."
    entries: dict[str, list[Piece]] = {key: [span] for key, span in header.spans.items()}
    entries[prefix + "block_count"] = [_entry(prefix + "block_count", UINT32, struct.pack("<I", len(kept)))]
    for key in _BY_LAYER:
        value = header.metadata.get(prefix + key)
        if isinstance(value, Array):
            step = value.size // value.length
            head = _entry(prefix + key, ARRAY, struct.pack("<IQ", value.kind, len(kept)))
            starts = [value.start + layer * step for layer in kept]
            entries[prefix + key] = [head, *((start, start + step) for start in starts)]
    for usual, key, listed in (
        (WINDOW_PERIODS, WINDOW_PATTERN, WINDOW_PATTERN),
        (_RECURRENT_PERIODS, _INTERVAL, _RECURRENT_LAYERS),
    ):
        period = usual.get(header.architecture or "")
        if period is not None and not isinstance(header.metadata.get(prefix + listed), Array):
            period = header.count(key) or period
            flags = bytes(layer % period < period - 1 for layer in kept)
            values = struct.pack("<IQ", BOOL, len(kept)) + flags
            entries[prefix + listed] = [_entry(prefix + listed, ARRAY, values)]
    entries[SKIPPED_LAYERS] = [_entry(SKIPPED_LAYERS, STRING, _text(" ".join(map(str, skipped))))]
    return entries


def _kept_tensors(header: Header, kept: list[int]) -> Iterator[tuple[str, Tensor]]:
    """The tensors that stay, with their new names."""
    numbers = {layer: number for number, layer in enumerate(kept)}
    for tensor in header.tensors:
        if tensor.layer is None:
            yield tensor.name, tensor
        elif tensor.layer in numbers:
            yield f"blk.{numbers[tensor.layer]}.{tensor.name.split('.', 2)[2]}", tensor


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _entry(key: str, kind: int, value: bytes) -> bytes:
    return _text(key) + struct.pack("<I", kind) + value


def _size(pieces: list[Piece]) -> int:
    return sum(len(piece) if isinstance(piece, bytes) else piece[1] - piece[0] for piece in pieces)


def _contents(path: Path, pieces: Iterable[Piece]) -> Iterator[bytes]:
    """The bytes of pieces, in chunks. Raises SpecchatError when `path` cannot be read or has shrunk."""
    with opened(path) as (file, _):
        for piece in pieces:
            if isinstance(piece, bytes):
                yield piece
                continue
            at, end = piece
            file.seek(at)
            while at < end:
                data = file.read(min(_CHUNK, end - at))
                if not data:
                    raise SpecchatError(f"{path.name} has changed on the disk; open it again.")
                at += len(data)
                yield data


@contextmanager
def _writing(path: Path, size: int) -> Iterator[BinaryIO]:
    """A file of `size` bytes that appears as `path` when it is whole. Raises SpecchatError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(path.parent)
        if shutil.disk_usage(path.parent).free < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with whole_file(path) as file:
            yield file
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise SpecchatError(
                f"{path.parent} has no room for {size / 1e6:,.0f} MB more; free some space and try again."
            ) from error
        raise SpecchatError(f"{path} cannot be written ({error.strerror}); check the folder.") from error


def _remove_stale(directory: Path) -> None:
    """Remove what a process that was killed left, a day later: another may be writing now."""
    for part in directory.glob(".skip-*.part"):
        with suppress(OSError):
            if part.stat().st_mtime < time.time() - _STALE_SECONDS:
                part.unlink()
