"""A question with a few answers, and what else there is to know folded away below it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Click, Key
from textual.widgets import Footer, OptionList, Static

from app.text import clean, one_line
from app.tui.dialogs.dialogue import Dialogue
from app.tui.dialogs.lines import QUIET
from app.tui.dialogs.option_list import PagedList

# Columns of a description, so that its lines stand under its label.
_DESCRIPTION = 58


@dataclass(frozen=True, slots=True)
class Alternative:
    """One answer. description: what it leads to, "" where the label says so. act: what it does, for whoever
    asked."""

    label: str
    description: str = ""
    act: Callable[[], object] = lambda: None


class ChoiceScreen(Dialogue[Alternative | None]):
    """Returns the alternative that was taken, None for Esc. The first is highlighted.

    None of the texts is markup. details: plain text of any length, shown on demand.
    """

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text("utf-8")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "choose", priority=True),
        Binding("d", "details", "details"),
        Binding("escape", "leave", "cancel"),
    ]

    def __init__(
        self, question: str, alternatives: Sequence[Alternative], details: str = "", title: str = ""
    ) -> None:
        super().__init__()
        self._question = clean(question)
        self._alternatives = tuple(alternatives)
        self._details = clean(details).strip()
        self.title = one_line(title)

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="dialog", can_focus=False) as dialog:
            dialog.border_title = Content(self.title) if self.title else None
            yield Static(self._question, id="question", markup=False)
            yield PagedList(*(_prompt(at, each) for at, each in enumerate(self._alternatives, start=1)))
            if self._details:
                yield Static("▸ details", id="fold", markup=False)
                with VerticalScroll(id="details"):
                    yield Static(self._details, markup=False)
            yield Footer(show_command_palette=False)

    def opened(self) -> None:
        self.query_one(OptionList).highlighted = 0

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """No key for details where there are none."""
        return action != "details" or bool(self._details)

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(self._alternatives[event.option_index])

    def on_key(self, event: Key) -> None:
        """A digit takes the alternative of that number."""
        digit = int(event.character) if event.character and event.character.isdecimal() else 0
        if 0 < digit <= len(self._alternatives):
            event.stop()
            self.dismiss(self._alternatives[digit - 1])

    def action_take(self) -> None:
        """Take the highlighted alternative, wherever the focus is."""
        self.query_one(OptionList).action_select()

    @on(Click, "#fold")
    def action_details(self) -> None:
        """Unfold the details and go there, or fold them."""
        details = self.query_one("#details")
        details.display = not details.display
        self.query_one("#fold", Static).update(f"{'▾' if details.display else '▸'} details")
        if details.display:
            self.call_after_refresh(details.scroll_end, animate=False)
            details.focus()
        else:
            self.query_one(OptionList).focus()


def _prompt(number: int, alternative: Alternative) -> Content:
    digit = str(number) if number < 10 else " "
    lines = [Content.assemble((f"{digit}  ", QUIET), clean(alternative.label))]
    for line in Content(clean(alternative.description)).wrap(_DESCRIPTION):
        lines += [Content.assemble("   ", line).stylize(QUIET)] if line.plain else []
    return Content("\n").join(lines)
