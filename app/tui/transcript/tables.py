"""Tables of an answer: columns as wide as their cells if they fit, else with wrapped cells."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from app.tui.transcript.wrapping import Line, Run, wrapped

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
    """Lines of a table whose first row is its header. right: which columns are aligned to the right.

    Where there are too many columns for the width, each row becomes a line of cells between bars.
    """
    count = max(len(row) for row in rows)
    rows = [[*row, *[[]] * (count - len(row))] for row in rows]
    room = width - GAP * (count - 1)
    if room < NARROWEST * count:
        bar = Run(" │ ", rule)
        joined = ([run for cell in row for run in (*cell, bar)][:-1] for row in rows)
        return [line for runs in joined for line in wrapped(runs, width, block)]
    widths = _fitted([max(_natural(row[column]) for row in rows) for column in range(count)], room)
    lines: list[Line] = []
    for number, row in enumerate(rows):
        offset = next((run.offset for cell in row for run in cell), lines[-1].offset if lines else 0)
        columns = [wrapped(cell, cells, block) for cell, cells in zip(row, widths, strict=True)]
        for parts in zip_longest(*columns):
            lines.append(Line(_row(parts, widths, right), block, offset))
        if number == 0:
            strip = Strip([Segment((" " * GAP).join("─" * each for each in widths), rule)])
            lines.append(Line(strip, block, offset))
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


def _natural(cell: Cell) -> int:
    """Cells of the screen that the text takes on lines of its own, at least 1."""
    return max(1, *(cell_len(line) for line in "".join(run.text for run in cell).split("\n")))


def _fitted(natural: Sequence[int], room: int) -> list[int]:
    """Widths that fit: narrow columns keep theirs, all wider ones share one bound."""
    bound = room
    while bound > 1 and sum(min(each, bound) for each in natural) > room:
        bound -= 1
    return [min(each, bound) for each in natural]
