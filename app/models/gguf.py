"""Reads the header of a GGUF file, which may be anything that was downloaded.

A file is not trusted: each count is compared with the bytes that are left before anything is read, text
and counts are bounded, and whatever does not add up ends in one `SpecchatError`. Lists (a vocabulary has
hundreds of thousands of strings) are skipped, and read only when asked for.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3; the rules on offsets
and alignment are those that llama.cpp's own reader enforces.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

from app.errors import SpecchatError
from app.models.gguf_source import Array, Scalar, Source, Value, opened
from app.models.gguf_types import FILE_TYPES, SCALARS, STRING, TENSOR_TYPES

# Bounds far above every real model that keep a hostile header from costing time or memory.
_MAX_KEYS = 4096
_MAX_TENSORS = 1 << 13
_MAX_ELEMENTS = 1 << 20  # of a list that is read
_MAX_ARCHITECTURE = 64
_LAYER = re.compile(r"blk\.(\d{1,9})\.")


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor's place in the file.

    shape: innermost dimension first, as GGUF has it. kind: ggml's type number, a key of TENSOR_TYPES.
    offset: bytes from the start of the tensor data. size: bytes, without padding.
    """

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int
    size: int

    @property
    def label(self) -> str:
        """The type's name, such as Q4_K."""
        return TENSOR_TYPES[self.kind][0]

    @property
    def layer(self) -> int | None:
        """The number of the layer that it belongs to; None where it belongs to none."""
        match = _LAYER.match(self.name)
        return int(match[1]) if match else None


@dataclass(frozen=True, slots=True)
class Header:
    """What a GGUF file says of itself.

    size: bytes of the file. spans: for each key, where its whole entry lies in the file: start, end.
    data_offset: where tensor data starts. alignment: bytes, a power of two.
    """

    path: Path
    size: int
    version: int
    metadata: Mapping[str, Value]
    spans: Mapping[str, tuple[int, int]]
    tensors: tuple[Tensor, ...]
    data_offset: int
    alignment: int

    @property
    def architecture(self) -> str | None:
        """llama.cpp's name of the model's family, such as "qwen3"."""
        return self.text("general.architecture")

    @property
    def quantisation(self) -> str | None:
        """The file type's label, or that of the tensors that take most bytes; None without tensors."""
        kind = self.metadata.get("general.file_type")
        if isinstance(kind, int) and kind in FILE_TYPES:
            return FILE_TYPES[kind]
        sizes: dict[str, int] = {}
        for tensor in self.tensors:
            sizes[tensor.label] = sizes.get(tensor.label, 0) + tensor.size
        return max(sizes, key=lambda label: sizes[label]) if sizes else None

    @property
    def block_count(self) -> int | None:
        """Number of layers."""
        return self.count("block_count")

    @property
    def context_length(self) -> int | None:
        """Tokens that the model was trained for."""
        return self.count("context_length")

    @property
    def vocabulary_size(self) -> int | None:
        """Number of tokens."""
        tokens = self.metadata.get("tokenizer.ggml.tokens")
        return tokens.length if isinstance(tokens, Array) else self.count("vocab_size")

    @property
    def parameters(self) -> int:
        """Elements of all tensors."""
        return sum(prod(tensor.shape) for tensor in self.tensors)

    def text(self, key: str) -> str | None:
        """The string at `key`; None where there is none."""
        value = self.metadata.get(key)
        return value if isinstance(value, str) else None

    def value(self, key: str) -> Value | None:
        """Whatever is at `key` of this architecture; None where there is nothing."""
        return self.metadata.get(f"{self.architecture}.{key}")

    def count(self, key: str) -> int | None:
        """The positive whole number at `key` of this architecture; None where there is none."""
        value = self.value(key)
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

    def array(self, key: str) -> tuple[Scalar, ...]:
        """Read the list at `key` from the file.

        Raises SpecchatError where there is no such list, or the file has changed since.
        """
        value = self.metadata.get(key)
        if not isinstance(value, Array) or value.length > _MAX_ELEMENTS:
            raise SpecchatError(
                f"{self.path.name} has no list {key}, or one too long to read; choose another file."
            )
        if value.kind == STRING:
            return tuple(text.decode(errors="replace") for text in self.strings(key))
        with opened(self.path) as (file, size):
            source = Source(file, size, self.path.name)
            source.seek(value.start)
            data = source.take(value.size)
        return tuple(item[0] for item in struct.iter_unpack(SCALARS[value.kind], data))

    def strings(self, key: str) -> Iterator[bytes]:
        """Read the list of strings at `key` one by one, as they are in the file.

        Raises SpecchatError where there is no such list, or the file has changed since.
        """
        value = self.metadata.get(key)
        if not isinstance(value, Array) or value.kind != STRING:
            raise SpecchatError(f"{self.path.name} has no list {key} of texts; choose another file.")
        with opened(self.path) as (file, size):
            yield from Source(file, size, self.path.name).strings(value)


