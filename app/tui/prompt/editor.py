"""The prompt's editor: a TextArea whose cursor steps over whole characters, and whose Enter sends.

It calls its host directly. A message would be handled only after the next key, and text that is typed in a
hurry would be lost, or sent with the wrong prompt.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Protocol

from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.widgets import TextArea
from textual.widgets.text_area import Edit, EditResult, Location, Selection

from app.text import clean
from app.tui.cells import end_of, start_of
from app.tui.textual_private import restart_blink

# Keys of TextArea that the app has for something else.
_KEYS_OF_THE_APP = {"f6", "f7", "ctrl+c", "ctrl+z", "pageup", "pagedown"}
# Keys of other editors, and those that terminals send for them.
_MORE_KEYS = (
    ("alt+left,alt+b", "cursor_word_left", ""),
    ("alt+right,alt+f", "cursor_word_right", ""),
    ("ctrl+home", "cursor_text_start", ""),
    ("ctrl+end", "cursor_text_end", ""),
    ("ctrl+shift+a,super+a", "select_all", ""),
    ("shift+backspace", "delete_left", ""),
    ("ctrl+delete,alt+d", "delete_word_right", ""),
    ("alt+z,ctrl+underscore", "undo", ""),
)
_ACTION_OF = {
    binding.key: binding.action
    for binding in Binding.make_bindings([*TextArea.BINDINGS, *_MORE_KEYS])
    if binding.key not in _KEYS_OF_THE_APP
}

# Each breaks the line; some terminals send one, some another.
NEWLINE_KEYS = frozenset({"ctrl+j", "alt+enter", "shift+enter", "shift+\r", "alt+\r"})


class EditorHost(Protocol):
    """What the editor needs of the widget that it is part of."""

    def submit(self) -> None:
        """Enter was pressed."""

    def recall(self, step: Literal[-1, 1]) -> bool:
        """Show an earlier (-1) or later (1) prompt; False where there is none."""

    def list_key(self, key: str) -> bool:
        """Offer a key to an open list of completions; False where it has no use for it."""

    def complete(self) -> bool:
        """Tab was pressed; False where there is nothing to complete."""

    def pasted(self, text: str) -> None:
        """A text, as the terminal gave it, was pasted."""

    def typed(self) -> None:
        """The text was changed by a key or a paste."""

    def step_out(self, remove: bool) -> bool:
        """Left or Backspace at the very start: focus or remove the last attachment; False without one."""

    def replaced(self) -> None:
        """The text was replaced by another one."""

    def update_hints(self) -> None:
        """What is attached was changed."""


class _WholeText(Text):
    """A line whose styles begin and end at whole characters, so that the cursor covers all of one."""

    def stylize(self, style: str | Style, start: int = 0, end: int | None = None) -> None:
        plain = self.plain
        super().stylize(style, start_of(plain, start), None if end is None else end_of(plain, end))


class PromptEditor(TextArea, inherit_bindings=False):
    """A text of a few lines, as tall as it needs to be, up to what its style allows.

    It inherits no bindings: those of TextArea would take keys from the app.
    """

    DEFAULT_CSS = Path(__file__).with_name("editor.tcss").read_text("utf-8")

    def __init__(self, host: EditorHost, placeholder: str) -> None:
        super().__init__(placeholder=placeholder, highlight_cursor_line=False, tab_behavior="focus")
        self._host = host

    def show(self, text: str) -> None:
        """Hold this text instead, with the cursor at its end."""
        self.load_text(text)
        self.move_cursor(self.document.end)

    def type_in(self, text: str) -> None:
        """Put text at the cursor, in place of what is selected."""
        self.replace(text, *self.selection, maintain_selection_offset=False)
        self._host.typed()

    def replace_before_cursor(self, start: int, text: str) -> None:
        """Put text in place of the cursor's line from column `start` to the cursor."""
        row, column = self.cursor_location
        self.selection = Selection((row, start), (row, column))
        self.type_in(text)

    @property
    def reference_sign(self) -> str:
        """An @ as it must be typed at the cursor to begin a reference."""
        row, column = self.cursor_location
        before = self.document[row][:column]
        return " @" if before and not before[-1].isspace() else "@"

    # Keys ---------------------------------------------------------------------------------------

    def check_consume_key(self, key: str, character: str | None = None) -> bool:
        return not key.startswith("alt+") and super().check_consume_key(key, character)

    async def on_key(self, event: events.Key) -> None:
        """Do here whatever edits, in the order of the keys.

        The action of a binding would run after the characters that were typed after its key: an input method
        that sends a Backspace and a letter at once would delete the letter.
        """
        event.prevent_default()
        if await self._take(event):
            event.stop()
            restart_blink(self)

    async def _take(self, event: events.Key) -> bool:
        key = event.key
        if self._host.list_key(key):
            return True
        if key == "enter":
            self._host.submit()
            return True
        if key == "tab":
            return self._host.complete()
        if key in NEWLINE_KEYS:
            self.type_in("\n")
            return True
        if key == "ctrl+end" and self.cursor_at_end_of_text:
            # There is nothing to do here, so the conversation may have it.
            return False
        if key in _ACTION_OF:
            before = self.text
            await self.run_action(_ACTION_OF[key])
            if self.text != before:
                self._host.typed()
            return True
        if event.character is None or not types(event):
            return False
        self.type_in(event.character)
        return True

    async def on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        event.stop()
        self._host.pasted(event.text)

    def action_paste(self) -> None:
        self._host.pasted(self.app.clipboard)

    def undo(self) -> None:
        """Begin a new step: else what follows would join the step before the one that was undone."""
        super().undo()
        self.history.checkpoint()

    # Edges --------------------------------------------------------------------------------------

    def action_cursor_up(self, select: bool = False) -> None:
        at_top = self.navigator.is_first_wrapped_line(self.cursor_location)
        if at_top and not select and self._host.recall(-1):
            return
        super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        at_foot = self.navigator.is_last_wrapped_line(self.cursor_location)
        if at_foot and not select and self._host.recall(1):
            return
        super().action_cursor_down(select)

    def action_cursor_left(self, select: bool = False) -> None:
        if not select and self._at_very_start() and self._host.step_out(remove=False):
            return
        super().action_cursor_left(select)

    def action_delete_left(self) -> None:
        if self._at_very_start() and self._host.step_out(remove=True):
            return
        super().action_delete_left()

    def action_cursor_text_start(self) -> None:
        self.move_cursor((0, 0))

    def action_cursor_text_end(self) -> None:
        self.move_cursor(self.document.end)

    def _at_very_start(self) -> bool:
        return self.selection.is_empty and self.cursor_at_start_of_text

    # Whole characters ---------------------------------------------------------------------------

    def clamp_visitable(self, location: Location) -> Location:
        """Every selection comes through here: the cursor never rests inside a character."""
        row, column = super().clamp_visitable(location)
        return row, start_of(self.document[row], column)

    def get_cursor_right_location(self) -> Location:
        row, column = super().get_cursor_right_location()
        return row, end_of(self.document[row], column)

    def get_cursor_word_right_location(self) -> Location:
        row, column = super().get_cursor_word_right_location()
        return row, end_of(self.document[row], column)

    def edit(self, edit: Edit) -> EditResult:
        """Delete or replace whole characters, never half of one."""
        if edit.from_location != edit.to_location:
            (top_row, top), (bottom_row, bottom) = edit.top, edit.bottom
            edit.from_location = (top_row, start_of(self.document[top_row], top))
            edit.to_location = (bottom_row, end_of(self.document[bottom_row], bottom))
        return super().edit(edit)

    def get_line(self, line_index: int) -> Text:
        return _WholeText(self.document.get_line(line_index), end="", no_wrap=True)

    def find_matching_bracket(self, bracket: str, search_from: Location) -> Location | None:
        """None: prose has few brackets, and the search reads the whole text at every move."""
        return None


def types(event: events.Key) -> bool:
    """Whether the key types: what is printable, and the invisible characters that hold emoji together."""
    character = event.character
    if character is None or event.key.startswith(("alt+", "ctrl+", "super+")):
        return False
    return character.isprintable() or (character not in "\t\n" and bool(clean(character)))
