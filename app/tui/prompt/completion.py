"""What Tab can complete: slash commands and what follows them, and files after @ or /file. No screen here."""

from __future__ import annotations

import itertools
import os
import re
import time
from dataclasses import dataclass
from typing import NamedTuple

from app.text import clean
from app.tui.prompt.commands import COMMANDS
from app.tui.prompt.references import SIGN, expanded

MOST_COMPLETIONS = 40
# A folder of any size, on a disk of any speed, must not hold up the keys.
_MOST_ENTRIES = 50_000
_LONGEST_SECONDS = 0.15

_COMMAND = re.compile(r"/([\w-]*)")
_CHOICE_COMMAND = re.compile(r"/(?P<word>[\w-]+)\s+(?P<choice>\w*)")
_FILE_COMMAND = re.compile(r"/file\s+(.*)")
_OPEN_REFERENCE = re.compile(SIGN + r'(?:"(?P<quoted>[^"]*)|(?P<plain>[^\s"]*))$')


@dataclass(frozen=True, slots=True)
class Fragment:
    """What is being typed before the cursor, from column `start` on.

    text: without its sign. sign: "/" for a command, "@" for a file, "" for what follows `command`.
    """

    start: int
    text: str
    sign: str
    quoted: bool = False
    command: str = "file"


@dataclass(frozen=True, slots=True)
class Completion:
    """What can take a fragment's place.

    insert: the text that does. continues: whether it begins with what was typed. exact: whether it is that.
    """

    label: str
    detail: str
    insert: str
    continues: bool
    exact: bool


class _FolderEntry(NamedTuple):
    """Sorts as shown: folders first, then by name."""

    is_file: bool
    folded: str
    name: str


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
    """Finds completions. It reads a folder once, until `forget`, so that each key is quick in a large one."""

    def __init__(self) -> None:
        self._listings: dict[str, list[_FolderEntry]] = {}

    def completions(self, fragment: Fragment) -> list[Completion]:
        """The completions: those that continue what was typed first, then folders first, then by name."""
        typed = fragment.text
        if fragment.sign == "/":
            return [
                Completion(action.usage, action.summary, f"/{word} ", True, word == typed)
                for word, action in COMMANDS.items()
                if word.startswith(typed.casefold())
            ]
        if fragment.sign or fragment.command == "file":
            return self._files(fragment)
        words = COMMANDS[fragment.command].choices
        return [Completion(word, "", word, True, word == typed) for word in words if word.startswith(typed)]

    def forget(self) -> None:
        """Read folders again: they may have changed."""
        self._listings.clear()

    def _files(self, fragment: Fragment) -> list[Completion]:
        text = "~/" if fragment.text == "~" else fragment.text
        cut = max(text.rfind("/"), text.rfind(os.sep)) + 1
        folder, name = text[:cut], text[cut:]
        where = expanded(folder) or "."
        if where not in self._listings:
            self._listings[where] = _listing(where)
        wanted, hidden = name.casefold(), name.startswith(".")
        seen = [entry for entry in self._listings[where] if entry.name.startswith(".") == hidden]
        starting = (entry for entry in seen if entry.folded.startswith(wanted))
        within = (entry for entry in seen if entry.folded.find(wanted) > 0)
        return [
            _file_completion(fragment, folder, entry, name)
            for entry in itertools.islice(itertools.chain(starting, within), MOST_COMPLETIONS)
        ]


def _file_completion(fragment: Fragment, folder: str, entry: _FolderEntry, typed: str) -> Completion:
    label = entry.name if entry.is_file else f"{entry.name}/"
    insert = folder + label
    if fragment.sign:
        quote = '"' if fragment.quoted or re.search(r"\s", insert) else ""
        insert = f"@{quote}{insert}" + (f"{quote} " if entry.is_file else "")
    continues = entry.folded.startswith(typed.casefold())
    return Completion(label, "", insert, continues, typed == entry.name and entry.is_file)


def _listing(folder: str) -> list[_FolderEntry]:
    """A folder's entries in their order; none where it cannot be read, not all where it is endless."""
    deadline = time.monotonic() + _LONGEST_SECONDS
    entries: list[_FolderEntry] = []
    try:
        with os.scandir(folder) as scan:
            for count, entry in enumerate(scan):
                if count >= _MOST_ENTRIES or (count % 256 == 255 and time.monotonic() > deadline):
                    break
                name = entry.name
                # A name with controls or quotes could be shown or typed only as another.
                if '"' not in name and "\n" not in name and clean(name) == name:
                    entries.append(_FolderEntry(not _is_folder(entry), name.casefold(), name))
    except (OSError, ValueError):
        return []
    return sorted(entries)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
