"""What stands above the exchanges: where there are none, what to do; where many, that there are more."""

from __future__ import annotations

from collections.abc import Sequence

from app.tui.transcript.answer import Drawing
from app.tui.transcript.exchange import Note, note_lines
from app.tui.transcript.flow import Line, Run, flow

WELCOME = (
    "Ask something below, and press Enter.",
    "Paste a document, or name a file with @, and ask about it.",
    "The panel shows how fast the answer comes, and what speculation gave to it.",
)

_BLOCK = "top"


def earlier_lines(count: int, drawing: Drawing) -> list[Line]:
    """So many exchanges are not laid out yet."""
    text = f"↑ {count:,} earlier exchange{'' if count == 1 else 's'} · PageUp shows more"
    return [*_flow(text, drawing, first=False), *flow([], drawing.width, _BLOCK)]


def welcome_lines(welcome: Sequence[str], notes: Sequence[Note], drawing: Drawing, height: int) -> list[Line]:
    """Some sentences in the middle of the view, the first of them first to be read; notes below."""
    lines: list[Line] = []
    # Where there is little room, what matters most.
    for number, text in enumerate(welcome[: max(1, height // 3)]):
        lines += _flow(text, drawing, first=number == 0)
    noted = note_lines(notes, drawing)
    above = max(0, (height - len(lines) - len(noted)) // 2 - 1)
    return flow([], drawing.width, _BLOCK) * above + lines + noted


def _flow(text: str, drawing: Drawing, *, first: bool) -> list[Line]:
    style = drawing.palette.body if first else drawing.palette.muted
    return flow([Run(text, style)], drawing.width, _BLOCK)
