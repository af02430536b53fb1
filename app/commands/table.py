"""A table for a terminal or a pipe: columns that are left out, least important first, where room is short."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from rich.cells import cell_len, set_cell_size

_GAP = "  "
_BOLD, _QUIET, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"


@dataclass(frozen=True, slots=True)
class Column:
    """cells: one a row, clean. importance: the lowest is left out first; None stays, whatever the width.

    narrowest: what its texts may be cut to, 0 where they may not.
    """

    title: str
    cells: tuple[str, ...]
    importance: int | None = None
    right: bool = False
    narrowest: int = 0

    @property
    def width(self) -> int:
        """Terminal cells of the widest text."""
        return max(map(cell_len, (self.title, *self.cells)))


def lines_of(columns: Sequence[Column], width: int | None) -> list[str]:
    """The table's lines, its titles first. width: cells that there are, None where nothing is cut.

    A column without a text is left out.
    """
    kept = [each for each in columns if any(each.cells) or each.importance is None]
    if width is not None:
        while _least(kept) > width and any(each.importance is not None for each in kept):
            kept.remove(min((each for each in kept if each.importance is not None), key=_importance))
    widths = _widths(kept, width)
    rows = [[each.title for each in kept], *zip(*(each.cells for each in kept), strict=True)]
    return [
        _GAP.join(
            _fitted(text, size, each.right) for text, size, each in zip(row, widths, kept, strict=True)
        ).rstrip()
        for row in rows
    ]


def _importance(column: Column) -> int:
    return column.importance or 0


def _least(columns: Sequence[Column]) -> int:
    widths = (min(each.width, each.narrowest) if each.narrowest else each.width for each in columns)
    return sum(widths) + len(_GAP) * (len(columns) - 1)


def _widths(columns: Sequence[Column], width: int | None) -> list[int]:
    """Each column's; what is too much is taken from those that may be cut, the last of them first."""
    widths = [each.width for each in columns]
    over = 0 if width is None else sum(widths) + len(_GAP) * (len(columns) - 1) - width
    for at in reversed(range(len(columns))):
        if over > 0 and columns[at].narrowest:
            taken = max(0, min(over, widths[at] - columns[at].narrowest))
            widths[at] -= taken
            over -= taken
    return widths


def _fitted(text: str, width: int, right: bool) -> str:
    if cell_len(text) > width:
        return set_cell_size(text, max(0, width - 1)) + "…"
    spaces = " " * (width - cell_len(text))
    return spaces + text if right else text + spaces


@dataclass(frozen=True, slots=True)
class Paint:
    """Marks for a terminal; none where it shows no colours, or is a pipe."""

    on: bool

    def bold(self, text: str) -> str:
        """What stands out."""
        return f"{_BOLD}{text}{_PLAIN}" if self.on else text

    def quiet(self, text: str) -> str:
        """What stands back."""
        return f"{_QUIET}{text}{_PLAIN}" if self.on else text


def paint_for(stream: TextIO) -> Paint:
    """Marks where the stream is a terminal that shows them and nobody asked for none."""
    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return Paint(False)
    # The old console of Windows would show the codes.
    return Paint(sys.platform != "win32" or "WT_SESSION" in os.environ)
