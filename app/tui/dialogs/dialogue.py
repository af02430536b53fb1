"""What every screen over the chat is: a dialogue that closes once, and may be gone before it is shown."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal, TypeVar

from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from app.process.events import Event
from app.text import one_line

Result = TypeVar("Result")
Awaited = Literal["drafts", "models", "comparison"]


class Dialogue(ModalScreen[Result]):
    """A screen over the chat. What it does when it opens belongs in `opened`, not in `on_mount`.

    Each widget has a queue of its own, and what is in it is still handled when the dialogue has closed or
    the app has ended.
    """

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text("utf-8")
    # What the engine is asked for when the dialogue opens; `take` gets it.
    AWAITS: ClassVar[Awaited | None] = None

    @property
    def stands(self) -> bool:
        """Whether its parts are there: not once it has closed, and not as the app ends."""
        return self.is_attached and self in self.app.screen_stack

    def opened(self) -> None:
        """All that was composed is there."""

    def take(self, event: Event) -> None:
        """Something of what it awaits has come, or the reason why it has not."""

    def say(self, sentence: str, problem: bool = False) -> None:
        """Show a sentence, which may be anybody's, in the line for it (#said), unless that has closed."""
        if not self.stands:
            return
        said = self.query_one("#said", Static)
        said.set_class(problem, "-problem")
        said.update(one_line(sentence))

    def action_leave(self) -> None:
        """Close without a result."""
        self.dismiss(None)

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
