"""The keys in the footer of the chat."""

from __future__ import annotations

from collections.abc import Iterable

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.widget import Widget
from textual.widgets import Footer

from app.tui.keys import bound_action
from app.tui.textual_private import FooterKey

# Actions in the order in which they get room; help and the palette name all the others.
FIRST = (
    *("help", "stop", "next_proposer", "command_palette", "compare", "panel", "automatic_k"),
    *("drafts", "sessions", "colours", "settings"),
)
_PLACES = {bound_action(name): place for place, name in enumerate(FIRST)}


class KeyFooter(Footer):
    """Leaves out the keys needed least where there is no room for all, and cuts none."""

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
    return _PLACES.get(key.action, len(FIRST))
