"""One line of the settings: a label, a field that is checked as it is typed, and a sentence beneath."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import Click
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Input, Static, TextArea

from app.chat.gate import clean
from app.config.fields import Field, Value, choices_of, typed

_SWITCH = ("off", "on")
_BETWEEN_FIELDS: list[BindingType] = [
    Binding("down", "screen.focus_next", "fields", key_display="↑ ↓"),
    Binding("up", "screen.focus_previous", show=False),
]


class Options(Widget, can_focus=True):
    """A few words of which one is chosen, by ← and → or the mouse."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "choose(-1)", "choose", key_display="← →"),
        Binding("right,space", "choose(1)", show=False),
        *_BETWEEN_FIELDS,
    ]
    chosen: reactive[int] = reactive(0, init=False)

    class Changed(Message):
        """Another word is chosen."""

    def __init__(self, words: Sequence[str], chosen: str) -> None:
        super().__init__()
        self.words = tuple(words)
        self.set_reactive(Options.chosen, self.words.index(chosen))

    @property
    def word(self) -> str:
        """The one that is chosen."""
        return self.words[self.chosen]

    def render(self) -> Content:
        parts = [
            Content.styled(f" {word} ", self._style if index == self.chosen else "$muted")
            for index, word in enumerate(self.words)
        ]
        return Content("").join(parts)

    @property
    def _style(self) -> str:
        return "bold $block-cursor-foreground on $accent" if self.has_focus else "bold $accent on $panel"

    def watch_has_focus(self, _focused: bool) -> None:
        super().watch_has_focus(_focused)
        self.refresh()

    def action_choose(self, step: int) -> None:
        """Go on to the next or previous word, round the end."""
        self.chosen = (self.chosen + step) % len(self.words)

    def watch_chosen(self) -> None:
        self.post_message(self.Changed())

    @on(Click)
    def _clicked(self, event: Click) -> None:
        end = 0
        for index, word in enumerate(self.words):
            end += len(word) + 2
            if event.x < end:
                self.chosen = index
                return


class Line(Input):
    """A text of one line, that ↑, ↓ and Enter leave."""

    # Of its own, as Input's would scroll.
    BINDINGS: ClassVar[list[BindingType]] = _BETWEEN_FIELDS

    async def action_submit(self) -> None:
        self.screen.focus_next()


class Lines(TextArea):
    """A text of several lines that ↑ and ↓ leave at its ends, as they leave a field of one line."""

    def action_cursor_up(self, select: bool = False) -> None:
        if not select and self.cursor_at_first_line:
            self.screen.focus_previous()
        else:
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        if not select and self.cursor_at_last_line:
            self.screen.focus_next()
        else:
            super().action_cursor_down(select)


class Row(Vertical):
    """A setting. `value` and `problem` follow what is typed; each change posts Changed."""

    class Changed(Message):
        """What the row holds has changed."""

        def __init__(self, row: Row) -> None:
            super().__init__()
            self.row = row

    def __init__(self, field: Field, value: Value, note: str = "") -> None:
        """note: said after the summary, of a text that may be foreign."""
        super().__init__(id=f"{field.section}-{field.name}")
        self.field = field
        self.value = value
        self.problem: str | None = None
        self._summary = " ".join(part for part in (field.summary, clean(note)) if part)
        self._control = self._made(value)

    @property
    def control(self) -> Widget:
        """What takes the focus."""
        return self._control

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield Static(self.field.title, classes="label", markup=False)
            yield self._control
        yield Static(self._summary, classes="sentence", markup=False)

    def _made(self, value: Value) -> Widget:
        if self.field.kind == "choice":
            return Options(choices_of(self.field), str(value))
        if self.field.kind == "switch":
            return Options(_SWITCH, _SWITCH[bool(value)])
        # What a command line named may hold anything.
        text = "" if value is None else clean(f"{value}")
        if self.field.kind == "lines":
            return Lines(text, compact=True, show_line_numbers=False, highlight_cursor_line=False)
        if isinstance(value, float):
            text = f"{value:.12g}"
        return Line(text, placeholder=self.field.empty, compact=True, select_on_focus=False)

    def on_descendant_focus(self) -> None:
        self.add_class("-here")
        # Textual shows the field; its sentence is to be read too.
        self.call_after_refresh(self.scroll_visible, animate=False)

    def on_descendant_blur(self) -> None:
        self.remove_class("-here")

    @on(Options.Changed)
    @on(Input.Changed)
    @on(TextArea.Changed)
    def _check(self, event: Message) -> None:
        event.stop()
        if isinstance(self._control, Options):
            word = self._control.word
            self._hold(word == "on" if self.field.kind == "switch" else word, None)
            return
        text = self._control.text if isinstance(self._control, TextArea) else ""
        text = self._control.value if isinstance(self._control, Input) else text
        try:
            self._hold(typed(self.field, text), None)
        except ValueError as error:
            otherwise = ", or leave it empty." if self.field.empty else "."
            self._hold(self.value, f"{str(error).capitalize()}{otherwise}")

    def _hold(self, value: Value, problem: str | None) -> None:
        self.value, self.problem = value, problem
        self.set_class(problem is not None, "-problem")
        self.query_one(".sentence", Static).update(Content(problem or self._summary))
        self.post_message(self.Changed(self))
