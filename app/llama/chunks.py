"""How many tokens of a prompt are read at once."""

from __future__ import annotations

# A pass on a GPU cannot be stopped. So a slow one reads few tokens at once: so many at first and at least,
# twice as many after a pass that took less than the shorter of these seconds, half as many after one that
# took more than the longer.
_FIRST, _LEAST = 64, 32
_SHORT, _LONG = 0.25, 1.0


class ChunkSize:
    """tokens: of the next chunk, at most `most`."""

    def __init__(self, most: int, adapts: bool) -> None:
        """adapts: whether it follows what passes take."""
        self._most = most
        self._adapts = adapts
        self.tokens = min(_FIRST, most) if adapts else most

    def observe(self, tokens: int, seconds: float) -> None:
        """A pass over so many tokens took so long."""
        if not self._adapts or tokens != self.tokens:
            return
        if seconds < _SHORT:
            self.tokens = min(2 * tokens, self._most)
        elif seconds > _LONG:
            self.tokens = max(min(_LEAST, self._most), tokens // 2)
