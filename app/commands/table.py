"""Tables for a terminal or a pipe: where room is short, the least important columns are left out."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TextIO, TypeVar

from rich.cells import cell_len, set_cell_size

from app.text import one_line

_GAP = 2
_BOLD, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class TableColumn(Generic[Record]):
    """cell: a record's text; what a terminal would act on is taken out of it.

    importance: the lowest is left out first; None always stays. narrowest: the width that its texts may be
    cut to, 0 where they may not be cut.
    """

    title: str
    cell: Callable[[Record], str]
    importance: int | None = None
    right: bool = False
    narrowest: int = 0


def figure(title: str, cell: Callable[[Record], str]) -> TableColumn[Record]:
    """A column of numbers."""
    return TableColumn(title, cell, right=True)


@dataclass(slots=True)
class _Filled:
    """A column with its texts, the title first. width: terminal cells."""

    texts: list[str]
    width: int
    narrowest: int
    importance: int | None
    right: bool


def table(
    records: Sequence[Record], columns: Sequence[TableColumn[Record]], width: int | None = None
) -> list[str]:
    """The table's lines, the titles first. width: terminal cells that there are, None for any number.

    A column without a text is left out, unless it has to stay.
    """
    filled = [_fill(column, records) for column in columns]
    kept = [each for each in filled if any(each.texts[1:]) or each.importance is None]
    if width is not None:
        while _total([each.narrowest for each in kept]) > width:
            optional = [each for each in kept if each.importance is not None]
            if not optional:
                break
            kept.remove(min(optional, key=lambda each: each.importance or 0))
        # The last columns are cut first.
        for each in reversed(kept):
            excess = max(0, _total([column.width for column in kept]) - width)
            each.width = max(each.width - excess, each.narrowest)
    return [
        (" " * _GAP).join(_fitted(each.texts[row], each) for each in kept).rstrip()
        for row in range(len(records) + 1)
    ]


def _fill(column: TableColumn[Record], records: Sequence[Record]) -> _Filled:
    texts = [column.title, *(one_line(column.cell(record)) for record in records)]
    width = max(map(cell_len, texts))
    narrowest = min(column.narrowest or width, width)
    return _Filled(texts, width, narrowest, column.importance, column.right)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _fitted(text: str, column: _Filled) -> str:
    if cell_len(text) > column.width:
        return set_cell_size(text, column.width - 1) + "…"
    spaces = " " * (column.width - cell_len(text))
    return spaces + text if column.right else text + spaces


@dataclass(frozen=True, slots=True)
class Paint:
    """Bold and dim text; plain text where it is off."""

    on: bool

    def bold(self, text: str) -> str:
        return f"{_BOLD}{text}{_PLAIN}" if self.on else text

    def dim(self, text: str) -> str:
        return f"{_DIM}{text}{_PLAIN}" if self.on else text


def width_of(stream: TextIO) -> int | None:
    """Columns of the terminal that the stream is, None for a pipe or a file."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def paint_for(stream: TextIO) -> Paint:
    """Off where the stream is no terminal, or the terminal or its user wants no escape codes."""
    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return Paint(False)
    # The old console of Windows would show the codes.
    return Paint(sys.platform != "win32" or "WT_SESSION" in os.environ)
