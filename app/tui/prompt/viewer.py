"""A screen that shows an attached text, a part at a time, so that its length does not matter."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from app.chat.gate import clean
from app.tui.dialogs.dialogue import Dialogue

# Laid out in a few hundredths of a second, in lines or as one line.
_PART = 10_000


def parts_of(text: str, longest: int = _PART) -> list[str]:
    """The text in parts of at most `longest` characters, cut at a line's or word's end where one is near."""
    parts, start = [], 0
    while start < len(text):
        end = start + longest
        if end < len(text):
            cut = text.rfind("\n", start + longest // 2, end)
            cut = cut if cut >= 0 else text.rfind(" ", start + longest // 2, end)
            end = cut + 1 if cut >= 0 else end
        parts.append(text[start:end])
        start = end
    return parts or [""]


class DocumentViewer(Dialogue[None]):
    """Read only. title: the attachment's name; figures: its size."""

    DEFAULT_CSS = Path(__file__).with_name("viewer.tcss").read_text("utf-8")

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "close"),
        Binding("right,n,ctrl+pagedown", "part(1)", "next part"),
        Binding("left,p,ctrl+pageup", "part(-1)", "previous part"),
        Binding("down", "scroll(1)", show=False),
        Binding("up", "scroll(-1)", show=False),
        Binding("pagedown,space", "page(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("home", "end(False)", show=False),
        Binding("end", "end(True)", show=False),
    ]

    def __init__(self, title: str, figures: str, text: str) -> None:
        super().__init__()
        self._title, self._figures = title, figures
        self._parts = parts_of(text)
        self._part = 0

    def compose(self) -> ComposeResult:
        with Vertical(id="viewer"):
            yield Static(id="viewer-title", markup=False)
            with VerticalScroll(id="viewer-text", can_focus=False):
                yield Static(id="viewer-part", markup=False)
            yield Static(id="viewer-keys", markup=False)

    def opened(self) -> None:
        self._show(0)

    def _show(self, part: int) -> None:
        self._part = part
        several = len(self._parts) > 1
        place = f" · part {part + 1:,} of {len(self._parts):,}" if several else ""
        title = Content.assemble(("▣ ", "$accent"), self._title, (f"  {self._figures}{place}", "$muted"))
        self.query_one("#viewer-title", Static).update(title)
        self.query_one("#viewer-part", Static).update(Content(clean(self._parts[part])))
        keys = "↑↓ scroll · ← → previous, next part · Esc closes" if several else "↑↓ scroll · Esc closes"
        self.query_one("#viewer-keys", Static).update(Content(keys))
        self._text.scroll_home(animate=False)

    @property
    def _text(self) -> VerticalScroll:
        return self.query_one("#viewer-text", VerticalScroll)

    def action_part(self, step: int) -> None:
        part = self._part + step
        if 0 <= part < len(self._parts):
            self._show(part)

    def action_scroll(self, rows: int) -> None:
        self._text.scroll_relative(y=rows, animate=False)

    def action_page(self, step: int) -> None:
        """A page on, and at a part's end on to the next part."""
        at_end = self._text.scroll_offset.y >= self._text.max_scroll_y
        if step > 0 and at_end and self._part + 1 < len(self._parts):
            self._show(self._part + 1)
        else:
            self._text.scroll_relative(y=step * max(1, self._text.size.height - 1), animate=False)

    def action_end(self, last: bool) -> None:
        self._show(len(self._parts) - 1 if last else 0)
        if last:
            self.call_after_refresh(self._text.scroll_end, animate=False)
