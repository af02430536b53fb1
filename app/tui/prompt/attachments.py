"""What is attached to a prompt: documents and large pastes, each a chip that can be opened and removed."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from pathlib import Path

from rich.filesize import decimal
from textual import events
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from app.chat.documents import Document
from app.tui.cells import shortened
from app.tui.numbers import counted
from app.tui.prompt.editor import EditorHost, PromptEditor
from app.tui.prompt.pastes import fits_editor
from app.tui.prompt.viewer import DocumentViewer

PASTED = "pasted text"
_PASTED_NAME = re.compile(rf"{PASTED}( \d+)?")
# In a longer text, counting words would hold up the keys.
_MOST_COUNTED = 4_000_000
_LONGEST_NAME = 36
_REMOVE = "×"


@dataclass(frozen=True, slots=True)
class Attachment:
    """An attached document. identity: never given twice. tokens: None until they are counted."""

    identity: int
    document: Document
    tokens: int | None = None

    @property
    def pasted(self) -> bool:
        return _PASTED_NAME.fullmatch(self.document.name) is not None

    @property
    def label(self) -> str:
        """The document's name, short enough for a line; a first paste is called "pasted"."""
        return "pasted" if self.document.name == PASTED else shortened(self.document.name, _LONGEST_NAME)

    @property
    def figures(self) -> str:
        """Words; the size of a paste, or of a text too long to count; tokens once they are known."""
        text = self.document.text
        countable = len(text) <= _MOST_COUNTED
        parts = [counted(len(text.split()), "word")] if countable else []
        if self.pasted or not countable:
            parts.append(decimal(len(text.encode("utf-8", "replace"))))
        figures = ", ".join(parts)
        return figures if self.tokens is None else f"{figures} · {self.tokens:,} tokens"


class Chip(Static, can_focus=True):
    """The line of an attachment."""

    def __init__(self, attachment: Attachment, attachments: Attachments) -> None:
        super().__init__(markup=False)
        self._attachments = attachments
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
            self._attachments.remove_focused(self)
        elif event.key in ("enter", "space"):
            self._attachments.open(self)
        elif event.key in ("up", "left"):
            self._attachments.leave(self, -1)
        elif event.key in ("down", "right"):
            self._attachments.leave(self, 1)
        elif event.key == "escape":
            self._attachments.leave(self, 0)
        elif event.is_printable and event.character and not event.key.startswith("alt+"):
            self._attachments.leave(self, 0, event.character)
        else:
            return
        event.stop()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        if event.x >= self._line.cell_length - 1:
            self._attachments.remove_focused(self)
        elif event.chain == 2:
            self._attachments.open(self)


def _line_of(attachment: Attachment) -> Content:
    return Content.assemble(
        ("▣ ", "$accent"), attachment.label, "  ", (attachment.figures, "$muted"), (f"  {_REMOVE}", "$muted")
    )


class Attachments(VerticalScroll, can_focus=False):
    """The chips, one a line, scrolled to the last ones. The focus goes from them to the editor."""

    DEFAULT_CSS = Path(__file__).with_name("attachments.tcss").read_text("utf-8")

    @dataclass
    class CountWanted(Message):
        """The tokens of an attachment's text are to be counted, and given to `set_tokens`."""

        identity: int
        text: str

    def __init__(self, host: EditorHost, editor: PromptEditor) -> None:
        super().__init__()
        self._host, self._editor = host, editor
        # A removed chip stays mounted for a moment: keys that come in that time find it missing here.
        self.chips: list[Chip] = []
        self._identities = itertools.count(1)

    @property
    def documents(self) -> tuple[Document, ...]:
        return tuple(chip.attachment.document for chip in self.chips)

    def add(self, document: Document) -> None:
        """Attach a document, and have its tokens counted."""
        attachment = Attachment(next(self._identities), document)
        chip = Chip(attachment, self)
        self.chips.append(chip)
        # A paste may still be on its way when the app ends, and then nothing can be shown.
        if self.is_attached:
            self.mount(chip)
            self.call_after_refresh(chip.scroll_visible, animate=False)
        self._changed()
        self.post_message(self.CountWanted(attachment.identity, document.text))

    def replace(self, documents: tuple[Document, ...]) -> None:
        """Attach these documents and no others."""
        if documents == self.documents:
            return
        for chip in [*self.chips]:
            self.remove_chip(chip)
        for document in documents:
            self.add(document)

    def remove_chip(self, chip: Chip) -> None:
        """Take an attachment away."""
        self.chips.remove(chip)
        chip.remove()
        self._changed()

    def enter(self, remove: bool) -> bool:
        """Focus the last attachment, or remove it; False without one."""
        if not self.chips:
            return False
        if remove:
            self.remove_chip(self.chips[-1])
        else:
            self.chips[-1].focus()
        return True

    def remove_focused(self, chip: Chip) -> None:
        """Take an attachment away, and focus the next one."""
        if chip in self.chips:
            place = self.chips.index(chip)
            self.remove_chip(chip)
            self._focus(min(place, len(self.chips) - 1))

    def open(self, chip: Chip) -> None:
        """Put a pasted text back into the editor, if it fits; show any other text."""
        if chip not in self.chips:
            return
        attachment, text = chip.attachment, chip.attachment.document.text
        if attachment.pasted and fits_editor(self._editor.text + text):
            self.remove_chip(chip)
            self._editor.focus()
            self._editor.type_in(text)
        else:
            self.app.push_screen(DocumentViewer(attachment.label, attachment.figures, text))

    def leave(self, chip: Chip, step: int, character: str = "") -> None:
        """Focus the chip before (-1) or after (1), the editor beyond the last or for 0; type there."""
        if chip in self.chips:
            self._focus(max(0, self.chips.index(chip) + step) if step else -1)
            if character:
                self._editor.type_in(character)

    def set_tokens(self, identity: int, tokens: int | None) -> None:
        """Show how many tokens an attachment has, if it is still there."""
        for chip in self.chips:
            if chip.attachment.identity == identity:
                chip.show(replace(chip.attachment, tokens=tokens))

    def _focus(self, place: int) -> None:
        """Focus the chip at that place, the editor where there is none."""
        (self.chips[place] if 0 <= place < len(self.chips) else self._editor).focus()

    def _changed(self) -> None:
        self.display = bool(self.chips)
        self._host.update_hints()
