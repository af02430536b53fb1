"""The conversation on the screen: one widget that draws only the lines that are seen."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.message import Message

from app.chat.conversation import Answer, Conversation, Exchange, Question
from app.process.events import Step
from app.tui.transcript.answer import AnswerLines, Drawing, Keys
from app.tui.transcript.colouring import Level
from app.tui.transcript.exchange import VERSION, ExchangeLines, Note, NoteKind, version_step
from app.tui.transcript.flow import Line
from app.tui.transcript.following import FollowingCanvas
from app.tui.transcript.palette import COMPONENTS
from app.tui.transcript.place import Place, find, place_of
from app.tui.transcript.sheet import Sheet
from app.tui.transcript.top import WELCOME, earlier_lines, welcome_lines

# So many exchanges are laid out at once, the newest first; older ones when the reader comes to them.
LAID_OUT = 20

# After text that is slow to draw, such as a table of hundreds of rows, nothing is drawn for so many times as
# long: neither keys nor the model are to wait for it. A rest that would hold up no batch of tokens is none.
RESTS = 10
SHORTEST_REST = 0.15

# Longer lines than this many cells are hard to read on.
WIDEST = 104


class Transcript(FollowingCanvas, can_focus=True):
    """The exchanges of a conversation.

    It follows the end while the reader is there, and else keeps the line at the top of the view where it
    is, whatever grows, folds or is drawn anew above or below. It knows no engine: it is told.
    """

    DEFAULT_CSS = Path(__file__).with_name("transcript.tcss").read_text("utf-8")
    COMPONENT_CLASSES: ClassVar[set[str]] = COMPONENTS

    class VersionWanted(Message):
        """The version before (step -1) or after (1) of the exchange at `index` is to be shown. y: the row of
        the view that was clicked."""

        def __init__(self, index: int, step: int, y: int) -> None:
            self.index, self.step, self.y = index, step, y
            super().__init__()

    def __init__(
        self,
        model_name: str = "model",
        welcome: Sequence[str] = WELCOME,
        *,
        keys: Keys | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._model_name = model_name
        self._welcome = tuple(welcome)
        self._keys = keys or Keys()
        self._level: Level = 0
        self._theme = "dark"
        self._thoughts = False
        self._exchanges: list[ExchangeLines] = []
        self._first = 0
        self._notes: list[Note] = []
        self._drawn_in = self._resting_until = 0.0

    # What it is told ------------------------------------------------------------------------------

    @property
    def model_name(self) -> str:
        """The name above the answers."""
        return self._model_name

    @model_name.setter
    def model_name(self, name: str) -> None:
        self._model_name = name
        self._redraw()

    def show(self, conversation: Conversation) -> None:
        """Show this conversation in place of everything, from its end."""
        self._exchanges = [ExchangeLines(exchange) for exchange in conversation.exchanges]
        self._first = max(0, len(self._exchanges) - LAID_OUT)
        self._notes.clear()
        if self.is_mounted:
            self.screen.clear_selection()
        self._mark(conversation.unsent)
        self.follow()
        self._redraw()

    def reveal(self, index: int, y: int) -> None:
        """Have the heading of the exchange at `index` in row `y` of the view, as near as can be."""
        if index >= len(self._exchanges) or self._drawing is None:
            return
        self._first = min(self._first, index)
        self._redraw()
        lines = self._exchanges[index].lines
        row = next((row for row, line in enumerate(lines) if line.action == VERSION), 0)
        self.scroll_to(y=self.sheet.start(index - self._first + 1) + row - y, animate=False)

    def ask(self, question: Question) -> None:
        """Add an exchange. The reader, who asked, is taken to the end."""
        self._exchanges.append(ExchangeLines(Exchange(question)))
        self.follow()
        self._redraw()

    def begin_answer(self, begun: Answer | None = None) -> None:
        """The last question is being answered, anew or, with `begun`, from where it was cut."""
        with self._keeping_place():
            self._last.answer = AnswerLines(begun and _unended(begun))
            self._redraw_last()

    def reading(self, done: int, total: int) -> None:
        """The prompt is being read: `done` of `total` tokens."""
        answer = self._last.answer
        if answer is not None:
            with self._keeping_place():
                answer.reading(done, total)
                self._rejoin_last()

    def extend(self, steps: Sequence[Step]) -> None:
        """The growing answer goes on with these passes; to be called with batches, 8 to 10 a second."""
        answer = self._last.answer
        if answer is None or not answer.growing:
            return
        answer.add(steps)
        if time.monotonic() >= self._resting_until:
            self._grow()

    def _grow(self) -> None:
        answer, drawing = self._last.answer if self._exchanges else None, self._drawing
        if answer is None or not answer.growing or drawing is None:
            return
        begun = time.thread_time()
        with self._keeping_place():
            answer.grow(drawing)
            self._last.join(drawing)
            if answer.legend != answer.coloured:
                self._redraw_all()
        before, self._drawn_in = self._drawn_in, time.thread_time() - begun
        # A single long one, as when a lexer is loaded, says nothing.
        if (pause := RESTS * min(before, self._drawn_in)) > SHORTEST_REST:
            self._resting_until = time.monotonic() + pause
            self.set_timer(pause, self._grow)

    def end_answer(self, answer: Answer) -> None:
        """The growing answer is done, and this is what it is."""
        self.tell_news()
        with self._keeping_place():
            lines = AnswerLines(answer)
            lines.follow(self._last.answer)
            self._last.answer = lines
            self._redraw_last()
            self._redraw_all()

    def note(self, text: str, kind: NoteKind = "information") -> None:
        """Say one sentence below the last exchange. It is no part of the conversation."""
        self.tell_news()
        with self._keeping_place():
            if self._exchanges:
                self._last.notes.append(Note(text, kind))
                self._rejoin_last()
            else:
                self._notes.append(Note(text, kind))

    def set_colours(self, level: Level, theme: str) -> None:
        """0: none; 1: accepted drafts; 2: rejected ones too. theme: as `token_style` takes it."""
        self._level = level
        self._theme = theme
        self._redraw()

    @property
    def colours(self) -> tuple[Level, str]:
        """What was set last."""
        return self._level, self._theme

    def name_keys(self, keys: Keys) -> None:
        """Call keys so in lines that speak of them."""
        self._keys = keys
        self._redraw()

    def toggle_thoughts(self) -> None:
        """Unfold all thoughts, those to come too, or fold them."""
        self._thoughts = not self._thoughts
        if self._thoughts and not self._growing:
            # What is unfolded at the end is read from its beginning.
            self.stay()
        for exchange in self._exchanges:
            if exchange.answer is not None:
                exchange.answer.refold()
        self._redraw()

    def mark_unsent(self, count: int) -> None:
        """Draw the rule that says that the oldest `count` exchanges are not sent any more."""
        with self._keeping_place():
            self._mark(count)
            self._redraw_all()

    def toggle_questions(self) -> None:
        """Fold or unfold the long questions that are in view."""
        drawing = self._drawing
        if drawing is None:
            return
        top = int(self.scroll_y)
        with self._keeping_place():
            for part in self.sheet.between(top, top + self.size.height):
                if part > 0 and (exchange := self._exchanges[self._first + part - 1]).foldable:
                    exchange.turn_question(drawing)

    # Drawing --------------------------------------------------------------------------------------

    def reached_top(self) -> None:
        """Lay out older exchanges, where there are some."""
        if self._first:
            self.screen.clear_selection()
            with self._keeping_place():
                self._first = max(0, self._first - LAID_OUT)
                self._redraw_all()

    def on_resize(self) -> None:
        self.forget()
        if self.following:
            # Else a terminal that is dragged wider lays out all that was ever looked at, each time.
            self._first = max(self._first, len(self._exchanges) - LAID_OUT)
        self._redraw()

    def restyled(self) -> None:
        self._redraw()

    @property
    def _growing(self) -> bool:
        answer = self._exchanges[-1].answer if self._exchanges else None
        return answer is not None and answer.growing

    @property
    def _last(self) -> ExchangeLines:
        return self._exchanges[-1]

    @property
    def _drawing(self) -> Drawing | None:
        """None while there is no room to draw in."""
        # One cell stays free before the scrollbar.
        width = min(self.width - 1, WIDEST) if self.is_mounted else 0
        if width <= 0:
            return None
        return Drawing(
            width, self.palette, self._model_name, self._level, self._theme, self._thoughts, self._keys
        )

    def _mark(self, count: int) -> None:
        for index, exchange in enumerate(self._exchanges):
            exchange.first_sent = index == count > 0

    def _redraw(self) -> None:
        with self._keeping_place():
            self._redraw_all()

    def _redraw_all(self) -> None:
        """Lay out anew what is laid out and would look otherwise."""
        drawing = self._drawing
        explained = next(
            (each for each in reversed(self._exchanges) if each.answer and each.answer.coloured), None
        )
        for exchange in self._exchanges:
            if exchange.answer is not None:
                exchange.answer.legend = exchange is explained
        if drawing is not None:
            for exchange in self._exchanges[self._first :]:
                exchange.draw_where_changed(drawing)

    def _redraw_last(self) -> None:
        drawing = self._drawing
        if drawing is not None:
            self._last.draw(drawing)

    def _rejoin_last(self) -> None:
        """Only what stands beside the texts has changed: they need not be wrapped anew."""
        drawing = self._drawing
        if drawing is not None:
            if self._last.answer is not None:
                self._last.answer.join(drawing)
            self._last.join(drawing)

    @contextmanager
    def _keeping_place(self) -> Iterator[None]:
        """Whatever changes in here, the reader stays with the same text."""
        held = None if self.following else self._held()
        yield
        self._settle(held)

    def _held(self) -> tuple[ExchangeLines, Place] | None:
        at = self.sheet.at(int(self.scroll_y))
        if at is None or len(self.sheet.parts) < 2:
            return None
        # The line above the first exchange stands for that exchange.
        part, index = at if at[0] > 0 else (1, 0)
        return self._exchanges[self._first + part - 1], place_of(self.sheet.parts[part], index)

    def _settle(self, held: tuple[ExchangeLines, Place] | None) -> None:
        """Take over what was drawn, with `held` at the top of the view unless the end is followed."""
        drawing = self._drawing
        if drawing is None:
            return
        shown = self._exchanges[self._first :]
        sheet = Sheet([self._top(drawing), *(exchange.lines for exchange in shown)])
        top = None
        if held is not None and held[0] in shown:
            exchange, place = held
            top = sheet.start(shown.index(exchange) + 1) + find(exchange.lines, place)
        self.place(sheet, top, growing=self._growing)

    def _top(self, drawing: Drawing) -> list[Line]:
        if self._first:
            return earlier_lines(self._first, drawing)
        if self._exchanges:
            return []
        return welcome_lines(self._welcome, self._notes, drawing, self.size.height)

    # Mouse ------------------------------------------------------------------------------------------

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        drawing = self._drawing
        if offset is None or drawing is None or self.text_selection is not None:
            return
        if offset.y == self.size.height - 1 and offset.x >= self.width - cell_len(self.hint):
            self.go_to_end()
            return
        at = self.sheet.at(offset.y + self.scroll_offset.y)
        if at is None:
            return
        part, index = at
        line = self.sheet.parts[part][index]
        if part == 0:
            self.reached_top()
        elif line.action == VERSION:
            if step := version_step(line.text, offset.x):
                self.post_message(self.VersionWanted(self._first + part - 1, step, offset.y))
        elif action := line.action:
            # What is unfolded at the end is read from its beginning.
            self.stay()
            with self._keeping_place():
                self._exchanges[self._first + part - 1].act(action, drawing)


def _unended(answer: Answer) -> Answer:
    return replace(answer, end=None, figures=None)
