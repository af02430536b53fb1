"""What stands around the exchanges: notes on what happened, a welcome, and what is not laid out yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from app.text import clean
from app.tui.numbers import counted
from app.tui.transcript.rendering import RenderOptions
from app.tui.transcript.wrapping import Line, Run, blank, wrapped

NoteKind = Literal["information", "warning", "error"]

# The first is the one to read where there is room for no more.
WELCOME = (
    "Ask something below, and press Enter.",
    "Paste a document, or name a file with @, and ask about it.",
    "The panel shows how fast the answer comes, and how much speculation helps.",
)


@dataclass(frozen=True, slots=True)
class Note:
    """One calm sentence about what happened."""

    text: str
    kind: NoteKind


def note_lines(notes: Sequence[Note], options: RenderOptions) -> list[Line]:
    """Each note with a bar in the colour of its kind."""
    palette = options.palette
    styles = {"information": palette.bar, "warning": palette.warning, "error": palette.error}
    lines: list[Line] = []
    for number, note in enumerate(notes):
        block = f"note {number}"
        bar = Run("▎ ", styles[note.kind])
        lines.append(blank(block))
        lines += wrapped([Run(clean(note.text), palette.muted)], options.width, block, [bar])
    return lines


def earlier_lines(count: int, options: RenderOptions) -> list[Line]:
    """How many exchanges are not laid out yet."""
    text = f"↑ {counted(count, 'earlier exchange')} · PageUp shows more"
    return [*wrapped([Run(text, options.palette.muted)], options.width, "top"), blank("top")]


def welcome_lines(notes: Sequence[Note], options: RenderOptions, height: int) -> list[Line]:
    """The welcome in the middle of the view, as much as there is room for, and notes below."""
    lines: list[Line] = []
    for number, text in enumerate(WELCOME[: max(1, height // 3)]):
        style = options.palette.muted if number else options.palette.body
        lines += wrapped([Run(text, style)], options.width, "top")
    noted = note_lines(notes, options)
    above = max(0, (height - len(lines) - len(noted)) // 2 - 1)
    return [blank("top")] * above + lines + noted
