"""A question with a few answers, and what else there is to know folded away below it."""

from __future__ import annotations

from collections.abc import Sequence
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
from textual.widgets.option_list import Option

from app.chat.gate import clean
from app.tui.dialogs.dialogue import Dialogue
from app.tui.dialogs.text import PlainText, wrap

# Columns of a description, so that its lines stand under its label.
_DESCRIPTION = 58


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer. key: what the screen returns for it; description: what it does, "" where it is plain."""

    key: str
    label: str
    description: str = ""


class ChoiceScreen(Dialogue[str | None]):
    """Returns the key of the choice that was taken, None for Esc. The first choice is highlighted.

    None of the texts is markup. details: plain text of any length, shown on demand.
    """

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text("utf-8")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "choose", priority=True),
        Binding("d", "details", "details"),
        Binding("escape", "leave", "cancel"),
    ]

    def __init__(self, question: str, choices: Sequence[Choice], details: str = "", title: str = "") -> None:
        super().__init__()
        self._question = clean(question)
        self._choices = tuple(choices)
        self._details = details
        self.title = " ".join(clean(title).split())

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="dialog", can_focus=False) as dialog:
            dialog.border_title = Content(self.title) if self.title else None
            yield Static(self._question, id="question", markup=False)
            yield OptionList(
                *(Option(_prompt(number, each)) for number, each in enumerate(self._choices, start=1)),
                markup=False,
            )
            if self._details.strip():
                yield Static("▸ details", id="fold", markup=False)
                yield PlainText(self._details, id="details")
            yield Footer(show_command_palette=False)

    def opened(self) -> None:
        self.query_one(OptionList).highlighted = 0

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """No key for details where there are none."""
        return action != "details" or bool(self._details.strip())

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(self._choices[event.option_index].key)

    @on(Click, "#fold")
    def _fold_clicked(self) -> None:
        self.action_details()

    def on_key(self, event: Key) -> None:
        """A digit takes the choice of that number."""
        if event.character and event.character.isdecimal() and 0 < int(event.character) <= len(self._choices):
            event.stop()
            self.dismiss(self._choices[int(event.character) - 1].key)

    def action_take(self) -> None:
        """Take the highlighted choice, wherever the focus is."""
        self.query_one(OptionList).action_select()

    def action_details(self) -> None:
        """Unfold the details and go there, or fold them."""
        details = self.query_one("#details", PlainText)
        details.display = not details.display
        self.query_one("#fold", Static).update(f"{'▾' if details.display else '▸'} details")
        if details.display:
            self.call_after_refresh(details.scroll_end, animate=False)
            details.focus()
        else:
            self.query_one(OptionList).focus()

    def action_leave(self) -> None:
        """Choose nothing."""
        self.dismiss(None)


def _prompt(number: int, choice: Choice) -> Content:
    digit = str(number) if number < 10 else " "
    lines = [Content.assemble((f"{digit}  ", "$muted not bold"), clean(choice.label))]
    for line in wrap(clean(choice.description), _DESCRIPTION) if choice.description else ():
        lines.append(Content.styled(f"   {line}", "$muted not bold"))
    return Content("\n").join(lines)
