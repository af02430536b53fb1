"""Text out of a stream of tokens: characters may be split between tokens."""

from __future__ import annotations

import codecs


class TextStream:
    """Decodes the bytes of tokens as they come.

    An unfinished character waits for its rest; one that never gets it is never shown. Bytes that
    cannot become a character turn into U+FFFD.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, piece: bytes) -> str:
        """The text that these bytes complete."""
        return self._decoder.decode(piece)

    @property
    def unfinished(self) -> bool:
        """Whether a character's first bytes wait for the rest."""
        return bool(self._decoder.getstate()[0])
