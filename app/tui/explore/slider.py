"""Two fields of one line each: a slider for a number, and a choice among names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.events import Click, MouseDown, MouseMove, MouseUp
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from app.tui.explore.drawing import accent, grey

# Columns of the mark of the focus and the label, of a slider's number, and of the note at the end.
_LABEL, _NUMBER, _NOTE = 13, 7, 34
_LONGEST_TRACK = 60
# From this width on there is room for notes.
_ROOMY = 70


class Line(Widget, can_focus=True):
    """A label, a field that a position among a few decides, and a note.

    position: from 0 to `last`. note: one short sentence at the end.
    """

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text("utf-8")
    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move(-1)", "change", key_display="←→"),
        Binding("right", "move(1)", show=False),
        # Here, as the keys of a container that scrolls come before those of its screen.
        Binding("up", "app.focus_previous", "move", key_display="↑↓"),
        Binding("down", "app.focus_next", show=False),
    ]
    position: reactive[int] = reactive(0, init=False)
    note: reactive[str] = reactive("", init=False)

    class Changed(Message):
        """A person chose another position."""

        def __init__(self, line: Line) -> None:
            super().__init__()
            self.line = line

        @property
        def control(self) -> Line:
            return self.line

    def __init__(self, label: str, last: int, position: int, note: str = "", id: str | None = None) -> None:
        super().__init__(id=id)
        self.last = last
        self._label = label
        self.set_reactive(Line.position, position)
        self.set_reactive(Line.note, note)

    @property
    def theme(self) -> str:
        """The settings' name of the theme that is on."""
        return self.app.theme.removeprefix("specchat-")

    def choose(self, position: int) -> None:
        """Take this position and say so, if it is another."""
        if position != self.position:
            self.position = position
            self.post_message(self.Changed(self))

    def render(self) -> Text:
        width, theme = self.content_size.width, self.theme
        focused = self.has_focus
        drawn = Text(no_wrap=True).append("› " if focused else "  ", accent(theme))
        drawn.append(self._label.ljust(_LABEL - 2), Style(bold=True) if focused else grey("muted", theme))
        drawn.append_text(self.field(_room(width), focused))
        room = width - drawn.cell_len - 2
        if room > 0 and self.note:
            drawn.append("  " + _fitted(self.note, room), grey("muted", theme))
        return drawn

    def field(self, width: int, focused: bool) -> Text:
        """The field itself, as near to this width as it can be."""
        raise NotImplementedError


class Slider(Line):
    """A number that the arrow keys or the mouse move along a track. said: the number of a position."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("shift+left", "move(-10)", show=False),
        Binding("shift+right", "move(10)", show=False),
        Binding("home", "end(False)", show=False),
        Binding("end", "end(True)", show=False),
    ]

    def __init__(
        self,
        label: str,
        last: int,
        position: int,
        said: Callable[[int], str],
        note: str = "",
        id: str | None = None,
    ) -> None:
        super().__init__(label, last, position, note, id)
        self._said = said
        self._dragged = False

    def field(self, width: int, focused: bool) -> Text:
        theme, track = self.theme, self._track(width)
        filled = round(self.position / self.last * (track - 1))
        drawn = Text().append(self._said(self.position).rjust(_NUMBER - 2) + "  ", Style(bold=True))
        lit = accent(theme) if focused else Style()
        drawn.append("━" * filled, lit).append("●", lit)
        return drawn.append("─" * (track - 1 - filled), grey("faint", theme))

    def action_move(self, steps: int) -> None:
        self.choose(max(0, min(self.position + steps, self.last)))

    def action_end(self, right: bool) -> None:
        self.choose(self.last if right else 0)

    def on_mouse_down(self, event: MouseDown) -> None:
        if event.button == 1 and event.x >= _LABEL:
            self._dragged = True
            self.capture_mouse()
            self._go_to(event.x)

    def on_mouse_move(self, event: MouseMove) -> None:
        if self._dragged:
            self._go_to(event.x)

    def on_mouse_up(self, event: MouseUp) -> None:
        self._dragged = False
        self.release_mouse()

    def _track(self, width: int) -> int:
        return _wide(width) - _NUMBER

    def _go_to(self, x: int) -> None:
        track = self._track(_room(self.content_size.width))
        share = (x - _LABEL - _NUMBER) / (track - 1)
        self.choose(round(max(0.0, min(share, 1.0)) * self.last))


class Choice(Line):
    """One of a few names, round and round. Position -1: none of them, and `otherwise` is shown."""

    def __init__(
        self, label: str, names: Sequence[str], position: int, otherwise: str = "", id: str | None = None
    ) -> None:
        super().__init__(label, len(names) - 1, position, id=id)
        self._names = tuple(names)
        self._otherwise = otherwise

    def field(self, width: int, focused: bool) -> Text:
        arrows = accent(self.theme) if focused else grey("muted", self.theme)
        name = self._otherwise if self.position < 0 else self._names[self.position]
        drawn = Text().append("‹ ", arrows)
        drawn.append(_fitted(name, _wide(width) - 4), Style(bold=True)).append(" ›", arrows)
        return drawn.append(" " * (_wide(width) - drawn.cell_len))

    def action_move(self, steps: int) -> None:
        start = self.position if self.position >= 0 or steps < 0 else -1
        self.choose((start + steps) % len(self._names) if start >= 0 else (0 if steps > 0 else self.last))

    def on_click(self, event: Click) -> None:
        """On the left arrow back, elsewhere in the field forth."""
        if event.x >= _LABEL:
            self.action_move(-1 if event.x < _LABEL + 2 else 1)


def _room(width: int) -> int:
    """Columns for a field; on a small screen it takes the note's."""
    return width - _LABEL - (_NOTE if width >= _ROOMY else 0)


def _wide(width: int) -> int:
    """Columns of a field, where there are so many before the note: notes stand in one column."""
    return max(_NUMBER + 8, min(width, _NUMBER + _LONGEST_TRACK))


def _fitted(text: str, room: int) -> str:
    return text if cell_len(text) <= room else set_cell_size(text, room - 1) + "…"
