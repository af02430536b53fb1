"""A list to choose from, below a line that filters it or takes a path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.visual import VisualType
from textual.widget import Widget
from textual.widgets import Footer, Input, OptionList, Static
from textual.widgets.option_list import Option

from app.tui.dialogs.dialogue import Dialogue, Result
from app.tui.dialogs.option_list import PagedList

Item = TypeVar("Item")


class Picker(Dialogue[Result], Generic[Item, Result]):
    """A subclass calls `fill` in `refill`, and says in `choose` what Enter or a click does to an item."""

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text("utf-8")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move('cursor_up')", show=False),
        Binding("down", "move('cursor_down')", show=False),
        Binding("pageup", "move('page_up')", show=False),
        Binding("pagedown", "move('page_down')", show=False),
        Binding("escape", "leave", "close"),
    ]

    def __init__(
        self,
        title: str,
        placeholder: str,
        line: type[Input] = Input,
        options: type[PagedList] = PagedList,
    ) -> None:
        super().__init__()
        self._heading = title
        self.input = line(placeholder=placeholder, select_on_focus=False)
        self.options = options(markup=False)
        self.items: tuple[Item | None, ...] = ()

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog") as dialog:
            dialog.border_title = self._heading
            yield self.input
            yield Static(id="empty", markup=False)
            yield from self.body()
            yield Static(id="said", markup=False)
            yield Footer(show_command_palette=False)

    def body(self) -> Iterable[Widget]:
        """What stands between the line and the sentence at the bottom."""
        yield self.options

    def refill(self) -> None:
        """Fill the list with what matches what was typed."""
        raise NotImplementedError

    def choose(self, item: Item) -> None:
        """Enter was pressed on this, or it was clicked."""
        raise NotImplementedError

    def opened(self) -> None:
        self.input.focus()
        self.refill()

    @property
    def typed(self) -> str:
        """What is typed above the list."""
        return self.input.value.strip()

    @property
    def highlighted(self) -> Item | None:
        """What is chosen by Enter."""
        at = self.options.highlighted
        return self.items[at] if at is not None and at < len(self.items) else None

    def fill(
        self, lines: Sequence[tuple[Item | None, VisualType]], wanted: Sequence[Item], empty: str
    ) -> None:
        """Put these into the list and highlight the first that is wanted.

        lines: each with its item, None for a heading. empty: shown in place of no lines.
        """
        self.items = tuple(item for item, _ in lines)
        self.options.clear_options()
        self.options.add_options(Option(drawn, disabled=item is None) for item, drawn in lines)
        listed = [item for item in self.items if item is not None]
        first = next((item for item in wanted if item in listed), listed[0] if listed else None)
        self.options.highlighted = None if first is None else self.items.index(first)
        self.query_one("#empty", Static).update(empty)
        self.options.display, self.query_one("#empty").display = bool(lines), not lines
        self.refresh_bindings()

    def action_choose(self) -> None:
        """Choose what is highlighted."""
        if (item := self.highlighted) is not None:
            self.choose(item)

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        place = event.option_index
        # What is typed may have changed the list meanwhile.
        if place < self.options.option_count and self.options.get_option_at_index(place) is event.option:
            self.action_choose()

    def action_move(self, how: str) -> None:
        """Move through the list while the focus stays in the line."""
        getattr(self.options, f"action_{how}")()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        if event.input is self.input:
            self.refresh_list()

    def refresh_list(self) -> None:
        """Fill the list again, if it is there."""
        if self.stands and self.options.is_mounted:
            self.refill()


def is_path(typed: str) -> bool:
    """Whether what was typed is a path and not a filter."""
    return typed.endswith(".gguf") or typed.startswith(("~", ".")) or "/" in typed or "\\" in typed
