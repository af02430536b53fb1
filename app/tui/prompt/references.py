"""Files that a prompt names by `@path` in its text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from app.chat.documents import Document, read_document
from app.errors import SpecchatError
from app.text import clean

# After these characters the sign is part of an address. Scripts without spaces between words may precede it.
SIGN = r"(?<![A-Za-z0-9._%+\-@/\\])@"
_REFERENCE = re.compile(SIGN + r'(?:"(?P<quoted>[^"\n]+)"|(?P<plain>[^\s"]+))')
_EXTENSION = re.compile(r"\.\w{1,8}$")
_TRAILING = ".,;:!?)]}>'’”…。，、；：？！）」』"


@dataclass(frozen=True, slots=True)
class Gathered:
    """A prompt whose references became documents. missing: what looks like a path but names no file."""

    text: str
    documents: tuple[Document, ...]
    missing: tuple[str, ...]


def gather(text: str, attached: Sequence[Document] = ()) -> Gathered:
    """Read each file that the text names by `@path`, and replace the reference by the document's name.

    attached: the documents that the prompt has already. Raises SpecchatError where a file cannot be used.
    """
    documents = list(attached)
    names: dict[str, str] = {}
    missing: list[str] = []

    def bare(match: re.Match[str]) -> str:
        typed = match["quoted"] or match["plain"]
        path = next(filter(_exists, _readings(match)), None)
        if path is None:
            if "/" in typed or os.sep in typed or _EXTENSION.search(typed.rstrip(_TRAILING)):
                missing.append(typed.rstrip(_TRAILING))
            return match[0]
        where = os.path.realpath(expanded(path))
        if where not in names:
            document = distinct(read_file(path), documents)
            if document not in documents:
                documents.append(document)
            names[where] = document.name
        return names[where] + ("" if match["quoted"] else typed[len(path) :])

    return Gathered(_REFERENCE.sub(bare, text), tuple(documents), tuple(missing))


def read_file(path: str) -> Document:
    """The document at a path, which may begin with `~`. Raises SpecchatError where it cannot be used."""
    path = expanded(path)
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        # Reading it would wait for a writer, and so would the screen.
        raise SpecchatError(f"{clean(path)} is a pipe or a device, not a file: save it as a file first.")
    return read_document(path)


def distinct(document: Document, others: Sequence[Document]) -> Document:
    """The document, under another name if one of the others has its name but another text."""
    taken = {other.name for other in others if other != document}
    name, number = document.name, 1
    while name in taken:
        number += 1
        name = f"{document.name} {number}"
        if Document(name, document.text) in others:
            break
    return replace(document, name=name)


def expanded(path: str) -> str:
    return os.path.expanduser(path)


def _readings(match: re.Match[str]) -> Iterator[str]:
    """What may be the path: all that was typed, less punctuation at its end, or its ASCII characters only."""
    if match["quoted"]:
        yield match["quoted"]
        return
    typed = match["plain"]
    yield typed
    yield typed.rstrip(_TRAILING)
    if latin := re.match(r"[!-~]+", typed):
        yield latin[0].rstrip(_TRAILING)


def _exists(path: str) -> bool:
    return bool(path.strip("./\\")) and os.path.exists(expanded(path))