def read_header(path: Path) -> Header:
    """Read and check a GGUF file's header.

    Raises SpecchatError, with a sentence that names the file, when it cannot be read, is no GGUF file, is
    damaged or is cut short.
    """
    with opened(path) as (file, size):
        return _read(Source(file, size, path.name), path)


def _read(source: Source, path: Path) -> Header:
    if source.size == 0:
        raise SpecchatError(f"{path.name} is empty; download it again.")
    if source.size < 4 or source.take(4) != b"GGUF":
        raise SpecchatError(f"{path.name} is not a GGUF file; choose a file that ends in .gguf.")
    version = source.number("<I")
    if version and version & 0xFFFF == 0:
        raise SpecchatError(f"{path.name} is written for big-endian machines; choose a little-endian file.")
    if version not in (2, 3):
        raise SpecchatError(
            f"{path.name} is GGUF version {version}, and versions 2 and 3 can be read; "
            "choose a file of one of those."
        )
    tensor_count, key_count = source.number("<Q"), source.number("<Q")
    # The smallest entries: an empty name with its type and one byte; an empty name, no dimension.
    if key_count > min(_MAX_KEYS, source.size // 13) or tensor_count > min(_MAX_TENSORS, source.size // 24):
        raise source.damaged("its header claims more entries than it can hold")

    metadata: dict[str, Value] = {}
    spans: dict[str, tuple[int, int]] = {}
    for _ in range(key_count):
        start = source.position
        key = source.string()
        if not key or key in metadata:
            raise source.damaged("a key of its header is empty or comes twice")
        metadata[key] = source.value()
        spans[key] = start, source.position
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
        raise source.damaged("its alignment is not a power of two")
    # Every other key begins with it.
    if len(str(metadata.get("general.architecture", ""))) > _MAX_ARCHITECTURE:
        raise source.damaged("the name of its architecture is too long")
    tensors = [_tensor(source) for _ in range(tensor_count)]
    if len({tensor.name for tensor in tensors}) < tensor_count:
        raise source.damaged("two of its tensors have one name")
    data_offset = -(-source.position // alignment) * alignment if tensors else source.position
    end = 0
    for tensor in tensors:
        if tensor.offset != end:
            raise source.damaged(f"its tensor {tensor.name[:64]!r} is not where it should be")
        end += -(-tensor.size // alignment) * alignment
    whole = data_offset + tensors[-1].offset + tensors[-1].size if tensors else 0
    if whole > source.size:
        raise SpecchatError(
            f"{path.name} is cut short: it has {source.size:,} of {whole:,} bytes; download it again."
        )
    return Header(path, source.size, version, metadata, spans, tuple(tensors), data_offset, alignment)


def _tensor(source: Source) -> Tensor:
    name = source.string()
    dimensions = source.number("<I")
    if dimensions > 4:
        raise source.damaged(f"its tensor {name[:64]!r} has {dimensions} dimensions")
    shape = tuple(source.number("<q") for _ in range(dimensions))
    kind, offset = source.number("<I"), source.number("<Q")
    if kind not in TENSOR_TYPES:
        raise SpecchatError(
            f"{source.name} holds numbers of type {kind}, which is unknown here; "
            "choose another quantisation of the model."
        )
    _, block, block_size = TENSOR_TYPES[kind]
    if any(extent < 0 for extent in shape) or prod(shape) >= 1 << 63 or (shape[:1] or (1,))[0] % block:
        raise source.damaged(f"its tensor {name[:64]!r} has an impossible shape")
    return Tensor(name, shape, kind, offset, prod(shape) // block * block_size)
