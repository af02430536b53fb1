"""The settings dialogue: sections side by side, each field checked as it is typed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Footer, Static

from app.config.fields import FIELDS, Field, get, put
from app.config.values import Settings
from app.process.events import ProposerOption
from app.tui.dialogs.dialogue import Dialogue
from app.tui.settings.remap import KeyList
from app.tui.settings.row import InlineChoice, SettingRow

# What is not here (template, folders of drafts, mmap) is rare enough to be left to the file.
_SECTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "Sampling": (("sampling",), ""),
    "Chat": (("chat",), "For new chats and the next message of this one."),
    "Model": (("model",), "These take effect when the model is loaded again."),
    "Speculation": (("speculation",), ""),
    "Look": (("look",), ""),
    "Keys": ((), "Enter, then the new key. Delete goes back to the default."),
}
_FILE_ONLY = ("template", "rpc", "draft_folders", "mmap")


class SettingsScreen(Dialogue[Settings | None]):
    """Ctrl+S gives the settings as they are on the screen, Esc None; it asks first if something changed.

    preview: shows a theme, by its name in the settings, at once. options: the proposers as the engine offers
    them, to say why one cannot be used.
    """

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text("utf-8")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", "save", priority=True),
        Binding("escape", "leave", "close"),
    ]

    def __init__(
        self, settings: Settings, preview: Callable[[str], None], options: Sequence[ProposerOption] = ()
    ) -> None:
        super().__init__()
        self._before = self._settings = settings
        self._preview = preview
        self._options = options
        self._sure = False

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog") as dialog:
            dialog.border_title = "Settings"
            yield InlineChoice(tuple(_SECTIONS), "Sampling")
            with ContentSwitcher(initial="Sampling"):
                for title, (sections, note) in _SECTIONS.items():
                    yield VerticalScroll(*self._contents(sections, note), id=title, can_focus=False)
            yield Static(id="said", markup=False)
            yield Footer(show_command_palette=False)

    def _contents(self, sections: Sequence[str], note: str) -> Iterable[Widget]:
        if note:
            yield Static(note, classes="note", markup=False)
        for field in FIELDS:
            if field.section in sections and field.name not in _FILE_ONLY:
                yield SettingRow(field, get(self._settings, field), self._note(field))
        if not sections:
            yield KeyList(self._settings.keys)

    def _note(self, field: Field) -> str:
        if field.name != "proposer":
            return ""
        return " ".join(
            f"{each.name} cannot be used: {each.problem}" for each in self._options if each.problem
        )

    def opened(self) -> None:
        self.query_one("#dialog > InlineChoice").focus()

    @property
    def problem(self) -> SettingRow | None:
        """The first row that holds what cannot be saved."""
        return next((row for row in self.query(SettingRow) if row.problem), None)

    @on(InlineChoice.Changed)
    def _section(self) -> None:
        self.query_one(ContentSwitcher).current = self.query_one("#dialog > InlineChoice", InlineChoice).word

    @on(SettingRow.Changed)
    def _changed(self, event: SettingRow.Changed) -> None:
        row = event.row
        if row.problem is None:
            self._settings = put(self._settings, row.field, row.value)
            if row.field.name == "theme":
                self._preview(str(row.value))
        self.say("")

    @on(KeyList.Changed)
    def _keys(self, event: KeyList.Changed) -> None:
        self._settings = replace(self._settings, keys=dict(self.query_one(KeyList).overrides))
        self.say(event.said, event.problem)

    def action_save(self) -> None:
        """Give the settings, or go to what is wrong with them."""
        row = self.problem
        if row is None:
            self.dismiss(self._settings)
            return
        title = next(name for name, (sections, _) in _SECTIONS.items() if row.field.section in sections)
        self.query_one("#dialog > InlineChoice", InlineChoice).chosen = list(_SECTIONS).index(title)
        self.query_one(ContentSwitcher).current = title
        row.control.focus()
        self.say(f"Not saved: fix {row.field.title} first.", problem=True)

    def action_leave(self) -> None:
        """Close; the second time, where something has changed."""
        if not self._sure and (self._settings != self._before or self.problem):
            self.say("Not saved: Ctrl+S saves the changes, Esc again drops them.", problem=True)
            self._sure = True
            return
        if self._settings.look.theme != self._before.look.theme:
            self._preview(self._before.look.theme)
        self.dismiss(None)

    def say(self, sentence: str, problem: bool = False) -> None:
        self._sure = False
        super().say(sentence, problem)
