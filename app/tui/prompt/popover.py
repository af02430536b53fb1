"""The list of completions that stands over the screen, above the prompt, while something can be completed."""

from __future__ import annotations

from pathlib import Path

from textual.content import Content
from textual.geometry import Offset
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from app.tui.prompt.completion import Choice, Completer, Fragment, fragment_at
from app.tui.prompt.editor import PromptEditor

_MOST_ROWS = 12
_NARROWEST = 16
_GAP = 3


class Popover(OptionList, can_focus=False):
    """Choices for what stands before the editor's cursor, one of them chosen. The editor keeps the focus."""

    DEFAULT_CSS = Path(__file__).with_name("popover.tcss").read_text("utf-8")

    def __init__(self, editor: PromptEditor) -> None:
        super().__init__(markup=False, compact=True)
        self._editor = editor
        self._completer = Completer()
        self._fragment: Fragment | None = None
        self._choices: list[Choice] = []
        self._rows: list[Content] = []
        self._moved = False

    @property
    def is_open(self) -> bool:
        return bool(self._choices)

    def close(self) -> None:
        self._choices = []
        self.display = False

    def look_up(self, foot: int) -> None:
        """Open, change or close after the text before the cursor. foot: the screen's row below the list."""
        fragment = self._before_cursor()
        if fragment is None:
            self._completer.forget()
            self.close()
            return
        choices = self._completer.choices(fragment)
        if not choices or (len(choices) == 1 and choices[0].exact):
            self.close()
            return
        self._fragment, self._choices, self._moved = fragment, choices, False
        labels = max(Content(choice.label).cell_length for choice in choices)
        self._rows = [_line(choice, labels) for choice in choices]
        self.set_options(Option(row) for row in self._rows)
        self._choose(0)
        self.display = True
        self.stand(foot)

    def follow_cursor(self) -> None:
        """Close where the cursor has left what the list completes."""
        fragment = self._before_cursor()
        if fragment is None or self._fragment is None or fragment.start != self._fragment.start:
            self.close()

    def take_key(self, key: str) -> bool:
        """Esc closes, Up and Down choose; False for other keys, and where the list is closed."""
        if not self.is_open or key not in ("escape", "up", "down"):
            return False
        if key == "escape":
            self.close()
        else:
            before = self.highlighted or 0
            self.replace_option_prompt_at_index(before, self._rows[before])
            self._choose((before + (1 if key == "down" else -1)) % len(self._choices))
            self._moved = True
        return True

    @property
    def takes_enter(self) -> bool:
        """Whether Enter means the choice: one that was moved to, or that goes on from what was typed.

        What is whole already, and a sign alone, is left to be sent.
        """
        if not self.is_open or self._fragment is None:
            return False
        choice = self._choices[self.highlighted or 0]
        begun = bool(self._fragment.text) or self._fragment.sign == "/"
        return not choice.exact and (self._moved or (choice.follows and begun))

    def accept(self, index: int | None = None) -> Choice | None:
        """Put a choice, the chosen one by default, in the text's place; None where the list is closed."""
        if not self.is_open or self._fragment is None:
            return None
        place = index if index is not None else self.highlighted or 0
        if place >= len(self._choices):
            # Chosen from a list that has been replaced since.
            return None
        choice = self._choices[place]
        self._editor.replace_before_cursor(self._fragment.start, choice.insert)
        return choice

    def _before_cursor(self) -> Fragment | None:
        row, column = self._editor.cursor_location
        return fragment_at(row, self._editor.document[row], column)

    def _choose(self, index: int) -> None:
        # Greys would not be legible on the chosen line's ground.
        self.replace_option_prompt_at_index(index, Content(self._rows[index].plain))
        self.highlighted = index

    def stand(self, foot: int) -> None:
        """Take the place above that row of the screen, over what is completed."""
        if not self.is_open or self._fragment is None:
            return
        start = (self._editor.cursor_location[0], self._fragment.start)
        column = self._editor.wrapped_document.location_to_offset(start).x
        screen = self.screen.size
        rows = max(1, min(len(self._rows), _MOST_ROWS, foot))
        scrollbar = 1 if len(self._rows) > rows else 0
        wanted = max(row.cell_length for row in self._rows) + scrollbar
        width = max(_NARROWEST, min(wanted, screen.width - 2))
        # The labels begin with a space: they stand under one another and over the sign.
        left = self._editor.region.x + column - 1
        self.styles.width, self.styles.height = width, rows
        self.absolute_offset = Offset(max(0, min(left, screen.width - width)), max(0, foot - rows))
        self.refresh(layout=True)


def _line(choice: Choice, labels: int) -> Content:
    if not choice.detail:
        return Content(f" {choice.label} ")
    gap = " " * (labels - Content(choice.label).cell_length + _GAP)
    return Content.assemble(f" {choice.label}{gap}", (f"{choice.detail} ", "$muted"))
