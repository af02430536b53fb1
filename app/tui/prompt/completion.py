"""What Tab can complete: slash commands, and files after @ or /file. Nothing here knows the screen."""

from __future__ import annotations

import itertools
import os
import re
import time
from dataclasses import dataclass
from typing import NamedTuple

from app.chat.gate import clean
from app.tui.prompt.commands import COMMANDS
from app.tui.prompt.references import SIGN, expanded

MOST_CHOICES = 40
# A folder of any size, on a disk of any speed, must not hold up the keys.
_MOST_ENTRIES = 50_000
_LONGEST_SECONDS = 0.15

_COMMAND = re.compile(r"/([\w-]*)")
_CHOICE_COMMAND = re.compile(r"/(?P<word>[\w-]+)\s+(?P<choice>\w*)")
_FILE_COMMAND = re.compile(r"/file\s+(.*)")
_OPEN_REFERENCE = re.compile(SIGN + r'(?:"(?P<quoted>[^"]*)|(?P<plain>[^\s"]*))$')


@dataclass(frozen=True, slots=True)
class Fragment:
    """What is being typed before the cursor. start: the column from which a choice replaces it.

    text: without its sign. sign: "/" for a command, "@" for a file, "" for what follows a command, whose
    word is `command`.
    """

    start: int
    text: str
    sign: str
    quoted: bool = False
    command: str = "file"


@dataclass(frozen=True, slots=True)
class Choice:
    """One completion. insert: what takes the fragment's place. follows: it goes on from what was typed.
    exact: it is what was typed."""

    label: str
    detail: str
    insert: str
    follows: bool
    exact: bool


class _Entry(NamedTuple):
    """In the order in which entries are shown."""

    is_file: bool
    folded: str
    name: str

    @property
    def is_folder(self) -> bool:
        return not self.is_file


def fragment_at(row: int, line: str, column: int) -> Fragment | None:
    """What could be completed with the cursor there; None where nothing can."""
    before = line[:column]
    if row == 0:
        if command := _COMMAND.fullmatch(before):
            return Fragment(0, command[1], "/")
        if file := _FILE_COMMAND.fullmatch(before):
            return Fragment(file.start(1), file[1], "")
        if (call := _CHOICE_COMMAND.fullmatch(before)) and call["word"] in COMMANDS:
            return Fragment(call.start("choice"), call["choice"], "", command=call["word"])
    if reference := _OPEN_REFERENCE.search(before):
        quoted = reference["quoted"] is not None
        return Fragment(reference.start(), reference["quoted" if quoted else "plain"], "@", quoted)
    return None


class Completer:
    """Finds completions. A folder is read once, until `forget`: each key is then quick in a large one."""

    def __init__(self) -> None:
        self._listings: dict[str, list[_Entry]] = {}

    def choices(self, fragment: Fragment) -> list[Choice]:
        """The completions, likeliest first: what goes on from what was typed, folders, and by name."""
        if fragment.sign == "/":
            return _command_choices(fragment.text)
        if fragment.sign or fragment.command == "file":
            return self._file_choices(fragment)
        words, typed = COMMANDS[fragment.command].choices, fragment.text
        return [Choice(word, "", word, True, word == typed) for word in words if word.startswith(typed)]

    def forget(self) -> None:
        """Folders may have changed."""
        self._listings.clear()

    def _file_choices(self, fragment: Fragment) -> list[Choice]:
        text = "~/" if fragment.text == "~" else fragment.text
        cut = max(text.rfind("/"), text.rfind(os.sep)) + 1
        folder, name = text[:cut], text[cut:]
        where = expanded(folder) or "."
        if where not in self._listings:
            self._listings[where] = _listing(where)
        wanted, hidden = name.casefold(), name.startswith(".")
        seen = [entry for entry in self._listings[where] if entry.name.startswith(".") == hidden]
        ahead = (entry for entry in seen if entry.folded.startswith(wanted))
        within = (
            entry for entry in seen if wanted in entry.folded[1:] and not entry.folded.startswith(wanted)
        )
        return [
            _file_choice(fragment, folder, entry, name)
            for entry in itertools.islice(itertools.chain(ahead, within), MOST_CHOICES)
        ]


def _command_choices(typed: str) -> list[Choice]:
    return [
        Choice(action.usage, action.summary, f"/{word} ", True, word == typed)
        for word, action in COMMANDS.items()
        if word.startswith(typed.casefold())
    ]


def _file_choice(fragment: Fragment, folder: str, entry: _Entry, typed: str) -> Choice:
    label = entry.name + ("/" if entry.is_folder else "")
    path = folder + label
    if fragment.sign:
        quote = '"' if fragment.quoted or re.search(r"\s", path) else ""
        insert = f"@{quote}{path}" + ("" if entry.is_folder else f"{quote} ")
    else:
        insert = path
    follows = entry.folded.startswith(typed.casefold())
    return Choice(label, "", insert, follows, typed == entry.name and not entry.is_folder)


def _listing(folder: str) -> list[_Entry]:
    """A folder's entries, folders first; none where it cannot be read, not all where it is endless."""
    deadline = time.monotonic() + _LONGEST_SECONDS
    entries: list[_Entry] = []
    try:
        with os.scandir(folder) as scan:
            for count, entry in enumerate(scan):
                if count >= _MOST_ENTRIES or (count % 256 == 255 and time.monotonic() > deadline):
                    break
                name = entry.name
                # A name with controls or quotes could be shown or typed only as another.
                if '"' not in name and "\n" not in name and clean(name) == name:
                    entries.append(_Entry(not _is_folder(entry), name.casefold(), name))
    except (OSError, ValueError):
        return []
    return sorted(entries)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
