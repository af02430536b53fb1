"""What Textual reads wrongly or slowly: large pastes, Alt+Enter, and keys right after Escape."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from enum import Enum

from textual import events
from textual.message import Message

from app.tui.prompt.pastes import cleaned
from app.tui.textual_private import (
    BRACKETED_PASTE_END,
    BRACKETED_PASTE_START,
    XTermParser,
    key_sequences,
    use_in_drivers,
)

# Letters with Ctrl that no terminal sends for another key.
_CONTROLS = [chr(ord(letter) & 31) for letter in "abcdefgklnopqrstuvwxyz"]


class _Key(Enum):
    ALT_ENTER = "alt+enter"


class PasteParser(XTermParser):
    """Textual's parser, but a paste is taken whole. Character by character, 1 MB takes seconds."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        # The chunks of a paste that has begun; None outside of one.
        self._paste: list[str] | None = None
        self._recent = ""
        # What may be the first characters of a paste's start marker, cut by the end of a read.
        self._held = ""

    def tick(self) -> Iterable[Message]:
        """Messages that only the passing of time decides."""
        if self._held:
            held, self._held = self._held, ""
            yield from super().feed(held)
        yield from super().tick()

    def feed(self, data: str) -> Iterable[Message]:
        """The messages in what was read; "" is the end of the input."""
        if not data:
            yield from super().feed(data)
        while data:
            if self._paste is None:
                data = yield from self._outside(data)
            else:
                data = yield from self._inside(self._paste, data)

    def _outside(self, data: str) -> Generator[Message, None, str]:
        """Feed what stands before a paste; return what follows its start marker."""
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
        """Collect the paste up to its end marker; return what follows that."""
        # Search only what is new, and the few characters before it in which the marker may have begun.
        recent = self._recent + data
        self._recent = recent[1 - len(BRACKETED_PASTE_END) :]
        place = recent.find(BRACKETED_PASTE_END)
        paste.append(data)
        if place < 0:
            return ""
        whole = "".join(paste)
        end = len(whole) - len(recent) + place
        self._paste, self._recent = None, ""
        # Clean, whichever field it goes to.
        yield events.Paste(cleaned(whole[:end]))
        return whole[end + len(BRACKETED_PASTE_END) :]


def teach_input() -> None:
    """Make this process read terminals through `PasteParser`, and know two more kinds of keys.

    Without this, Alt+Enter (Escape Return) reads as Enter and sends the message. And when Escape and a
    letter with Ctrl are read at once, as happens while the screen is busy, Escape is lost.
    """
    sequences = key_sequences()
    sequences["\x1b\r"] = (_Key.ALT_ENTER,)
    for control in _CONTROLS:
        sequences[f"\x1b{control}"] = (*sequences["\x1b"], *sequences[control])
    use_in_drivers("XTermParser", PasteParser)
