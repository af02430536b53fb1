"""The draft picker: which files could draft, why others cannot, and a path typed by hand."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList

from app.models.pull import readable
from app.process.events import Candidate, Drafts, Event, Failed
from app.text import one_line
from app.tui.dialogs.dialogue import Awaited
from app.tui.dialogs.lines import QUIET, LazyLines, fit
from app.tui.dialogs.picker import Picker, is_path

_EMPTY = (
    "A draft is a small model of the same family that guesses ahead. The loaded model checks every guess, "
    "so the text stays its own.\n\nDrafts are looked for beside the model's file and in the draft folders of "
    "the settings: put a .gguf there, or type its path above."
)
# In the list before all drafts; it has no path.
UNLOAD = Candidate("", "no draft: unload the one that is loaded", 0, None, False)
_SIZE, _STATE = 10, 15


@dataclass(frozen=True, slots=True)
class DraftChoice:
    """What to do: load the draft of this path, or unload the one that is loaded (None)."""

    draft: str | None


class DraftScreen(Picker[Candidate, DraftChoice | None]):
    """Opens before the files are known; `take` brings them. What is typed filters, or is a path."""

    AWAITS: ClassVar[Awaited | None] = "drafts"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "load", priority=True),
        Binding("u", "unload", "unload"),
    ]

    def __init__(self) -> None:
        super().__init__("Draft model", "filter, or the path of a .gguf file")
        self._candidates: tuple[Candidate, ...] = ()
        self._empty = "looking for drafts …"

    def take(self, event: Event) -> None:
        """The files, in their order in the list, or why there are none."""
        if isinstance(event, Drafts):
            self._candidates, self._empty = event.candidates, _EMPTY
        elif isinstance(event, Failed):
            self._empty = one_line(event.message)
        self.refresh_list()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """`u` is a letter while something is typed, and of no use while no draft is loaded."""
        if action == "unload":
            return isinstance(self.focused, OptionList) and any(each.loaded for each in self._candidates)
        return True

    def action_unload(self) -> None:
        """Unload the draft that is loaded."""
        self.choose(UNLOAD)

    def choose(self, item: Candidate) -> None:
        if item.loaded:
            self.say(f"{item.name} is loaded already.")
        elif item.problem:
            self.say(f"{item.name} cannot draft: {item.problem}", problem=True)
        else:
            self.dismiss(DraftChoice(item.path or None))

    def refill(self) -> None:
        listed = candidates_for(self._candidates, self.typed)
        usable = [each for each in listed if each.path and not each.problem and not each.loaded]
        lines = [(each, LazyLines(partial(_line, each))) for each in listed]
        nothing = "Nothing matches. A path ends with .gguf." if self._candidates else self._empty
        self.fill(lines, usable[:1], nothing)
        self.say("")


def candidates_for(candidates: Sequence[Candidate], typed: str) -> tuple[Candidate, ...]:
    """What to list for what was typed: unloading and all, the files that match, or the path typed."""
    if is_path(typed):
        path = os.path.abspath(os.path.expanduser(typed))
        problem = None if os.path.isfile(path) else "there is no such file."
        return (Candidate(path, typed, 0, problem, False),)
    words = typed.casefold().split()
    loaded = not words and any(each.loaded for each in candidates)
    matching = [each for each in candidates if all(word in each.name.casefold() for word in words)]
    return (*([UNLOAD] if loaded else []), *matching)


def _line(candidate: Candidate, columns: int) -> Content:
    """Mark, name, size and state in one line; the reason why it does not fit below it."""
    if not candidate.path:
        return Content(f"  {candidate.name}")
    state = "loaded" if candidate.loaded else "does not fit" if candidate.problem else "fits"
    size, state = (readable(candidate.bytes), state) if candidate.bytes else ("", "")
    first = Content.assemble(
        ("● " if candidate.loaded else "  ", "$accent"),
        (fit(one_line(candidate.name), columns - 2 - _SIZE - _STATE), QUIET if candidate.problem else ""),
        (f"{size.rjust(_SIZE)}   {state}", QUIET),
    )
    reason = "" if candidate.loaded else one_line(candidate.problem or "")
    below = Content(reason).wrap(columns - 4) if reason else []
    return Content("\n").join([first, *(Content.assemble("    ", each).stylize(QUIET) for each in below)])
