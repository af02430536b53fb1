"""Reads values from a GGUF file that is not trusted: never past its end, never more than a model has.

Everything that does not add up raises `SpecchatError` with a sentence that names the file.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias

from app.errors import SpecchatError
from app.models.gguf_types import ARRAY, BYTE, SCALARS, STRING

Scalar: TypeAlias = int | float | bool | str
Value: TypeAlias = "Scalar | Array"

# Bounds far above every real model that keep a hostile header from costing time or memory.
_MAX_STRINGS = 900_000  # in all lists together; the largest vocabulary with its merges has 0.8 million
_MAX_TEXT = 4 << 20  # bytes of all texts that are kept
_MAX_KEPT = 1 << 20  # bytes of a text that is kept; a copy of tokenizer.json may be longer
_MAX_LIST = 64 << 20  # bytes of a list of strings
_WINDOW = 1 << 20
_STRING_BYTES = 32  # of a short string with its length
_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Array:
    """A list of the metadata that was not read: `length` values of one type at file offset `start`.

    kind: GGUF's number of the element type. size: bytes of all elements.
    """

    kind: int
    length: int
    start: int
    size: int


@contextmanager
def opened(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    """A regular file (a pipe would block) and its size. What the system says becomes a sentence."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise SpecchatError(f"{path} is not a file; give the path of a .gguf file.")
        with open(path, "rb") as file:
            yield file, os.fstat(file.fileno()).st_size
    except OSError as error:
        raise SpecchatError(f"{path} cannot be read ({error.strerror}); check the path.") from error


class Source:
    """Reads forward through a file, never past its end, and keeps the budgets."""

    def __init__(self, file: BinaryIO, size: int, name: str) -> None:
        self._file = file
        self.name = name
        self._text = _MAX_TEXT
        self._strings = _MAX_STRINGS
        self.size = size
        self.position = 0

    def damaged(self, what: str) -> SpecchatError:
        return SpecchatError(f"{self.name} is damaged: {what}; download it again.")

    def seek(self, position: int) -> None:
        if position > self.size:
            raise self.damaged("its header is cut short")
        self._file.seek(position)
        self.position = position

    def take(self, length: int) -> bytes:
        if length > self.size - self.position:
            raise self.damaged("its header is cut short")
        data = self._file.read(length)
        if len(data) < length:
            raise self.damaged("its header is cut short")
        self.position += length
        return data

    def number(self, layout: str) -> int:
        value: int = struct.unpack(layout, self.take(struct.calcsize(layout)))[0]
        return value

    def string(self) -> str:
        return self._text_of(self.number("<Q"))

    def _text_of(self, length: int) -> str:
        self._text -= length
        if self._text < 0:
            raise self.damaged("its header holds more text than any model's")
        return self.take(length).decode(errors="replace")

    def value(self) -> Value:
        """A value with its type before it. Lists are passed over, and very long texts, as lists of bytes."""
        kind = self.number("<I")
        if kind in SCALARS:
            layout = SCALARS[kind]
            value: Scalar = struct.unpack(layout, self.take(struct.calcsize(layout)))[0]
            return value
        if kind == STRING:
            return self._text_value()
        if kind != ARRAY:
            raise self.damaged(f"its header holds a value of unknown type {kind}")
        kind, length = self.number("<I"), self.number("<Q")
        start = self.position
        if kind in SCALARS:
            self.seek(start + length * struct.calcsize(SCALARS[kind]))
        elif kind == STRING:
            self._pass_strings(length)
        else:
            raise self.damaged(f"its header holds a list of unknown type {kind}")
        return Array(kind, length, start, self.position - start)

    def _text_value(self) -> Value:
        length, start = self.number("<Q"), self.position
        if length <= _MAX_KEPT:
            return self._text_of(length)
        self.seek(start + length)
        return Array(BYTE, length, start, length)

    def strings(self, array: Array) -> Iterator[bytes]:
        """The elements of a list of strings. Raises SpecchatError where they are not what they were."""
        self.seek(array.start)
        left, count, data = array.size, array.length, b""
        while count:
            if not left:
                raise SpecchatError(f"{self.name} has changed on the disk; open it again.")
            data += self.take(min(_WINDOW, left))
            left = array.start + array.size - self.position
            at = 0
            while count and at + 8 <= len(data):
                end = at + 8 + _LENGTH.unpack_from(data, at)[0]
                if end > len(data):
                    break
                yield data[at + 8 : end]
                at, count = end, count - 1
            data = data[at:]

    def _pass_strings(self, count: int) -> None:
        """Step over strings, reading the file in windows: a call a string would take too long."""
        self._strings -= count
        start = self.position
        if self._strings < 0 or count * _LENGTH.size > self.size - self.position:
            raise self.damaged("its header claims more text than it can hold")
        unpack = _LENGTH.unpack_from
        while count:
            base = self.position
            # No more than these strings take: many short lists would read the same bytes again and again.
            window = self.take(min(_WINDOW, count * _STRING_BYTES, self.size - base))
            at = done = 0
            try:
                for done in range(count):  # noqa: B007 (counts what was passed)
                    at += 8 + unpack(window, at)[0]
                done = count
            except (struct.error, OverflowError):  # the next length lies past this window
                pass
            if done == 0 or base + at - start > _MAX_LIST:
                raise self.damaged("its header claims more text than it can hold")
            count -= done
            self.seek(base + at)
