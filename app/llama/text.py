"""Text from a stream of tokens, which may split characters."""

from __future__ import annotations

import codecs


class TextStream:
    """Decodes the bytes of tokens as they arrive.

    An unfinished character waits for the rest of its bytes, and is never shown without them. Invalid bytes
    become U+FFFD.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, piece: bytes) -> str:
        """The text that these bytes complete."""
        return self._decoder.decode(piece)

    @property
    def unfinished(self) -> bool:
        """Whether the first bytes of a character are waiting for the rest."""
        return bool(self._decoder.getstate()[0])
