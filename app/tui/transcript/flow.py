"""Styled text wrapped into lines of a width, at its end growing without what stands being wrapped again.

A line knows where in its source it began (so that a reader's place survives another form of the same
text) and how it joins the next (so that copied text has its own line breaks, not the screen's).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

# East Asian text may break between any two characters.
_WIDE = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef"
_WORD = re.compile(rf"[{_WIDE}]\s*|[^\s{_WIDE}]+\s*|\s+")
_TAB = "    "


class Run(NamedTuple):
    """Text of one style. place: offset of its first character in the source."""

    text: str
    style: Style
    place: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the screen.

    block, place: which text it shows and the offset in it. ending: what stands between it and the next
    line in copied text. skip: so many characters at its left are drawing, not text. action: what a
    click on it does.
    """

    strip: Strip
    block: str = ""
    place: int = 0
    ending: str = "\n"
    skip: int = 0
    action: str = ""

    @property
    def text(self) -> str:
        return self.strip.text


def breaks(text: str, width: int, *, words: bool = True) -> list[int]:
    """Offsets at which lines after the first begin, if one line of text is to fit `width` cells.

    words False: breaks only where the width ends, as is right for code.
    """
    width = max(1, width)
    if cell_len(text) <= width:
        return []
    found: list[int] = []
    filled = place = 0
    for word in _WORD.findall(text) if words else (text,):
        wide = cell_len(word.rstrip() if words else word)
        if filled and filled + wide > width:
            found.append(place)
            filled = 0
        if wide > width:
            *full, rest = chop_cells(word.rstrip() if words else word, width)
            cut = place
            for piece in full:
                cut += len(piece)
                found.append(cut)
            filled = cell_len(rest) + len(word) - len(word.rstrip())
        else:
            filled += cell_len(word)
        place += len(word)
    return found


def cut(runs: Sequence[Run], offsets: Sequence[int]) -> list[list[Run]]:
    """The runs of one paragraph cut at these ascending offsets of their joined text."""
    pieces: list[list[Run]] = [[] for _ in range(len(offsets) + 1)]
    index = position = 0
    for run in runs:
        taken = 0
        while index < len(offsets) and offsets[index] <= position + len(run.text):
            here = offsets[index] - position
            if here > taken:
                pieces[index].append(Run(run.text[taken:here], run.style, run.place + taken))
            taken = here
            index += 1
        if taken < len(run.text):
            pieces[index].append(Run(run.text[taken:], run.style, run.place + taken))
        position += len(run.text)
    return pieces


class Flow:
    """Lines out of runs that come bit by bit; only the last line is laid out again.

    first, rest: runs drawn at the left of the first line and of all others; fill: the style that pads
    lines to the full width. words False: for code.
    """

    def __init__(
        self,
        width: int,
        block: str = "",
        first: Sequence[Run] = (),
        rest: Sequence[Run] | None = None,
        *,
        words: bool = True,
        fill: Style | None = None,
        skip_first: bool = False,
    ) -> None:
        self.lines: list[Line] = []
        self._width = width
        self._block = block
        self._first = tuple(first)
        self._rest = self._first if rest is None else tuple(rest)
        self._words = words
        self._fill = fill
        self._skip_first = skip_first
        self._room = width - max(_cells(self._first), _cells(self._rest))
        self._tail: list[Run] = []
        self._fixed = 0

    def feed(self, runs: Iterable[Run]) -> None:
        """Go on with these runs."""
        del self.lines[self._fixed :]
        for index, paragraph in enumerate(_paragraphs([*self._tail, *runs])):
            if index:
                self._fixed = len(self.lines)
            text = "".join(run.text for run in paragraph)
            offsets = breaks(text, self._room, words=self._words)
            pieces = cut(paragraph, offsets)
            for piece, following in pairwise([*pieces, None]):
                self.lines.append(self._line(piece or [], following))
            self._fixed = len(self.lines) - 1
            self._tail = pieces[-1]

    def _line(self, runs: Sequence[Run], following: Sequence[Run] | None) -> Line:
        text = "".join(run.text for run in runs)
        kept = len(text.rstrip()) if self._words else len(text)
        prefix = self._rest if self.lines else self._first
        segments = [Segment(run.text, run.style) for run in prefix]
        position = 0
        for run in runs:
            if position < kept:
                segments.append(Segment(run.text[: kept - position], run.style))
            position += len(run.text)
        strip = Strip(segments)
        if self._fill is not None:
            strip = strip.extend_cell_length(self._width, self._fill)
        ending = "\n" if following is None else text[kept:]
        skip = sum(len(run.text) for run in prefix) if self.lines or self._skip_first else 0
        return Line(strip, self._block, runs[0].place if runs else self._place(), ending, skip)

    def _place(self) -> int:
        return self.lines[-1].place if self.lines else 0


def flow(
    runs: Iterable[Run],
    width: int,
    block: str = "",
    first: Sequence[Run] = (),
    rest: Sequence[Run] | None = None,
) -> list[Line]:
    """The lines of a text that is whole."""
    flowing = Flow(width, block, first, rest)
    flowing.feed(runs)
    return flowing.lines


def items(
    entries: Sequence[Sequence[Run]], width: int, separator: Run, block: str = "", action: str = ""
) -> list[Line]:
    """Short entries side by side, as many a line as fit; none is broken that fits a line."""
    rows: list[list[Run]] = []
    filled = 0
    for entry in entries:
        wide = _cells(entry)
        if rows and filled + cell_len(separator.text) + wide <= width:
            rows[-1] += [separator, *entry]
            filled += cell_len(separator.text) + wide
        else:
            rows.append(list(entry))
            filled = wide
    return [
        Line(line.strip, block, line.place, line.ending, line.skip, action)
        for row in rows
        for line in flow(row, width, block)
    ]


def _cells(runs: Sequence[Run]) -> int:
    return sum(cell_len(run.text) for run in runs)


def _paragraphs(runs: Iterable[Run]) -> list[list[Run]]:
    """The runs cut at line breaks, which go; tabs become blanks."""
    paragraphs: list[list[Run]] = [[]]
    for run in runs:
        place = run.place
        for index, text in enumerate(run.text.split("\n")):
            if index:
                paragraphs.append([])
                place += 1
            if text:
                paragraphs[-1].append(Run(text.replace("\t", _TAB), run.style, place))
            place += len(text)
    return paragraphs
