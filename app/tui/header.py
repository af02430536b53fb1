"""The first line: the program, the model, and the conversation's title."""

from __future__ import annotations

from textual.app import RenderResult
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from app.chat.gate import one_line


class ChatHeader(Widget):
    """One line; the title is cut where there is no room."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    ChatHeader {
        height: 1;
        background: $background;
        color: $muted;
    }
    """

    model: reactive[str] = reactive("")
    title: reactive[str] = reactive("")

    def show(self, model: str, title: str) -> None:
        """The model's name with where it runs, "" before it is known, and the title, "" for none."""
        self.model = one_line(model)
        self.title = one_line(title)

    def render(self) -> RenderResult:
        left = Content.assemble(
            ("specchat", "bold $accent"), (f" · {self.model}" if self.model else "", "$muted")
        )
        room = self.size.width - left.cell_length - 2
        title = Content(self.title).truncate(max(0, room), ellipsis=True)
        space = max(0, self.size.width - left.cell_length - title.cell_length)
        return Content.assemble(left, " " * space, title.stylize("$muted"))
