"""What was pasted: dropped files, a few lines for the editor, or a text long enough to be a document."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from urllib.parse import urlsplit

from app.text import clean

_LINES = 20
_CHARACTERS = 2000
# In a longer text or line, the editor's keys would be slow.
_EDITOR_CHARACTERS = 20_000
_EDITOR_LINE = 4000
# A terminal pastes less for a handful of dropped files.
_LONGEST_DROP = 8192


def cleaned(text: str) -> str:
    """A pasted text without control characters. Terminals paste CR at the end of a line; it becomes LF."""
    return clean(text.replace("\r\n", "\n").replace("\r", "\n"))


def is_large(text: str) -> bool:
    """Whether a paste is so long that it would hide what is being written."""
    lines = text.count("\n") + (not text.endswith("\n"))
    return lines > _LINES or len(text) > _CHARACTERS


def fits_editor(text: str) -> bool:
    """Whether the editor stays quick with this text."""
    return len(text) <= _EDITOR_CHARACTERS and all(len(line) <= _EDITOR_LINE for line in text.split("\n"))


def dropped_files(text: str) -> tuple[str, ...]:
    """The files that a paste consists of, as absolute paths; () where any part of it is something else.

    Terminals write the paths of dropped files plain, quoted, escaped or as file:// addresses.
    """
    text = text.strip()
    if not text or len(text) > _LONGEST_DROP:
        return ()
    if whole := _file_of(text):
        return (whole,)
    try:
        words = text.splitlines() if "\n" in text else shlex.split(text, posix=os.name != "nt")
    except ValueError:
        return ()
    files = [_file_of(word) or _unescaped(word) for word in words]
    return tuple(file for file in files if file) if all(files) else ()


def _unescaped(word: str) -> str | None:
    try:
        parts = shlex.split(word, posix=os.name != "nt")
    except ValueError:
        return None
    return _file_of(parts[0]) if len(parts) == 1 else None


def _file_of(word: str) -> str | None:
    word = word.strip().strip("\"'")
    if word.startswith("file://"):
        # Imported here: it imports all of HTTP.
        from urllib.request import url2pathname

        word = url2pathname(urlsplit(word).path)
    path = Path(word)
    # Unlike Path.is_file, os.path.isfile takes any text, and says False where no file can have that name.
    return str(path) if path.is_absolute() and os.path.isfile(path) else None
