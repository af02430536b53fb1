"""A line on stderr that says how far something is, written over again and again."""

from __future__ import annotations

import sys


class StatusLine:
    """shown: by default where stderr is a terminal."""

    def __init__(self, shown: bool | None = None) -> None:
        self._shown = sys.stderr.isatty() if shown is None else shown
        self._width = 0

    def show(self, text: str) -> None:
        """Replace the line."""
        if self._shown:
            # Spaces, not escape codes, hide what is left of a longer text.
            print(f"\r{text.ljust(self._width)}", end="", file=sys.stderr, flush=True)
            self._width = len(text)

    def clear(self) -> None:
        """Take the line away."""
        if self._width:
            print(f"\r{' ' * self._width}\r", end="", file=sys.stderr, flush=True)
            self._width = 0

    def end(self) -> None:
        """Leave the line as it is, and go on below it."""
        if self._width:
            print(file=sys.stderr)
            self._width = 0
