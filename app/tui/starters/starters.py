"""What an empty chat offers: three questions to begin with, each with what to expect of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from textual.app import RenderResult
from textual.content import Content
from textual.events import Click
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from app.chat.conversation import Question
from app.chat.documents import Document

# From here on there is room for what to expect beside each question, and for a heading.
WIDE, TALL = 78, 18


@dataclass(frozen=True, slots=True)
class Starter:
    """title: the question in short. promise: what to expect. text: the question itself. file: a document of
    this folder to go with it, "" for none. copies: the reply has at most so many tokens, at temperature 0,
    and the promise says so; 0 for the settings' own."""

    title: str
    promise: str
    text: str
    file: str = ""
    copies: int = 0

    @property
    def question(self) -> Question:
        """What is sent."""
        if not self.file:
            return Question(self.text)
        text = Path(__file__).with_name(self.file).read_text("utf-8")
        return Question(self.text, (Document(self.file, text),))


STARTERS = (
    Starter(
        "Write a rhyme again",
        "lookup copies it (temperature 0, 300 tokens)",
        "Write the rhyme again, with every verse.",
        "rhyme.md",
        300,
    ),
    Starter(
        "Summarise a story",
        "little to copy: names, a phrase",
        "Summarise the story in three sentences.",
        "story.md",
    ),
    Starter(
        "Write a poem about the sea", "nothing to copy: plain speed", "Write a short poem about the sea."
    ),
)


class Starters(Widget):
    """A list that is walked from the prompt, which keeps the focus. It hides while something is typed."""

    ALLOW_SELECT = False
    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text("utf-8")

    marked: reactive[int | None] = reactive(None)

    class Chosen(Message):
        """One is to be asked."""

        def __init__(self, question: Question, copies: int) -> None:
            super().__init__()
            self.question, self.copies = question, copies

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._offered = self._in_the_way = False

    def offer(self, empty: bool) -> None:
        """Whether the conversation is empty."""
        self._offered = empty
        self._settle()

    def make_way(self, written: bool) -> None:
        """Whether something is being written."""
        self._in_the_way = written
        self._settle()

    def move(self, step: int) -> bool:
        """Mark the next one, or none beyond the ends; False where none is offered."""
        if self.display:
            before = self.marked if self.marked is not None else (-1 if step > 0 else len(STARTERS))
            self.marked = before + step if 0 <= before + step < len(STARTERS) else None
        return self.display

    def take(self) -> bool:
        """Have the marked one asked; False where none is."""
        if self.marked is None:
            return False
        starter = STARTERS[self.marked]
        self.post_message(self.Chosen(starter.question, starter.copies))
        return True

    def render(self) -> RenderResult:
        wide = self.app.size.width >= WIDE
        lines = [Content.styled("Try one: press ↓ and Enter, or click", "$muted")] if self._heading else []
        for place, starter in enumerate(STARTERS):
            line = Content(f"› {starter.title:<28}" if wide else f"› {starter.title}")
            if wide:
                line += Content.styled(starter.promise, "" if place == self.marked else "$muted")
            marked = "$block-cursor-foreground on $block-cursor-background"
            lines.append(line.stylize(marked) if place == self.marked else line)
        return Content("\n").join([*lines, *[Content()] * self._heading])

    def on_click(self, event: Click) -> None:
        place = event.y - self._heading
        if 0 <= place < len(STARTERS):
            self.marked = place
            self.take()

    def on_resize(self) -> None:
        self.refresh(layout=True)

    @property
    def _heading(self) -> bool:
        return self.app.size.height >= TALL

    def _settle(self) -> None:
        self.display = self._offered and not self._in_the_way
        if not self.display:
            self.marked = None
