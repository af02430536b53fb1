"""Giving actions other keys: the list of them, and the dialogue that waits for a key."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.events import Key
from textual.message import Message
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from app.tui.actions import ACTIONS, BY_NAME, Action
from app.tui.dialogs.dialogue import Dialogue
from app.tui.dialogs.option_list import PagedList
from app.tui.keys import check_keys, key_problem, keys_in_force, shown_key, shown_keys

_KEYS_WIDTH = 16


class KeyWanted(Dialogue[str | None], inherit_bindings=False):
    """Waits for the next key, whatever it does elsewhere; Esc leaves everything as it is."""

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text("utf-8")

    def __init__(self, action: Action) -> None:
        super().__init__()
        self._action = action

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog") as dialog:
            dialog.border_title = "New key"
            yield Static(self._action.summary, markup=False)
            yield Static("Press the new key. Esc keeps the old one.", classes="hint")

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """True: Textual would ask the app's bindings first, and F5 would compare instead of being taken."""
        return True

    def on_key(self, event: Key) -> None:
        event.stop()
        event.prevent_default()
        self.dismiss(None if event.key == "escape" else event.key)


class KeyList(PagedList):
    """Every action with its keys. Enter asks for another key, Delete goes back to the default."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select", "new key"),
        Binding("delete,backspace", "reset", "default key"),
    ]

    class Changed(Message):
        """The list has other `overrides`, or could not. said: what was done, or why it was not."""

        def __init__(self, said: str, problem: bool) -> None:
            super().__init__()
            self.said = said
            self.problem = problem

    def __init__(self, overrides: Mapping[str, str]) -> None:
        self.overrides = dict(overrides)
        super().__init__(*(Option(self._prompt(action), id=action.name) for action in ACTIONS))

    def _prompt(self, action: Action) -> Content:
        keys = shown_keys(keys_in_force(self.overrides)[action.name])
        changed = action.name in self.overrides
        return Content.assemble(
            (f"{keys:<{_KEYS_WIDTH}} ", "$accent bold" if changed else "$accent"), action.summary
        )

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Ask for the key."""
        event.stop()
        action = ACTIONS[event.option_index]

        def pressed(key: str | None) -> None:
            if key is not None:
                self._change(action, key, f"{shown_key(key)}: {action.summary}", self._taken(action, key))

        self.app.push_screen(KeyWanted(action), pressed)

    def action_cursor_up(self) -> None:
        """Up; from the first one out of the list."""
        if self.highlighted:
            super().action_cursor_up()
        else:
            self.screen.focus_previous()

    def action_reset(self) -> None:
        """Give the highlighted action its default keys again."""
        if self.highlighted is not None:
            action = ACTIONS[self.highlighted]
            shown = shown_keys(keys_in_force({})[action.name])
            self._change(action, action.keys, f"{shown}, as by default: {action.summary}")

    def _taken(self, action: Action, key: str) -> str | None:
        """Why the key cannot be given to this action; None where it can."""
        for name, keys in keys_in_force(self.overrides).items():
            if key in keys and name != action.name:
                return f"{shown_key(key)} is taken: “{BY_NAME[name].summary}”. Give that another key first."
        return key_problem(key)

    def _change(self, action: Action, keys: str, said: str, problem: str | None = None) -> None:
        overrides = {name: given for name, given in self.overrides.items() if name != action.name}
        if keys != action.keys:
            overrides[action.name] = keys
        problem = problem or check_keys(overrides)
        if problem is None:
            self.overrides = overrides
            self.replace_option_prompt(action.name, self._prompt(action))
        self.post_message(self.Changed(problem or said, problem is not None))
