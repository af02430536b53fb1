"""Styled text wrapped into lines.

A line knows where in its source it began, so that a reader's position survives another rendering of the same
text, and how it joins the next line, so that copied text has its own line breaks and not the screen's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
    """Text of one style. offset: of its first character in the source."""

    text: str
    style: Style
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the screen.

    block, offset: which text it shows, and from where. ending: what stands between it and the next line in
    copied text. skip: how many characters at its left are drawing, not text. action: what a click on it does.
    """

    strip: Strip
    block: str = ""
    offset: int = 0
    ending: str = "\n"
    skip: int = 0
    action: str = ""

    @property
    def text(self) -> str:
        return self.strip.text


def line_breaks(text: str, width: int, *, words: bool = True) -> list[int]:
    """Offsets at which a line of text must be broken to fit `width` cells.

    words False: anywhere, as is right for code.
    """
    width = max(1, width)
    if cell_len(text) <= width:
        return []
    found: list[int] = []
    filled = start = 0
    for word in _WORD.findall(text) if words else (text,):
        wide = cell_len(word.rstrip() if words else word)
        if filled and filled + wide > width:
            found.append(start)
            filled = 0
        if wide > width:
            *full, rest = chop_cells(word.rstrip() if words else word, width)
            end = start
            for piece in full:
                end += len(piece)
                found.append(end)
            filled = cell_len(rest) + len(word) - len(word.rstrip())
        else:
            filled += cell_len(word)
        start += len(word)
    return found


def cut(runs: Sequence[Run], breaks: Sequence[int]) -> list[list[Run]]:
    """The runs of one paragraph, cut at these ascending offsets of their joined text."""
    pieces: list[list[Run]] = [[] for _ in range(len(breaks) + 1)]
    index = start = 0
    for run in runs:
        taken = 0
        while index < len(breaks) and breaks[index] <= start + len(run.text):
            here = breaks[index] - start
            if here > taken:
                pieces[index].append(Run(run.text[taken:here], run.style, run.offset + taken))
            taken = here
            index += 1
        if taken < len(run.text):
            pieces[index].append(Run(run.text[taken:], run.style, run.offset + taken))
        start += len(run.text)
    return pieces


def wrapped(
    runs: Iterable[Run],
    width: int,
    block: str = "",
    first: Sequence[Run] = (),
    rest: Sequence[Run] | None = None,
    *,
    code: Style | None = None,
) -> list[Line]:
    """The lines of a text.

    first, rest: what is drawn at the left of the first line, and of all others. code: the style of the ground
    of code, which fills whole lines, and is broken anywhere.
    """
    rest = first if rest is None else rest
    room = width - max(_cells(first), _cells(rest))
    lines: list[Line] = []
    for paragraph in _paragraphs(runs):
        whole = "".join(run.text for run in paragraph)
        pieces = cut(paragraph, line_breaks(whole, room, words=code is None))
        for number, piece in enumerate(pieces, 1):
            text = "".join(run.text for run in piece)
            kept = text if code else text.rstrip()
            shown = piece if kept == text else cut(piece, [len(kept)])[0]
            left = rest if lines else first
            strip = Strip([Segment(run.text, run.style) for run in (*left, *shown)])
            if code:
                strip = strip.extend_cell_length(width, code)
            ending = "\n" if number == len(pieces) else text[len(kept) :]
            skip = sum(len(run.text) for run in left) if lines or code else 0
            offset = piece[0].offset if piece else lines[-1].offset if lines else 0
            lines.append(Line(strip, block, offset, ending, skip))
    return lines


def blank(block: str, offset: int = 0) -> Line:
    """An empty line."""
    return Line(Strip([]), block, offset)


def wrapped_items(items: Sequence[Sequence[Run]], width: int, separator: Run, block: str) -> list[Line]:
    """Short items side by side, as many as fit in a line; an item is broken only if wider than a line."""
    rows: list[list[Run]] = []
    filled = 0
    for item in items:
        wide = _cells(item)
        if rows and filled + cell_len(separator.text) + wide <= width:
            rows[-1] += [separator, *item]
            filled += cell_len(separator.text) + wide
        else:
            rows.append(list(item))
            filled = wide
    return [line for row in rows for line in wrapped(row, width, block)]


def _cells(runs: Sequence[Run]) -> int:
    return sum(cell_len(run.text) for run in runs)


def _paragraphs(runs: Iterable[Run]) -> list[list[Run]]:
    """The runs cut at line breaks, which are left out; tabs become spaces."""
    paragraphs: list[list[Run]] = [[]]
    for run in runs:
        offset = run.offset
        for index, text in enumerate(run.text.split("\n")):
            if index:
                paragraphs.append([])
                offset += 1
            if text:
                paragraphs[-1].append(Run(text.replace("\t", _TAB), run.style, offset))
            offset += len(text)
    return paragraphs
