"""Two fields of one line each: a slider for a number, and a choice among names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.events import Click, MouseDown, MouseMove
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from app.tui.dialogs.lines import cut
from app.tui.theme import accent, grey, settings_theme

# Columns of the focus mark and the label, of a slider's number, and of the note at the end.
_LABEL, _NUMBER, _NOTE = 13, 7, 34
_LONGEST_TRACK = 60
# From this width on there is room for notes.
_ROOMY = 70


class LabelledField(Widget, can_focus=True):
    """A label, a field with a few positions, and a note.

    position: from 0 to `last`. note: one short sentence at the end.
    """

    DEFAULT_CSS = """
    LabelledField {
        width: 1fr;
        height: 1;
    }
    """
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

        def __init__(self, field: LabelledField) -> None:
            super().__init__()
            self.field = field

    def __init__(self, label: str, last: int, position: int, note: str, id: str) -> None:
        super().__init__(id=id)
        self.last = last
        self._label = label
        self.set_reactive(LabelledField.position, position)
        self.set_reactive(LabelledField.note, note)

    def choose(self, position: int) -> None:
        """Take this position and say so, if it is another."""
        if position != self.position:
            self.position = position
            self.post_message(self.Changed(self))

    def render(self) -> Text:
        theme = settings_theme(self.app.theme)
        muted = grey("muted", theme)
        drawn = Text(no_wrap=True).append("› " if self.has_focus else "  ", accent(theme))
        drawn.append(self._label.ljust(_LABEL - 2), Style(bold=True) if self.has_focus else muted)
        drawn.append_text(self.field(self._width, theme))
        room = self.content_size.width - drawn.cell_len - 2
        if room > 0 and self.note:
            drawn.append("  " + cut(self.note, room), muted)
        return drawn

    def field(self, width: int, theme: str) -> Text:
        """The field itself, in so many columns."""
        raise NotImplementedError

    @property
    def _width(self) -> int:
        """Columns of the field: what the label and the note leave, so that notes stand in one column."""
        width = self.content_size.width
        room = width - _LABEL - (_NOTE if width >= _ROOMY else 0)
        return max(_NUMBER + 8, min(room, _NUMBER + _LONGEST_TRACK))


class Slider(LabelledField):
    """A number that the arrow keys or the mouse move along a track. said: the number of a position."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("shift+left", "move(-10)", show=False),
        Binding("shift+right", "move(10)", show=False),
        Binding("home", "move(-1000)", show=False),
        Binding("end", "move(1000)", show=False),
    ]

    def __init__(
        self, label: str, last: int, position: int, said: Callable[[int], str], note: str, id: str
    ) -> None:
        super().__init__(label, last, position, note, id)
        self._said = said
        self._dragged = False

    def field(self, width: int, theme: str) -> Text:
        track = width - _NUMBER
        filled = round(self.position / self.last * (track - 1))
        drawn = Text().append(self._said(self.position).rjust(_NUMBER - 2) + "  ", Style(bold=True))
        drawn.append("━" * filled + "●", accent(theme) if self.has_focus else Style())
        return drawn.append("─" * (track - 1 - filled), grey("faint", theme))

    def action_move(self, steps: int) -> None:
        self.choose(max(0, min(self.position + steps, self.last)))

    def on_mouse_down(self, event: MouseDown) -> None:
        if event.button == 1 and event.x >= _LABEL:
            self._dragged = True
            self.capture_mouse()
            self._go_to(event.x)

    def on_mouse_move(self, event: MouseMove) -> None:
        if self._dragged:
            self._go_to(event.x)

    def on_mouse_up(self) -> None:
        self._dragged = False
        self.release_mouse()

    def _go_to(self, x: int) -> None:
        share = (x - _LABEL - _NUMBER) / (self._width - _NUMBER - 1)
        self.choose(round(max(0.0, min(share, 1.0)) * self.last))


class NameField(LabelledField):
    """One of a few names; after the last comes the first. Position -1: none, and `otherwise` is shown."""

    def __init__(self, label: str, names: Sequence[str], position: int, id: str, otherwise: str = "") -> None:
        super().__init__(label, len(names) - 1, position, "", id)
        self._names = (*names, otherwise)

    def field(self, width: int, theme: str) -> Text:
        arrows = accent(theme) if self.has_focus else grey("muted", theme)
        drawn = Text().append("‹ ", arrows)
        drawn.append(cut(self._names[self.position], width - 4), Style(bold=True)).append(" ›", arrows)
        return drawn.append(" " * (width - drawn.cell_len))

    def action_move(self, steps: int) -> None:
        start = -1 if steps > 0 else 0
        self.choose(((self.position if self.position >= 0 else start) + steps) % (self.last + 1))

    def on_click(self, event: Click) -> None:
        """On the left arrow back, elsewhere in the field forth."""
        if event.x >= _LABEL:
            self.action_move(-1 if event.x < _LABEL + 2 else 1)
