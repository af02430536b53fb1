"""A list to choose from that is filtered by what is typed above it, or passed by with a path."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Resize
from textual.widget import Widget
from textual.widgets import Footer, Input, OptionList, Static

from app.chat.gate import clean
from app.tui.dialogs.dialogue import Dialogue

Result = TypeVar("Result")


class Picker(Dialogue[Result]):
    """What every picker has. One of them says in `refill` what is in the list."""

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text("utf-8")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "up", show=False),
        Binding("down", "move(1)", "down", show=False),
    ]

    def __init__(self, title: str, placeholder: str) -> None:
        super().__init__()
        self._heading = title
        self._placeholder = placeholder
        self.ready = False

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog") as dialog:
            dialog.border_title = self._heading
            yield Input(placeholder=self._placeholder, select_on_focus=False)
            yield Static(id="empty", markup=False)
            yield OptionList(markup=False)
            yield from self.below()
            yield Static(id="said", markup=False)
            yield Footer(show_command_palette=False)

    def below(self) -> Iterable[Widget]:
        """What stands between the list and the sentence at the foot."""
        return ()

    def refill(self) -> None:
        """Put into the list what matches what was typed."""
        raise NotImplementedError

    def opened(self) -> None:
        self.ready = True
        self.query_one(Input).focus()
        self.refill()

    @property
    def typed(self) -> str:
        """What is typed above the list."""
        return self.query_one(Input).value.strip()

    @property
    def options(self) -> OptionList:
        """The list."""
        return self.query_one(OptionList)

    @property
    def columns(self) -> int:
        """How wide a line of the list may be."""
        return max(40, self.query_one("#dialog").content_region.width - 4)

    def say(self, sentence: str, problem: bool = False) -> None:
        """Show a sentence below the list."""
        said = self.query_one("#said", Static)
        said.set_class(problem, "-problem")
        said.update(sentence)

    def is_listed(self, event: OptionList.OptionSelected) -> bool:
        """Whether what was selected is still there: what is typed may have changed the list meanwhile."""
        place = event.option_index
        return place < self.options.option_count and self.options.get_option_at_index(place) is event.option

    def action_move(self, step: int) -> None:
        """Move through the list while the focus stays in the line."""
        self.options.action_cursor_down() if step > 0 else self.options.action_cursor_up()

    @on(Resize)
    def _resized(self) -> None:
        self.call_after_refresh(self._refill)

    @on(Input.Changed)
    def _refill(self) -> None:
        if self.stands:
            self.refill()


def is_path(typed: str) -> bool:
    """Whether what was typed is a path and not a filter."""
    return typed.endswith(".gguf") or typed.startswith(("~", ".")) or "/" in typed or "\\" in typed


def one_line(text: str) -> str:
    """Anybody's text, for a line of a list."""
    return " ".join(clean(text).split())
