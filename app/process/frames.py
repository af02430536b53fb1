"""Records over a pipe: a length, then a pickle. Both ends are specchat, and one started the other."""

from __future__ import annotations

import pickle
import struct
from typing import BinaryIO

_LENGTH = struct.Struct("<I")


def write_frame(pipe: BinaryIO, record: object) -> None:
    """Send a record. Raises OSError where the other end has gone."""
    data = pickle.dumps(record, pickle.HIGHEST_PROTOCOL)
    pipe.write(_LENGTH.pack(len(data)) + data)
    pipe.flush()


def read_frame(pipe: BinaryIO) -> object | None:
    """The next record, or None once the other end has closed or died, in mid-record too."""
    head = _read(pipe, _LENGTH.size)
    if head is None:
        return None
    data = _read(pipe, _LENGTH.unpack(head)[0])
    return None if data is None else pickle.loads(data)


def _read(pipe: BinaryIO, count: int) -> bytes | None:
    data = pipe.read(count)
    return data if len(data) == count else None
