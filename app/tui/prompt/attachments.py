"""What is attached to a prompt: documents and large pastes, each a chip that can be opened and removed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from textual import events
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from app.chat.documents import Document
from app.chat.gate import clean

PASTED = "pasted text"
_PASTED_NAME = re.compile(rf"{PASTED}( \d+)?")
# Beyond it, counting words would hold up the keys.
_MOST_COUNTED = 4_000_000
_LONGEST_NAME = 36
_REMOVE = "×"


@dataclass(frozen=True, slots=True)
class Attachment:
    """A document on its way. identity: not given twice. tokens: None until they were counted."""

    identity: int
    document: Document
    tokens: int | None = None

    @property
    def pasted(self) -> bool:
        return _PASTED_NAME.fullmatch(self.document.name) is not None

    @property
    def label(self) -> str:
        """The document's name, short enough for a line; a first paste is called "pasted"."""
        if self.document.name == PASTED:
            return "pasted"
        name = clean(self.document.name).replace("\n", " ")
        if len(name) <= _LONGEST_NAME:
            return name
        # The end tells files apart, and has the extension.
        return name[: _LONGEST_NAME - 17] + "…" + name[-16:]

    @property
    def figures(self) -> str:
        """Words; size of a paste, or of what is too large to count; tokens when they are known."""
        parts = []
        words = word_count(self.document.text)
        if words is not None:
            parts.append("1 word" if words == 1 else f"{words:,} words")
        if self.pasted or words is None:
            parts.append(size_of(len(self.document.text.encode("utf-8", "replace"))))
        figures = ", ".join(parts)
        return figures if self.tokens is None else f"{figures} · {self.tokens:,} tokens"


def word_count(text: str) -> int | None:
    """How many words; None where the text is so long that only its size matters."""
    return len(text.split()) if len(text) <= _MOST_COUNTED else None


def size_of(count: int) -> str:
    """Bytes as people read them."""
    if count < 1000:
        return "1 byte" if count == 1 else f"{count} bytes"
    if count < 999_500:
        return f"{count / 1000:.0f} KB"
    return f"{count / 1_000_000:.1f} MB"


class Chip(Static, can_focus=True):
    """An attachment's line."""

    class Removed(Message):
        """The chip is to go."""

        def __init__(self, chip: Chip) -> None:
            self.chip = chip
            super().__init__()

    class Opened(Message):
        """The chip's text is to be seen."""

        def __init__(self, chip: Chip) -> None:
            self.chip = chip
            super().__init__()

    class Left(Message):
        """The focus is to move: `step` chips on, 0 back to the editor. character: typed meanwhile."""

        def __init__(self, chip: Chip, step: int, character: str = "") -> None:
            self.chip, self.step, self.character = chip, step, character
            super().__init__()

    def __init__(self, attachment: Attachment) -> None:
        super().__init__(markup=False)
        self.attachment = attachment
        self._line: Content = _line_of(attachment)

    def on_mount(self) -> None:
        self.watch_has_focus(self.has_focus)

    def show(self, attachment: Attachment) -> None:
        self.attachment, self._line = attachment, _line_of(attachment)
        self.watch_has_focus(self.has_focus)

    def watch_has_focus(self, focused: bool) -> None:
        super().watch_has_focus(focused)
        # Greys would not be legible on the ground of what has the focus.
        self.update(Content(self._line.plain) if focused else self._line)

    def on_key(self, event: events.Key) -> None:
        if event.key in ("delete", "backspace"):
            self.post_message(self.Removed(self))
        elif event.key in ("enter", "space"):
            self.post_message(self.Opened(self))
        elif event.key in ("up", "left"):
            self.post_message(self.Left(self, -1))
        elif event.key in ("down", "right"):
            self.post_message(self.Left(self, 1))
        elif event.key == "escape":
            self.post_message(self.Left(self, 0))
        elif event.is_printable and event.character and not event.key.startswith("alt+"):
            self.post_message(self.Left(self, 0, event.character))
        else:
            return
        event.stop()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        if event.x >= self._line.cell_length - 1:
            self.post_message(self.Removed(self))
        elif event.chain == 2:
            self.post_message(self.Opened(self))


def _line_of(attachment: Attachment) -> Content:
    return Content.assemble(
        ("▣ ", "$accent"), attachment.label, "  ", (attachment.figures, "$muted"), (f"  {_REMOVE}", "$muted")
    )


class Attachments(VerticalScroll, can_focus=False):
    """The chips, one a line; the last ones are in view."""

    DEFAULT_CSS = Path(__file__).with_name("attachments.tcss").read_text("utf-8")

    def __init__(self) -> None:
        super().__init__()
        self._chips: list[Chip] = []
        self._made = 0

    @property
    def documents(self) -> tuple[Document, ...]:
        return tuple(chip.attachment.document for chip in self._chips)

    @property
    def chips(self) -> tuple[Chip, ...]:
        return tuple(self._chips)

    def add(self, document: Document) -> Attachment:
        """Attach a document; its identity is new."""
        self._made += 1
        attachment = Attachment(self._made, document)
        chip = Chip(attachment)
        self._chips.append(chip)
        # A paste may still be on its way when the app ends, and then nothing can be shown.
        if self.is_attached:
            self.mount(chip)
            self.call_after_refresh(chip.scroll_visible, animate=False)
        self.display = True
        return attachment

    def remove_chip(self, chip: Chip) -> Chip | None:
        """Take a chip away; the one that then stands at its place, or the last."""
        place = self._chips.index(chip)
        self._chips.remove(chip)
        chip.remove()
        self.display = bool(self._chips)
        return self._chips[min(place, len(self._chips) - 1)] if self._chips else None

    def take(self, documents: Iterable[Document]) -> list[Attachment]:
        """Hold these documents and no others; what was added for that."""
        self.empty()
        return [self.add(document) for document in documents]

    def empty(self) -> None:
        for chip in self._chips:
            chip.remove()
        self._chips.clear()
        self.display = False

    def neighbour(self, chip: Chip, step: int) -> Chip | None:
        """The chip `step` places on; the first before the first; None beyond the last, and for step 0."""
        place = max(0, self._chips.index(chip) + step)
        return self._chips[place] if step and place < len(self._chips) else None

    def set_tokens(self, identity: int, tokens: int | None) -> None:
        for chip in self._chips:
            if chip.attachment.identity == identity:
                chip.show(replace(chip.attachment, tokens=tokens))
