"""The lines that are laid out, found by their row, and the text that a selection of them copies."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Offset
from textual.selection import Selection
from textual.strip import Strip

from app.tui.transcript.wrapping import Line


class LineIndex:
    """Parts under one another, each a list of lines."""

    def __init__(self, parts: Sequence[Sequence[Line]] = ()) -> None:
        self.parts = parts
        self._starts = list(accumulate(map(len, parts), initial=0))

    @property
    def height(self) -> int:
        """How many rows there are."""
        return self._starts[-1]

    def start(self, part: int) -> int:
        """The first row of a part."""
        return self._starts[part]

    def at(self, row: int) -> tuple[int, int] | None:
        """The part of a row, and the index of its line in the part; None beyond the end."""
        if not 0 <= row < self.height:
            return None
        part = bisect_right(self._starts, row) - 1
        return part, row - self._starts[part]

    def line(self, row: int) -> Line | None:
        """The line of that row."""
        found = self.at(row)
        return None if found is None else self.parts[found[0]][found[1]]

    def lines(self, top: int, count: int) -> list[Line | None]:
        """The lines of `count` rows from `top` on; None beyond the end."""
        found: list[Line | None] = []
        part = bisect_right(self._starts, top) - 1
        while len(found) < count and part < len(self.parts):
            first = top + len(found) - self._starts[part]
            found += self.parts[part][first : first + count - len(found)]
            part += 1
        return found + [None] * (count - len(found))

    def between(self, top: int, bottom: int) -> list[int]:
        """The parts that have rows in top ≤ row < bottom."""
        return [
            part
            for part in range(len(self.parts))
            if self._starts[part] < bottom and self._starts[part + 1] > top
        ]

    def copied(self, selection: Selection) -> str:
        """The selected text with its own line breaks, without bars and indents."""
        start = 0 if selection.start is None else selection.start.y
        end = self.height if selection.end is None else selection.end.y
        pieces: list[str] = []
        for row in range(max(0, start), min(end + 1, self.height)):
            line = self.line(row)
            span = selection.get_span(row)
            if line is not None and span is not None:
                first, last = _bounds(line, span)
                pieces += [line.text[first:last].rstrip(), line.ending]
        return "".join(pieces[:-1])

    def paragraph(self, row: int) -> Selection | None:
        """The text around a row, from one of its own line breaks to the next."""
        first = last = row
        while (before := self.line(first - 1)) is not None and before.ending != "\n":
            first -= 1
        while (line := self.line(last)) is not None and line.ending != "\n":
            last += 1
        return None if line is None else Selection(Offset(0, first), Offset(len(line.text), last))


def selected(line: Line, selection: Selection, row: int, style: Style) -> Strip:
    """The line with its selected text in that style."""
    span = selection.get_span(row)
    if span is None:
        return line.strip
    start, end = (cell_len(line.text[:index]) for index in _bounds(line, span))
    if start >= end:
        return line.strip
    before, inside = line.strip.crop(0, start), line.strip.crop(start, end)
    after = line.strip.crop(end, line.strip.cell_length)
    return Strip.join([before, Strip(Segment.apply_style(inside, post_style=style)), after])


def _bounds(line: Line, span: tuple[int, int]) -> tuple[int, int]:
    start, end = span
    return max(start, line.skip), len(line.text) if end == -1 else max(end, line.skip)
