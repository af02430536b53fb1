"""How many tokens of a prompt are read in one pass."""

from __future__ import annotations

# A pass on a GPU cannot be stopped, so a slow GPU reads few tokens in each. A chunk starts with _FIRST
# tokens, doubles after a pass of less than _SHORT seconds, and halves, down to _LEAST, after one of more than
# _LONG.
_FIRST, _LEAST = 64, 32
_SHORT, _LONG = 0.25, 1.0


class ChunkSize:
    """tokens: the size of the next chunk."""

    def __init__(self, most: int, adapts: bool) -> None:
        """most: the largest size. adapts: whether the size follows the time that passes take."""
        self._most = most
        self._adapts = adapts
        self.tokens = min(_FIRST, most) if adapts else most

    def observe(self, tokens: int, seconds: float) -> None:
        """A pass over this many tokens took this long."""
        if not self._adapts or tokens != self.tokens:
            return
        if seconds < _SHORT:
            self.tokens = min(2 * tokens, self._most)
        elif seconds > _LONG:
            self.tokens = max(min(_LEAST, self._most), tokens // 2)
