"""What terminals send and Textual reads wrongly or slowly: large pastes, Alt+Enter, keys behind Escape."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Generator, Iterable
from enum import Enum
from typing import cast

from textual import events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.message import Message

from app.tui.prompt.pastes import cleaned

# The modules that make a parser, each on its own systems.
_DRIVERS = ("textual.drivers.linux_driver", "textual.drivers.win32")
# Letters with Ctrl that no terminal sends for another key.
_CONTROLS = [chr(ord(letter) & 31) for letter in "abcdefgklnopqrstuvwxyz"]


class _Key(Enum):
    ALT_ENTER = "alt+enter"


class PasteParser(XTermParser):
    """Textual's parser, but a paste is taken whole: character by character, 1 MB takes seconds."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        # The chunks of a paste that has begun; None outside of one.
        self._paste: list[str] | None = None
        self._recent = ""
        # What may be the beginning of a paste's start, cut by the end of a read.
        self._held = ""

    def tick(self) -> Iterable[Message]:
        """Messages that only the passing of time makes sure."""
        if self._held:
            held, self._held = self._held, ""
            yield from super().feed(held)
        yield from super().tick()

    def feed(self, data: str) -> Iterable[Message]:
        """Messages of what was read; "" is the end."""
        if not data:
            yield from super().feed(data)
        while data:
            if self._paste is None:
                data = yield from self._outside(data)
            else:
                data = yield from self._inside(self._paste, data)

    def _outside(self, data: str) -> Generator[Message, None, str]:
        """Feed up to the start of a paste; what is left behind it."""
        data, self._held = self._held + data, ""
        before, start, rest = data.partition(BRACKETED_PASTE_START)
        if start:
            self._paste = []
        else:
            # A single Escape is not held: it is a key, and waits for nothing.
            cut = next((size for size in (5, 4, 3, 2) if data.endswith(BRACKETED_PASTE_START[:size])), 0)
            before, self._held = data[: len(data) - cut], data[len(data) - cut :]
        if before:
            yield from super().feed(before)
        return rest

    def _inside(self, paste: list[str], data: str) -> Generator[Message, None, str]:
        """Gather up to the end of the paste; what is left behind it."""
        # Only what is new is searched, and so much before it as the marker may have begun in.
        recent = self._recent + data
        self._recent = recent[1 - len(BRACKETED_PASTE_END) :]
        place = recent.find(BRACKETED_PASTE_END)
        paste.append(data)
        if place < 0:
            return ""
        whole = "".join(paste)
        end = len(whole) - len(recent) + place
        self._paste, self._recent = None, ""
        # Clean for every field that it may go to.
        yield events.Paste(cleaned(whole[:end]))
        return whole[end + len(BRACKETED_PASTE_END) :]


def teach_input() -> None:
    """Have this process read terminals so.

    Alt+Enter (Escape Return) would read as Enter, and send. Of Escape and a letter with Ctrl that are read
    at once, as happens while the screen is busy, Escape would be lost.
    """
    sequences = cast("dict[str, tuple[Enum, ...] | str]", ANSI_SEQUENCES_KEYS)
    sequences["\x1b\r"] = (_Key.ALT_ENTER,)
    for control in _CONTROLS:
        sequences[f"\x1b{control}"] = (*sequences["\x1b"], *sequences[control])
    for name in _DRIVERS:
        # Each exists on its own system only.
        with contextlib.suppress(ImportError):
            importlib.import_module(name).XTermParser = PasteParser  # type: ignore[attr-defined]
