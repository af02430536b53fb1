"""The list of sessions: draws only the lines that are seen, so that thousands cost what twenty do."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click, Resize
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from app.chat.store import Summary
from app.chat.store_search import places

# Cells of the marks before the title; between columns; of numbers; of ages; before the scrollbar.
MARK = 3
_GAP = 2
_ASKED = 5
_CHANGED = 11
_EDGE = 1
_DAY = 24 * 3600


@dataclass(frozen=True, slots=True)
class Row:
    """A session and, while something is searched, the line of its text that holds it."""

    summary: Summary
    line: str = ""


@dataclass(frozen=True, slots=True)
class Columns:
    """Widths in cells. model 0: no room for it."""

    title: int
    model: int

    @classmethod
    def of(cls, width: int) -> Columns:
        """How a line of that width is shared out."""
        model = 0 if width < 60 else 20 if width < 96 else 30
        rest = width - _EDGE - MARK - (model + _GAP if model else 0) - 2 * _GAP - _ASKED - _CHANGED
        return cls(max(rest, 8), model)


class SessionList(ScrollView, can_focus=True):
    """Rows of sessions with a cursor, which is kept while the focus is elsewhere."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "session-list--title",
        "session-list--quiet",
        "session-list--match",
        "session-list--current",
        "session-list--cursor",
        "session-list--cursor-title",
        "session-list--cursor-mark",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "screen.open", "open"),
        Binding("r,f2", "screen.rename", "rename"),
        Binding("d,delete,ctrl+d", "screen.delete", "delete"),
        Binding("e,ctrl+e", "screen.export", "export"),
        Binding("u,ctrl+z", "screen.undo", "undo"),
        Binding("slash", "screen.filter", "search", key_display="/"),
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "move(-1000000)", show=False),
        Binding("end", "move(1000000)", show=False),
    ]

    class Opened(Message):
        """A row was clicked twice."""

    class Scrolled(Message):
        """Other rows are seen than before."""

    def __init__(self, current: str | None) -> None:
        """current: the identity of the open session, which is marked."""
        super().__init__()
        self._current = current
        self._rows: Sequence[Row] = ()
        self._words: tuple[str, ...] = ()
        self._now = time.time()
        self.cursor = 0

    @property
    def selected(self) -> Summary | None:
        """The session under the cursor."""
        return self._rows[self.cursor].summary if self._rows else None

    @property
    def row_height(self) -> int:
        """Lines of a row: two while something is searched, where one is."""
        return 2 if self._words else 1

    @property
    def cursor_line(self) -> int:
        """The line of the cursor's row, counted from the first that is seen."""
        return self.cursor * self.row_height - self.scroll_offset.y

    def show(self, rows: Sequence[Row], words: tuple[str, ...] = (), keep: str | None = None) -> None:
        """Show these, found by those words; the cursor on the session `keep`, else about where it was."""
        at = next((at for at, row in enumerate(rows) if row.summary.identity == keep), self.cursor)
        self._rows, self._words, self._now = rows, words, time.time()
        self.virtual_size = Size(0, len(rows) * self.row_height)
        self.move_to(at)

    def move_to(self, row: int) -> None:
        """Put the cursor on a row, the nearest there is, and bring that into view."""
        self.cursor = max(0, min(row, len(self._rows) - 1))
        top, bottom = self.cursor * self.row_height, (self.cursor + 1) * self.row_height
        height = self.scrollable_content_region.height
        if top < self.scroll_offset.y:
            self.scroll_to(y=top, animate=False, force=True, immediate=True)
        elif bottom > self.scroll_offset.y + height:
            self.scroll_to(y=bottom - height, animate=False, force=True, immediate=True)
        self.refresh()

    def action_move(self, step: int) -> None:
        """Move the cursor by so many rows."""
        self.move_to(self.cursor + step)

    def action_page(self, direction: int) -> None:
        """Move the cursor by what is seen at once."""
        self.move_to(
            self.cursor + direction * max(1, self.scrollable_content_region.height // self.row_height)
        )

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Tell who has put something over a row."""
        super().watch_scroll_y(old_value, new_value)
        self.post_message(self.Scrolled())

    def on_resize(self, _event: Resize) -> None:
        self.move_to(self.cursor)

    def on_click(self, event: Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        row = (offset.y + self.scroll_offset.y) // self.row_height
        if row < len(self._rows):
            self.move_to(row)
            if event.chain > 1:
                self.post_message(self.Opened())

    def render_line(self, y: int) -> Strip:
        """One line: mark, title, model, questions, age; or the line that was found."""
        width = self.scrollable_content_region.width
        row, below = divmod(y + self.scroll_offset.y, self.row_height)
        if row >= len(self._rows):
            return Strip.blank(width, self.rich_style)
        return self._line(row, width) if not below else self._found_line(row, width)

    def _line(self, row: int, width: int) -> Strip:
        summary, columns = self._rows[row].summary, Columns.of(width)
        base, quiet = self._base(row), self._style("quiet")
        title = self._style("cursor-title" if row == self.cursor else "title")
        parts = [self._mark(row)]
        parts += self._marked(fit(summary.title, columns.title), title)
        if columns.model:
            parts.append((" " * _GAP + fit(summary.model, columns.model), quiet))
        parts.append((" " * _GAP + f"{summary.exchanges:>{_ASKED},}", quiet))
        parts.append((" " * _GAP + f"{age(summary.changed, self._now):>{_CHANGED}}", quiet))
        return _strip(parts, base, width)

    def _found_line(self, row: int, width: int) -> Strip:
        text = fit(self._rows[row].line, width - MARK - _EDGE)
        mark = f"{'▌' if row == self.cursor else '':{MARK}}"
        parts = [(mark, self._style("cursor-mark")), *self._marked(text, self._style("quiet"))]
        return _strip(parts, self._base(row), width)

    def _mark(self, row: int) -> tuple[str, Style]:
        open_now = self._rows[row].summary.identity == self._current
        if row == self.cursor:
            return ("▌• " if open_now else "▌  ", self._style("cursor-mark"))
        return (" • " if open_now else "   ", self._style("current"))

    def _marked(self, text: str, style: Style) -> list[tuple[str, Style]]:
        parts, end = [], 0
        for start, stop in places(text, self._words) if self._words else ():
            if start >= end:
                parts += [(text[end:start], style), (text[start:stop], style + self._style("match"))]
                end = stop
        return [*parts, (text[end:], style)]

    def _base(self, row: int) -> Style:
        return self.rich_style + self._style("cursor") if row == self.cursor else self.rich_style

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(f"session-list--{name}", partial=True)


def heading(width: int) -> str:
    """The line over the columns."""
    columns = Columns.of(width)
    model = " " * _GAP + fit("model", columns.model) if columns.model else ""
    return (
        f"{'':{MARK}}{fit('title', columns.title)}{model}"
        f"{'':{_GAP}}{'asked':>{_ASKED}}{'':{_GAP}}{'changed':>{_CHANGED}}"
    )


def age(then: float, now: float) -> str:
    """How long ago that was, in at most 11 characters; a date after a week."""
    seconds = now - then
    if seconds < 60:
        return "just now"
    if seconds < 3600:
        return f"{int(seconds // 60)} min ago"
    if seconds < _DAY:
        return f"{int(seconds // 3600)} h ago"
    if seconds < 7 * _DAY:
        days = int(seconds // _DAY)
        return "1 day ago" if days == 1 else f"{days} days ago"
    try:
        return time.strftime("%Y-%m-%d", time.localtime(then))
    # A file that someone tampered with may hold any number.
    except (ValueError, OverflowError, OSError):
        return "–"


def fit(text: str, width: int) -> str:
    """`text` in exactly so many cells, with an ellipsis where it is cut."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(set_cell_size(text, max(0, width - 1)).rstrip() + "…", width)


def _strip(parts: Sequence[tuple[str, Style]], base: Style, width: int) -> Strip:
    strip = Strip([Segment(text, base + style) for text, style in parts if text])
    return strip.adjust_cell_length(width, base)
