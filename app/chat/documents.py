"""Documents that go before the prompt, read from files or standard input."""

import codecs
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.errors import SpecchatError
from app.text import clean

MAX_BYTES = 64 * 1024 * 1024
"""More than any context holds; it also ends the reading of an endless device."""

# UTF-32's little-endian mark begins with UTF-16's: the longer ones are tried first.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)


@dataclass(frozen=True, slots=True)
class Document:
    """A text and the name that introduces it to the model. Its lines end in LF."""

    name: str
    text: str


def read_document(path: str | os.PathLike[str]) -> Document:
    """The text file at `path`, which may be a pipe, in UTF-8, or in UTF-16 or UTF-32 with a byte order mark.

    Its name is the path as given, or the last part of an absolute one. Raises SpecchatError when it is
    missing, a folder, unreadable, empty or not text.
    """
    path = Path(path)
    shown = clean(str(path))
    try:
        # Asked first: Windows calls the opening of a folder a missing permission.
        if stat.S_ISDIR(path.stat().st_mode):
            raise SpecchatError(f"{shown} is a folder: name the files in it that you want to send.")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise SpecchatError(f"There is no file {shown}: check the path.") from error
    except PermissionError as error:
        raise SpecchatError(f"You are not allowed to read {shown}: change its permissions.") from error
    # ValueError: a NUL character in the path.
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SpecchatError(f"{shown} cannot be read: {reason}.") from error
    name = path.name if path.is_absolute() else path.as_posix()
    return Document(" ".join(clean(name).split()), _decode(data, shown))


def read_stdin(data: bytes) -> Document:
    """What was piped in. Raises SpecchatError when it is empty or not text."""
    return Document("standard input", _decode(data, "Standard input"))


def with_documents(prompt: str, documents: Sequence[Document]) -> str:
    """The documents, each between two lines that name it, and then the prompt.

    Small models answer what they read last, and take words in brackets for a border more reliably than quotes
    or XML, which the documents themselves may contain.
    """
    blocks = [f"[Document: {each.name}]\n{each.text.strip()}\n[End of {each.name}]" for each in documents]
    return "\n\n".join([*blocks, prompt] if prompt else blocks)


def _decode(data: bytes, shown: str) -> str:
    if len(data) > MAX_BYTES:
        raise SpecchatError(
            f"{shown} is larger than {MAX_BYTES // 1024**2} MB, more than any model reads: send a part of it."
        )
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")
    binary = SpecchatError(f"{shown} is a binary file, not text: export it as plain text first.")
    if encoding.startswith("utf-8") and b"\0" in data:
        raise binary
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise SpecchatError(
            f"{shown} is not text in UTF-8 (byte {error.start:,} does not fit): "
            "save it as UTF-8, or export it as plain text."
        ) from error
    if "\0" in text:
        raise binary
    if not text.strip():
        raise SpecchatError(f"{shown} is empty: there is nothing to send.")
    return text.replace("\r\n", "\n").replace("\r", "\n")
