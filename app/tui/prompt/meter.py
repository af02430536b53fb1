"""How full the context is: figures and a bar that warn by colour and weight."""

from __future__ import annotations

import math

from textual.content import Content
from textual.widgets import Static

from app.tui.numbers import UNKNOWN, whole

_CELLS = 6
_WARNING = 0.80
_ERROR = 0.95


def meter_text(used: int | None, capacity: int | None, compact: bool = False) -> Content:
    """The meter's line; a dash for what is not known. compact: for screens under 60 columns."""
    share = used / capacity if used is not None and capacity else None
    cells = _CELLS // 2 if compact else _CELLS
    # A little is shown as a little, and only a full context as full.
    filled = 0 if share is None else min(math.ceil(share * cells), cells if share >= 1 else cells - 1)
    colour = "" if share is None or share < _WARNING else "$warning" if share < _ERROR else "bold $error"
    if compact:
        figures = f"{_short(used)}/{_short(capacity)}"
    else:
        total = whole(capacity)
        # As wide as the capacity, so that the line stays where it is while the number grows.
        figures = f"{whole(used):>{len(total)}} of {total} tokens"
    return Content.assemble(
        (f"{figures} ", colour or "$muted"),
        ("▰" * filled, colour or "$accent"),
        ("▱" * (cells - filled), "$faint"),
    )


def _short(tokens: int | None) -> str:
    """Such as "812", "1.2k" and "131k"."""
    if tokens is None:
        return UNKNOWN
    if tokens < 1000:
        return str(tokens)
    return f"{tokens / 1000:.1f}k" if tokens < 99_950 else f"{tokens / 1000:.0f}k"


class ContextMeter(Static):
    """`used` of `capacity` tokens; None where one is not known."""

    def __init__(self) -> None:
        super().__init__(markup=False)
        self._used: int | None = None
        self._capacity: int | None = None
        self._compact = False

    def on_mount(self) -> None:
        self._redraw()

    def show(self, used: int | None, capacity: int | None) -> None:
        self._used, self._capacity = used, capacity
        self._redraw()

    def make_compact(self, compact: bool) -> None:
        self._compact = compact
        self._redraw()

    def _redraw(self) -> None:
        text = meter_text(self._used, self._capacity, self._compact)
        before = self.content
        # Laying out the screen takes ten times as long as painting this line, which changes with each batch.
        self.update(text, layout=not isinstance(before, Content) or text.cell_length != before.cell_length)
