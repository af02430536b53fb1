"""The list of completions above the prompt, shown while something can be completed."""

from __future__ import annotations

from pathlib import Path

from textual.content import Content
from textual.geometry import Offset
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from app.tui.prompt.completion import Completer, Completion, Fragment, fragment_at
from app.tui.prompt.editor import PromptEditor

_MOST_ROWS = 12
_NARROWEST = 16
_GAP = 3


class Popover(OptionList, can_focus=False):
    """Completions of the text before the editor's cursor. The editor keeps the focus."""

    DEFAULT_CSS = Path(__file__).with_name("popover.tcss").read_text("utf-8")

    def __init__(self, editor: PromptEditor) -> None:
        super().__init__(markup=False, compact=True)
        self._editor = editor
        self._completer = Completer()
        self._fragment = Fragment(0, "", "")
        self._completions: list[Completion] = []
        self._rows: list[Content] = []
        self._moved = False

    @property
    def is_open(self) -> bool:
        return bool(self._completions)

    def close(self) -> None:
        self._completions = []
        self.display = False

    def look_up(self, foot: int) -> None:
        """Open, change or close, by the text before the cursor. foot: the screen's row below the list."""
        fragment = self._before_cursor()
        if fragment is None:
            self._completer.forget()
            self.close()
            return
        found = self._completer.completions(fragment)
        if not found or (len(found) == 1 and found[0].exact):
            self.close()
            return
        self._fragment, self._completions, self._moved = fragment, found, False
        labels = max(Content(each.label).cell_length for each in found)
        self._rows = [_line(each, labels) for each in found]
        self.set_options(Option(row) for row in self._rows)
        self._highlight(0)
        self.display = True
        self.place(foot)

    def follow_cursor(self) -> None:
        """Close once the cursor has left what the list completes."""
        fragment = self._before_cursor()
        if fragment is None or fragment.start != self._fragment.start:
            self.close()

    def take_key(self, key: str) -> bool:
        """Esc closes, Up and Down move; False for other keys, and while the list is closed."""
        if not self.is_open or key not in ("escape", "up", "down"):
            return False
        if key == "escape":
            self.close()
        else:
            before = self.highlighted or 0
            self.replace_option_prompt_at_index(before, self._rows[before])
            self._highlight((before + (1 if key == "down" else -1)) % len(self._completions))
            self._moved = True
        return True

    @property
    def takes_enter(self) -> bool:
        """Whether Enter completes: to a line that was moved to, or that continues what was typed.

        Where the text is complete already, or only a sign, Enter sends.
        """
        if not self.is_open:
            return False
        highlighted = self._completions[self.highlighted or 0]
        begun = bool(self._fragment.text) or self._fragment.sign == "/"
        return not highlighted.exact and (self._moved or (highlighted.continues and begun))

    def accept(self, index: int | None = None) -> Completion | None:
        """Type a completion, by default the highlighted one; None while the list is closed."""
        place = index if index is not None else self.highlighted or 0
        # A click may come after the list that it was made on has been replaced.
        if place >= len(self._completions):
            return None
        completion = self._completions[place]
        self._editor.replace_before_cursor(self._fragment.start, completion.insert)
        return completion

    def _before_cursor(self) -> Fragment | None:
        row, column = self._editor.cursor_location
        return fragment_at(row, self._editor.document[row], column)

    def _highlight(self, index: int) -> None:
        # Greys are not legible on the ground of the highlighted line.
        self.replace_option_prompt_at_index(index, Content(self._rows[index].plain))
        self.highlighted = index

    def place(self, foot: int) -> None:
        """Move to above that row of the screen, with the labels over what is completed."""
        if not self.is_open:
            return
        start = (self._editor.cursor_location[0], self._fragment.start)
        column = self._editor.wrapped_document.location_to_offset(start).x
        screen = self.screen.size
        rows = max(1, min(len(self._rows), _MOST_ROWS, foot))
        scrollbar = 1 if len(self._rows) > rows else 0
        wanted = max(row.cell_length for row in self._rows) + scrollbar
        width = max(_NARROWEST, min(wanted, screen.width - 2))
        # A label begins with a space, which stands over the sign.
        left = self._editor.region.x + column - 1
        self.styles.width, self.styles.height = width, rows
        self.absolute_offset = Offset(max(0, min(left, screen.width - width)), max(0, foot - rows))
        self.refresh(layout=True)


def _line(completion: Completion, labels: int) -> Content:
    label = Content(f" {completion.label} ")
    if not completion.detail:
        return label
    return label.pad_right(labels + _GAP + 1 - label.cell_length) + Content.assemble(
        (f"{completion.detail} ", "$muted")
    )
