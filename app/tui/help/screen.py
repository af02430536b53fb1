"""The help: how to begin, and every key and command as they are now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Grid, Vertical, VerticalScroll
from textual.widgets import Footer, Static

from app.tui.actions import Action
from app.tui.dialogs.dialogue import Dialogue
from app.tui.keys import grouped, keys_in_force, shown_key

_BEGIN = (
    ("type", "a question; Enter sends it, Ctrl+J begins a new line"),
    ("paste", "a document of any length; the model reads all of it"),
    ("@file", "anywhere in the text attaches that file"),
    ("/", "at the beginning lists the commands"),
    ("↑ ↓", "earlier messages; in an empty chat, questions to begin with"),
)


class HelpScreen(Dialogue[None]):
    """Actions by group, each with its keys and its slash command. Esc and F1 close it."""

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text("utf-8")
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (124, "-wide")]  # noqa: RUF012 - declared by Textual
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "close"),
        Binding("f1", "dismiss", show=False),
    ]

    def __init__(self, overrides: Mapping[str, str]) -> None:
        """overrides: the keys of the settings."""
        super().__init__()
        self._groups = grouped()
        self._keys = keys_in_force(overrides)

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="dialog") as dialog:
            dialog.border_title = "Help"
            yield Grid(*_begin(), id="begin")
            with Container(id="columns"):
                yield from (Vertical(*column) for column in self._columns())
            yield Footer(show_command_palette=False)

    def opened(self) -> None:
        self.query_one("#dialog").focus()

    def _columns(self) -> Iterable[Iterable[Static | Grid]]:
        """Two columns of whole groups, as equal in length as that allows."""
        total = sum(len(members) + 2 for members in self._groups.values())
        columns: tuple[list[Static | Grid], list[Static | Grid]] = ([], [])
        length = 0
        for group, members in self._groups.items():
            column = columns[0 if length + len(members) / 2 < total / 2 else 1]
            column += [
                Static(group, classes="group", markup=False),
                Grid(*self._cells(members), classes="keys"),
            ]
            length += len(members) + 2
        return columns

    def _cells(self, actions: Iterable[Action]) -> Iterable[Static]:
        for action in actions:
            keys = "\n".join(shown_key(key) for key in self._keys[action.name])
            yield Static(keys, classes="key", markup=False)
            yield Static(action.usage, classes="slash", markup=False)
            yield Static(action.summary, markup=False)


def _begin() -> Iterable[Static]:
    for word, meaning in _BEGIN:
        yield Static(word, classes="key", markup=False)
        yield Static(meaning, markup=False)
