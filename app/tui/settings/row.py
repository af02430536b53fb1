"""One setting on the screen: a label, a field that is checked as it is typed, and a sentence below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import HorizontalGroup, VerticalGroup
from textual.content import Content
from textual.events import Click
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Input, Static, TextArea

from app.config.fields import Field, Value, choices_of, typed
from app.text import clean

_SWITCH = ("off", "on")
_BETWEEN_FIELDS: list[BindingType] = [
    Binding("down", "app.focus_next", "fields", key_display="↑ ↓"),
    Binding("up", "app.focus_previous", show=False),
]


class InlineChoice(Widget, can_focus=True):
    """A few words on one line; ← and → or the mouse choose one."""

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
        self.set_reactive(InlineChoice.chosen, self.words.index(chosen))

    @property
    def word(self) -> str:
        """The one that is chosen."""
        return self.words[self.chosen]

    def render(self) -> Content:
        focused = "bold $block-cursor-foreground on $accent"
        chosen = focused if self.has_focus else "bold $accent on $panel"
        return Content.assemble(
            *((f" {word} ", chosen if word == self.word else "$muted") for word in self.words)
        )

    def watch_has_focus(self, _focused: bool) -> None:
        super().watch_has_focus(_focused)
        self.refresh()

    def action_choose(self, step: int) -> None:
        """Choose the next or the previous word; after the last comes the first."""
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


class LineField(Input):
    """A text of one line; ↑, ↓ and Enter leave it."""

    BINDINGS: ClassVar[list[BindingType]] = _BETWEEN_FIELDS

    async def action_submit(self) -> None:
        self.screen.focus_next()


class TextField(TextArea):
    """A text of several lines; ↑ leaves it on the first and ↓ on the last."""

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


class SettingRow(VerticalGroup):
    """A setting. `value` and `problem` follow what is typed; each change posts Changed."""

    class Changed(Message):
        """What the row holds has changed."""

        def __init__(self, row: SettingRow) -> None:
            super().__init__()
            self.row = row

    def __init__(self, field: Field, value: Value, note: str = "") -> None:
        """note: said after the summary; may be anybody's text."""
        super().__init__(id=f"{field.section}-{field.name}")
        self.field = field
        self.value = value
        self.problem: str | None = None
        self._summary = " ".join(part for part in (field.summary, clean(note)) if part)
        # What takes the focus.
        self.control = self._made(value)

    def compose(self) -> ComposeResult:
        with HorizontalGroup():
            yield Static(self.field.title, classes="label", markup=False)
            yield self.control
        yield Static(self._summary, classes="sentence", markup=False)

    def _made(self, value: Value) -> Widget:
        if self.field.kind == "choice":
            return InlineChoice(choices_of(self.field), str(value))
        if self.field.kind == "switch":
            return InlineChoice(_SWITCH, _SWITCH[bool(value)])
        # What a command line named may hold anything.
        text = "" if value is None else clean(f"{value}")
        if self.field.kind == "lines":
            return TextField(text, compact=True, show_line_numbers=False, highlight_cursor_line=False)
        if isinstance(value, float):
            text = f"{value:.12g}"
        return LineField(text, placeholder=self.field.empty, compact=True, select_on_focus=False)

    def on_descendant_focus(self) -> None:
        self.add_class("-here")
        # Textual shows the field; its sentence is to be read too.
        self.call_after_refresh(self.scroll_visible, animate=False)

    def on_descendant_blur(self) -> None:
        self.remove_class("-here")

    @on(InlineChoice.Changed)
    @on(Input.Changed)
    @on(TextArea.Changed)
    def _check(self, event: Message) -> None:
        event.stop()
        control, text = self.control, ""
        if isinstance(control, InlineChoice):
            self._hold(control.word == "on" if self.field.kind == "switch" else control.word, None)
            return
        if isinstance(control, Input):
            text = control.value
        elif isinstance(control, TextArea):
            text = control.text
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
