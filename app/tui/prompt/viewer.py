"""A screen that shows an attached text, a part at a time, so that its length does not matter."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from app.text import clean
from app.tui.dialogs.dialogue import Dialogue

# Laid out in a few hundredths of a second, as lines or as one line.
_PART = 10_000


def parts_of(text: str, longest: int = _PART) -> list[str]:
    """The text in parts of at most `longest` characters, cut at the end of a line or word if one is near."""
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
        self._heading, self._shown = (Static(id=f"viewer-{name}", markup=False) for name in ("title", "part"))
        self._scroll = VerticalScroll(self._shown, id="viewer-text", can_focus=False)

    def compose(self) -> ComposeResult:
        several = len(self._parts) > 1
        keys = "↑↓ scroll · ← → previous, next part · Esc closes" if several else "↑↓ scroll · Esc closes"
        with Vertical(id="viewer"):
            yield self._heading
            yield self._scroll
            yield Static(keys, id="viewer-keys", markup=False)

    def opened(self) -> None:
        self._show(0)

    def _show(self, part: int) -> None:
        self._part = part
        place = f" · part {part + 1:,} of {len(self._parts):,}" if len(self._parts) > 1 else ""
        title = Content.assemble(("▣ ", "$accent"), self._title, (f"  {self._figures}{place}", "$muted"))
        self._heading.update(title)
        self._shown.update(Content(clean(self._parts[part])))
        self._scroll.scroll_home(animate=False)

    def action_part(self, step: int) -> None:
        part = self._part + step
        if 0 <= part < len(self._parts):
            self._show(part)

    def action_scroll(self, rows: int) -> None:
        self._scroll.scroll_relative(y=rows, animate=False)

    def action_page(self, step: int) -> None:
        """Scroll a page. From the end of a part, Page Down goes to the next part."""
        at_end = self._scroll.scroll_offset.y >= self._scroll.max_scroll_y
        if step > 0 and at_end and self._part + 1 < len(self._parts):
            self._show(self._part + 1)
        else:
            self.action_scroll(step * max(1, self._scroll.size.height - 1))

    def action_end(self, last: bool) -> None:
        self._show(len(self._parts) - 1 if last else 0)
        if last:
            self.call_after_refresh(self._scroll.scroll_end, animate=False)
