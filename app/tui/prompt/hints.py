"""The line that says what the keys do now."""

from __future__ import annotations

from typing import Literal

from textual.widgets import Static

from app.tui.prompt.attachments import Chip
from app.tui.prompt.draft import put

_HINT = "Enter sends · Ctrl+J new line · / commands"
_SHORT_HINT = "Enter sends · / commands"
_BUSY_HINT = "Esc stops the {}"
_CHIP_HINT = "Enter opens · Del removes · Esc goes back"
_LIST_HINT = "Tab completes · ↑↓ choose · Esc closes"
_WAITING_HINT = "Esc puts waiting messages back here"

# What Esc can stop.
Making = Literal["reply", "comparison"]


class Hints(Static):
    """One line. leaving: a question that comes before all hints, "" for none."""

    def __init__(self) -> None:
        super().__init__(_HINT, id="prompt-hint", markup=False)
        self.leaving = ""

    def show(self, making: Making | None, *, choosing: bool, waiting: bool) -> None:
        """making: what is being made. choosing: completions are listed. waiting: messages are queued."""
        if self.leaving:
            hint = self.leaving
        elif isinstance(self.app.focused, Chip):
            hint = _CHIP_HINT
        elif choosing:
            hint = _LIST_HINT
        elif waiting:
            hint = _WAITING_HINT
        elif making is not None:
            hint = _BUSY_HINT.format(making)
        else:
            hint = _HINT if self.app.size.width >= 60 else _SHORT_HINT
        put(self, hint)
