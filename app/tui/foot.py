"""The keys at the foot of the chat, whole ones only."""

from __future__ import annotations

from collections.abc import Iterable

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.widget import Widget
from textual.widgets import Footer

from app.tui.textual_private import FooterKey

# Actions by how much they are missed where they are not named; help and the palette name all the others.
FIRST = (
    *("help", "stop", "next_proposer", "command_palette", "compare", "panel", "automatic_k"),
    *("drafts", "sessions", "colours", "settings"),
)


class Foot(Footer):
    """Where there is no room for all keys, those that are needed least are left out; none is cut."""

    def compose(self) -> ComposeResult:
        keys = list(super().compose())
        self._fit(keys)
        return keys

    def on_resize(self) -> None:
        self._fit(self.query(FooterKey))

    def _fit(self, widgets: Iterable[Widget]) -> None:
        keys = [each for each in widgets if isinstance(each, FooterKey)]
        # The last key needs no gap behind it.
        room = self.content_size.width + 1
        for key in sorted(keys, key=_place):
            needed = cell_len(f"{key.key_display} {key.description}") + 1
            key.display = needed <= room
            room -= needed if key.display else 0


def _place(key: FooterKey) -> int:
    name = key.action.removeprefix("app.")
    return FIRST.index(name) if name in FIRST else len(FIRST)
