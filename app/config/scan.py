"""Where the keys of a TOML text stand: the parser of the standard library tells values without places.

The text must be valid TOML (parse it first); what it holds is then found by a few rules.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

KeyPath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A `key = value`; offsets into the text. path: with the names of the tables that it is in.

    key: where the key begins. value, end: where the value does, and where it has ended. inline: it
    stands between the braces of an inline table.
    """

    path: KeyPath
    key: int
    value: int
    end: int
    inline: bool


@dataclass(frozen=True, slots=True)
class Header:
    """A `[table]`: key where its bracket opens, end where it has closed."""

    path: KeyPath
    key: int
    end: int


_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_PART = re.compile(r"""[ \t]*(?:(?P<quoted>"(?:[^"\\\n]|\\.)*"|'[^'\n]*')|(?P<bare>[A-Za-z0-9_-]+))[ \t]*""")
# Up to two quotation marks may stand right before the three that close a multi-line string.
_STRING = re.compile(
    r'''"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*\'''', re.DOTALL
)
_BARE = re.compile(r"[^,\]}#\r\n]*")


def scan(text: str) -> list[Entry | Header]:
    """Every table and key in the order of their beginnings, those of inline tables too."""
    scanner = _Scanner(text)
    scanner.document()
    return sorted(scanner.found, key=lambda each: each.key)


def line_of(text: str, offset: int) -> int:
    """The number of the line, from 1."""
    return text.count("\n", 0, offset) + 1


class _Scanner:
    def __init__(self, text: str) -> None:
        self.found: list[Entry | Header] = []
        self._text = text

    def document(self) -> None:
        prefix: KeyPath = ()
        at = self._after(_BLANK, 0)
        while at < len(self._text):
            if self._text[at] == "[":
                brackets = 2 if self._text.startswith("[[", at) else 1
                prefix, end = self._key(at + brackets)
                self.found.append(Header(prefix, at, end + brackets))
                at = end + brackets
            else:
                at = self._entry(at, prefix, inline=False)
            at = self._after(_BLANK, at)

    def _entry(self, at: int, prefix: KeyPath, inline: bool) -> int:
        path, equals = self._key(at)
        value = self._after(_SPACE, equals + 1)
        end = self._value(value, prefix + path)
        self.found.append(Entry(prefix + path, at, value, end, inline))
        return end

    def _key(self, at: int) -> tuple[KeyPath, int]:
        parts: list[str] = []
        while True:
            match = _PART.match(self._text, at)
            if match is None:
                raise ValueError("not a key: the text is not TOML")
            quoted = match["quoted"]
            parts.append(tomllib.loads(f"x={quoted}")["x"] if quoted else match["bare"])
            at = match.end()
            if self._text[at : at + 1] != ".":
                return tuple(parts), at
            at += 1

    def _value(self, at: int, path: KeyPath) -> int:
        """Where the value has ended that begins there."""
        string = _STRING.match(self._text, at)
        if string is not None:
            return string.end()
        if self._text[at] not in "[{":
            bare = _BARE.match(self._text, at)
            return at + len(bare[0].rstrip()) if bare else at
        array = self._text[at] == "["
        at = self._after(_BLANK, at + 1)
        while self._text[at] not in "]}":
            if self._text[at] == ",":
                at += 1
            elif array:
                # What an array holds is no setting of its own: its path is one that nobody looks up.
                at = self._value(at, (*path, ""))
            else:
                at = self._entry(at, path, inline=True)
            at = self._after(_BLANK, at)
        return at + 1

    def _after(self, pattern: re.Pattern[str], at: int) -> int:
        match = pattern.match(self._text, at)
        return match.end() if match else at
