"""The draft picker: which files could draft, why others cannot, and a path typed by hand."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from app.chat.gate import clean
from app.process.events import Candidate
from app.tui.dialogs.picker import Picker, is_path, one_line
from app.tui.dialogs.text import wrap

_LOOKING = "looking for drafts …"
_EMPTY = (
    "A draft is a small model of the same family that guesses ahead; the loaded model checks every guess, "
    "so the text stays its own.\n\nDrafts are looked for beside the model's file and in the draft folders of "
    "the settings: put a .gguf there, or type its path above."
)


@dataclass(frozen=True, slots=True)
class DraftChoice:
    """What to do: load the draft of this path, or unload the one that is loaded (None)."""

    draft: str | None


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the list. draft: as in DraftChoice. problem: why it cannot be taken. None: not known."""

    draft: str | None
    label: str
    bytes: int | None
    problem: str | None
    loaded: bool = False


class DraftScreen(Picker[DraftChoice | None]):
    """Opens before the files are known; `show` fills it. What is typed filters, or is a path."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "load", priority=True),
        Binding("u", "unload", "unload"),
        Binding("escape", "leave", "close"),
    ]

    def __init__(self) -> None:
        super().__init__("Draft model", "filter, or the path of a .gguf file")
        self._candidates: tuple[Candidate, ...] | None = None
        self._empty = _LOOKING
        self._entries: tuple[Entry, ...] = ()

    def show(self, candidates: Sequence[Candidate]) -> None:
        """These are the files, in the order in which they are to stand."""
        self._candidates, self._empty = tuple(candidates), _EMPTY
        self._refilled()

    def fail(self, sentence: str) -> None:
        """There is no list: say why."""
        self._candidates, self._empty = (), clean(sentence)
        self._refilled()

    def _refilled(self) -> None:
        if self.ready:
            self.refill()
            self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """`u` is a letter while something is typed, and of no use while no draft is loaded."""
        if action == "unload":
            return self._loaded is not None and isinstance(self.focused, OptionList)
        return True

    @property
    def _loaded(self) -> Candidate | None:
        return next((each for each in self._candidates or () if each.loaded), None)

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if self.is_listed(event):
            self._take(self._entries[event.option_index])

    def action_take(self) -> None:
        """Load what is highlighted, or say why it cannot be."""
        highlighted = self.options.highlighted
        if highlighted is not None:
            self._take(self._entries[highlighted])

    def action_unload(self) -> None:
        """Unload the draft that is loaded."""
        self.dismiss(DraftChoice(None))

    def action_leave(self) -> None:
        """Change nothing."""
        self.dismiss(None)

    def _take(self, entry: Entry) -> None:
        if entry.loaded:
            self.say(f"{entry.label} is loaded already.")
        elif entry.problem:
            self.say(f"{entry.label} cannot draft: {entry.problem}", problem=True)
        else:
            self.dismiss(DraftChoice(entry.draft))

    def refill(self) -> None:
        self._entries = entries(self._candidates or (), self.typed)
        options, empty = self.options, self.query_one("#empty", Static)
        options.clear_options()
        options.add_options(Option(_prompt(entry, self.columns)) for entry in self._entries)
        options.display, empty.display = bool(self._entries), not self._entries
        if self._entries:
            takeable = (
                each.draft is not None and not each.problem and not each.loaded for each in self._entries
            )
            options.highlighted = next((at for at, can in enumerate(takeable) if can), 0)
        else:
            empty.update("Nothing matches: a path ends with .gguf." if self._candidates else self._empty)
        self.say("")


def entries(candidates: Sequence[Candidate], typed: str) -> tuple[Entry, ...]:
    """The lines of the list for what was typed: unloading first, then the files that match, or the path."""
    if is_path(typed):
        path = os.path.abspath(os.path.expanduser(typed))
        problem = None if os.path.isfile(path) else "there is no such file."
        return (Entry(path, clean(typed), None, problem),)
    words = typed.casefold().split()
    listed = [
        Entry(
            each.path, one_line(each.name), each.bytes, each.problem and one_line(each.problem), each.loaded
        )
        for each in candidates
        if all(word in each.name.casefold() for word in words)
    ]
    loaded = any(each.loaded for each in candidates) and not words
    return (
        *([Entry(None, "no draft: unload the one that is loaded", None, None)] if loaded else []),
        *listed,
    )


def _prompt(entry: Entry, columns: int) -> Content:
    """Mark, name, size and state in one line; why it does not fit below it."""
    quiet = "$muted not bold"
    if entry.draft is None:
        return Content.assemble("  ", entry.label)
    state = "loaded" if entry.loaded else "does not fit" if entry.problem else "fits"
    size, state = ("", "") if entry.bytes is None else (_size(entry.bytes), state)
    room = columns - 2 - 10 - 15
    long = cell_len(entry.label) > room
    name = set_cell_size(entry.label, room - 1) + "…" if long else set_cell_size(entry.label, room)
    mark = ("● ", "$accent") if entry.loaded else "  "
    look = quiet if entry.problem else ""
    first = Content.assemble(mark, (name, look), (size.rjust(10), quiet), (f"   {state}", quiet))
    below = wrap(entry.problem, columns - 4) if entry.problem and not entry.loaded else ()
    return Content("\n").join([first, *(Content.styled(f"    {line}", quiet) for line in below)])


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
