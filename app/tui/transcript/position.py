"""Where a reader is, kept in a form that is found again after the same text is rendered in another way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.tui.transcript.wrapping import Line


@dataclass(frozen=True, slots=True)
class Position:
    """The line at the top of the view: its text, its offset in it, and which of the lines that begin there.

    index: the line's own, for when its text is gone.
    """

    block: str
    offset: int
    nth: int
    index: int


def position_of(lines: Sequence[Line], index: int) -> Position:
    """The position of a line."""
    block, offset = lines[index].block, lines[index].offset
    nth = 0
    while nth < index and _begins_at(lines[index - nth - 1], block, offset):
        nth += 1
    return Position(block, offset, nth, index)


def row_of(lines: Sequence[Line], position: Position) -> int:
    """The index of the line at that position now, or of the nearest one."""
    exact = [row for row, line in enumerate(lines) if _begins_at(line, position.block, position.offset)]
    if exact:
        return exact[min(position.nth, len(exact) - 1)]
    same_block = [row for row, line in enumerate(lines) if line.block == position.block]
    if not same_block:
        return min(position.index, len(lines) - 1)
    return max((row for row in same_block if lines[row].offset <= position.offset), default=same_block[0])


def _begins_at(line: Line, block: str, offset: int) -> bool:
    return line.block == block and line.offset == offset
