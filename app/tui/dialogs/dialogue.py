"""What every screen over the chat is: a dialogue that closes once, and may be taken away before it stands."""

from __future__ import annotations

from typing import TypeVar

from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen
from textual.widget import Widget

Result = TypeVar("Result")


class Dialogue(ModalScreen[Result]):
    """A screen over the chat. What it does when it opens belongs into `opened`, not into `on_mount`.

    Each widget has a queue of its own, and what is in it is still handled when the dialogue has closed or
    the app has ended.
    """

    @property
    def stands(self) -> bool:
        """Whether its parts are there: not once it has closed, and not as the app ends."""
        return self.is_attached and self in self.app.screen_stack

    def opened(self) -> None:
        """All that was composed is there."""

    def dismiss(self, result: Result | None = None) -> AwaitComplete:
        """Close with this result. A dialogue that is not in front would close the one that is."""
        return super().dismiss(result) if self.is_active else AwaitComplete()

    async def mount_composed_widgets(self, widgets: list[Widget]) -> None:
        # As the app ends nothing can be mounted any more.
        if self.is_attached:
            await super().mount_composed_widgets(widgets)

    def on_mount(self) -> None:
        if self.stands:
            self.opened()
