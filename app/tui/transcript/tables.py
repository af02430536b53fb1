"""Tables of an answer: columns as wide as their cells where they fit, wrapped cells where not."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from app.tui.transcript.flow import Line, Run, flow

GAP = 2
NARROWEST = 4

Cell = list[Run]


def table(
    rows: Sequence[Sequence[Cell]],
    right: Sequence[bool],
    width: int,
    block: str,
    rule: Style,
) -> list[Line]:
    """Lines of a table whose first row is its header. right: which columns are set to the right.

    Where the columns are too many for the width, each row is a line of cells between bars.
    """
    count = max(len(row) for row in rows)
    room = width - GAP * (count - 1)
    if room < NARROWEST * count:
        bar = Run(" │ ", rule)
        return [line for row in rows for line in flow(_joined(row, bar), width, block)]
    widths = _fitted([max(_natural(row, column) for row in rows) for column in range(count)], room)
    lines: list[Line] = []
    for number, row in enumerate(rows):
        place = next((run.place for cell in row for run in cell), lines[-1].place if lines else 0)
        columns = [
            flow(row[column] if column < len(row) else [], widths[column], block) for column in range(count)
        ]
        for parts in zip_longest(*columns):
            lines.append(Line(_row(parts, widths, right), block, place))
        if number == 0:
            strip = Strip([Segment((" " * GAP).join("─" * each for each in widths), rule)])
            lines.append(Line(strip, block, place))
    return lines


def _row(parts: Sequence[Line | None], widths: Sequence[int], right: Sequence[bool]) -> Strip:
    strips: list[Strip] = []
    for column, (part, width) in enumerate(zip(parts, widths, strict=True)):
        strip = Strip([]) if part is None else part.strip
        blank = Strip([Segment(" " * (width - strip.cell_length))])
        to_right = column < len(right) and right[column]
        strips += [blank, strip] if to_right else [strip, blank]
        if column + 1 < len(widths):
            strips.append(Strip([Segment(" " * GAP)]))
    return Strip.join(strips)


def _natural(row: Sequence[Cell], column: int) -> int:
    """Cells that this row's text in the column takes on one line, at least 1."""
    if column >= len(row):
        return 1
    lines = "".join(run.text for run in row[column]).split("\n")
    return max(1, *(cell_len(line) for line in lines))


def _fitted(natural: Sequence[int], room: int) -> list[int]:
    """Widths that fit: narrow columns keep theirs, all wider ones share one bound."""
    bound = room
    while bound > 1 and sum(min(each, bound) for each in natural) > room:
        bound -= 1
    return [min(each, bound) for each in natural]


def _joined(row: Sequence[Cell], bar: Run) -> list[Run]:
    joined: list[Run] = []
    for cell in row:
        joined += [*cell, bar]
    return joined[:-1]
