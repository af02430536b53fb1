"""The list of sessions: a line for each, and below it the line of its text that a search found."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Click

from app.chat.store import Summary
from app.chat.store_search import places
from app.tui.dialogs.lines import QUIET, LazyLines, fit
from app.tui.dialogs.option_list import PagedList

_GAP = "  "
_MARK, _ASKED, _CHANGED = 2, 5, 11
_MATCH = "$accent underline"
_DAY = 24 * 3600


@dataclass(frozen=True, slots=True)
class FoundSession:
    """A session and, while something is searched, the line of its text that holds it."""

    summary: Summary
    line: str = ""


class SessionList(PagedList):
    """Sessions with the keys for them. One click moves to a session, two open it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "screen.choose", "open"),
        Binding("r,f2", "screen.rename", "rename"),
        Binding("d,delete,ctrl+d", "screen.delete", "delete"),
        Binding("e,ctrl+e", "screen.export", "export"),
        Binding("u,ctrl+z", "screen.undo", "undo"),
        Binding("slash", "screen.filter", "search"),
    ]

    def on_click(self, event: Click) -> None:
        # Textual's own would open at the first click.
        event.prevent_default()
        place = event.style.meta.get("option")
        if place is not None:
            self.highlighted = place
            if event.chain > 1:
                self.action_select()


def lines(
    found: Sequence[FoundSession], words: tuple[str, ...], current: str | None
) -> list[tuple[FoundSession, LazyLines]]:
    """Each session with what is drawn of it. words: what was searched. current: the open one's identity."""
    now, height = time.time(), 2 if words else 1
    return [(each, LazyLines(partial(_drawn, each, words, current, now), height)) for each in found]


def heading(columns: int) -> Content:
    """The line over the columns."""
    return Content(" " * _MARK + _GAP.join(_cells(columns, "title", "model", "asked", "changed")))


def _drawn(
    found: FoundSession, words: tuple[str, ...], current: str | None, now: float, columns: int
) -> Content:
    summary = found.summary
    mark = ("● " if summary.identity == current else "  ", "$accent")
    title, *rest = _cells(
        columns, summary.title, summary.model, f"{summary.exchanges:,}", age(summary.changed, now)
    )
    line = Content.assemble(mark, _marked(title, words), (_GAP + _GAP.join(rest), QUIET))
    if not words:
        return line
    text = _marked(fit(found.line, columns - _MARK), words)
    return Content("\n").join([line, Content.assemble(" " * _MARK, Content.assemble(text).stylize(QUIET))])


def _cells(columns: int, title: str, model: str, asked: str, changed: str) -> list[str]:
    """The texts in their columns; the title takes what is left, and a narrow list has no models."""
    models = 0 if columns < 60 else 20 if columns < 96 else 30
    cells = [
        *([fit(model, models)] if models else []),
        fit(asked, _ASKED, True),
        fit(changed, _CHANGED, True),
    ]
    left = columns - _MARK - len(_GAP) * len(cells) - models - _ASKED - _CHANGED
    return [fit(title, max(left, 8)), *cells]


def _marked(text: str, words: tuple[str, ...]) -> Content:
    content = Content(text)
    for start, end in places(text, words) if words else ():
        content = content.stylize(_MATCH, start, end)
    return content


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
