"""A viewer for plain text of any size: a megabyte on one line costs what its visible lines cost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from rich.cells import cell_len, get_character_cell_size
from rich.segment import Segment
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.events import Resize
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Footer

from app.chat.gate import clean
from app.tui.dialogs.dialogue import Dialogue


class PlainText(ScrollView, can_focus=True):
    """Read-only text, wrapped to the width. Only the lines that are seen are drawn."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    PlainText {
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
        scrollbar-color: $rule;
        scrollbar-background: $surface;
        scrollbar-background-hover: $surface;
        scrollbar-background-active: $surface;
        overflow-x: hidden;
        overflow-y: auto;
        background: $surface;
    }
    PlainText:focus {
        scrollbar-color: $accent;
    }
    """

    def __init__(self, text: str, id: str | None = None) -> None:
        super().__init__(id=id)
        self._text = clean(text).expandtabs(4)
        self._wrapped: list[str] = []
        self._columns = 0

    @on(Resize)
    def _wrap(self) -> None:
        columns = self.scrollable_content_region.width
        if columns > 0 and columns != self._columns:
            share = self.scroll_y / max(1, len(self._wrapped))
            self._columns = columns
            self._wrapped = list(wrap(self._text, columns))
            self.virtual_size = Size(columns, len(self._wrapped))
            self.scroll_to(y=share * len(self._wrapped), animate=False)
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """The line at y of what is seen."""
        at, width = y + self.scroll_offset.y, self.size.width
        text = self._wrapped[at] if at < len(self._wrapped) else ""
        return Strip([Segment(text, self.rich_style)]).adjust_cell_length(width, self.rich_style)


class TextScreen(Dialogue[None]):
    """Shows a text under a title. Both may be anybody's; neither is markup."""

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text("utf-8")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "close"),
        Binding("q", "leave", "close", show=False),
    ]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._heading = " ".join(clean(title).split())
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog") as dialog:
            dialog.border_title = Content(self._heading)
            yield PlainText(self._text)
            yield Footer(show_command_palette=False)

    def action_leave(self) -> None:
        """Close."""
        self.dismiss(None)


def wrap(text: str, columns: int) -> Iterator[str]:
    """The lines of the text, each at most so many columns, broken at a space where one is near its end."""
    for line in text.split("\n"):
        yield from _pieces(line, columns)


def _pieces(line: str, columns: int) -> Iterator[str]:
    start = 0
    while True:
        end = _end(line, start, columns)
        if end == len(line):
            yield line[start:]
            return
        # An unbroken word is better cut than the line left short by more than a third.
        space = line.rfind(" ", start + (end - start) * 2 // 3, end + 1)
        yield line[start : end if space < 0 else space]
        start = end if space < 0 else space + 1


def _end(line: str, start: int, columns: int) -> int:
    """Behind the last character that fits, one at least; those without width stay with the one before."""
    end = min(start + columns, len(line))
    filled = columns
    if cell_len(line[start:end]) != end - start:
        filled, end = get_character_cell_size(line[start]), start + 1
    for at in range(end, len(line)):
        filled += get_character_cell_size(line[at])
        if filled > columns:
            return at
    return len(line)
