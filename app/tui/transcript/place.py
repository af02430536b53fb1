"""Where a reader is, said so that it is found again after the same text was laid out otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.tui.transcript.flow import Line


@dataclass(frozen=True, slots=True)
class Place:
    """The line at the top of the view: text, offset in it, which of the lines that begin there.

    index: the line's own, for where its text is gone.
    """

    block: str
    offset: int
    nth: int
    index: int


def place_of(lines: Sequence[Line], index: int) -> Place:
    """The place of a line."""
    line = lines[index]
    nth = 0
    while nth < index and _same(lines[index - nth - 1], line.block, line.place):
        nth += 1
    return Place(line.block, line.place, nth, index)


def find(lines: Sequence[Line], place: Place) -> int:
    """Index of the line that shows the place now, or of the one nearest to it."""
    exact = [index for index, line in enumerate(lines) if _same(line, place.block, place.offset)]
    if exact:
        return exact[min(place.nth, len(exact) - 1)]
    block = [index for index, line in enumerate(lines) if line.block == place.block]
    if not block:
        return min(place.index, len(lines) - 1)
    return max((index for index in block if lines[index].place <= place.offset), default=block[0])


def _same(line: Line, block: str, place: int) -> bool:
    return line.block == block and line.place == place
