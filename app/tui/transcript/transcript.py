"""The conversation on the screen: one widget that renders only what is near, and paints only what is seen."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.message import Message
from textual.reactive import reactive

from app.chat.conversation import Answer, Conversation, Exchange, Question
from app.process.events import Step
from app.tui.transcript.answer import AnswerLines
from app.tui.transcript.auto_scroll import AutoScrollView
from app.tui.transcript.colouring import Level
from app.tui.transcript.exchange import VERSION, ExchangeLines, version_step
from app.tui.transcript.line_index import LineIndex
from app.tui.transcript.notes import Note, NoteKind, earlier_lines, welcome_lines
from app.tui.transcript.position import Position, position_of, row_of
from app.tui.transcript.rendering import COMPONENTS, KeyNames, RenderOptions
from app.tui.transcript.wrapping import Line

# How many exchanges are laid out at once, the newest first; older ones when the reader comes to them.
LAID_OUT = 20

# After text that is slow to render, such as a table of hundreds of rows, nothing is rendered for this many
# times as long: keys and the model must not wait. A rest too short to delay a batch of tokens is left out.
RESTS = 10
SHORTEST_REST = 0.15

# Longer lines than this many cells are hard to read.
WIDEST = 104


class Transcript(AutoScrollView, can_focus=True):
    """The exchanges of a conversation.

    It follows the end while the reader is there. Otherwise the line at the top of the view stays where it is,
    whatever streams, folds or is rendered again above or below. The app says what to show: no engine here.
    """

    DEFAULT_CSS = Path(__file__).with_name("transcript.tcss").read_text("utf-8")
    COMPONENT_CLASSES: ClassVar[set[str]] = COMPONENTS

    # The name above the answers.
    model_name: reactive[str] = reactive("model", repaint=False)

    @dataclass
    class VersionWanted(Message):
        """The version before (step -1) or after (1) of the exchange at `index` is wanted.

        y: the row of the view that was clicked.
        """

        index: int
        step: int
        y: int

    def __init__(self, model_name: str = "model", *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.set_reactive(Transcript.model_name, model_name)
        self._keys = KeyNames()
        self._level: Level = 0
        self._theme = "dark"
        self._thoughts = False
        self._exchanges: list[ExchangeLines] = []
        # The first exchange that is laid out.
        self._first = 0
        # What was noted before the first question.
        self._notes: list[Note] = []
        self._render_seconds = self._resting_until = 0.0

    # What the app calls ----------------------------------------------------------------------------

    def watch_model_name(self) -> None:
        self._render_changed()

    def show(self, conversation: Conversation) -> None:
        """Show this conversation instead, from its end."""
        self._exchanges = [ExchangeLines(exchange) for exchange in conversation.exchanges]
        self._first = max(0, len(self._exchanges) - LAID_OUT)
        self._notes.clear()
        if self.is_mounted:
            self.screen.clear_selection()
        self._mark(conversation.unsent)
        self.follow()
        self._render_changed()

    def reveal(self, index: int, y: int) -> None:
        """Scroll the heading of the exchange at `index` to row `y` of the view, or as near as can be."""
        if index >= len(self._exchanges) or self._options is None:
            return
        self._first = min(self._first, index)
        self._render_changed()
        lines = self._exchanges[index].lines
        row = next((row for row, line in enumerate(lines) if line.action == VERSION), 0)
        self.scroll_to(y=self.line_index.start(index - self._first + 1) + row - y, animate=False)

    def ask(self, question: Question) -> None:
        """Add an exchange, and go to the end."""
        self._exchanges.append(ExchangeLines(Exchange(question)))
        self.follow()
        self._render_changed()

    def begin_answer(self, begun: Answer | None = None) -> None:
        """The last question is being answered: from the beginning, or from where `begun` was cut."""
        self._last.answered_by(AnswerLines(begun and replace(begun, end=None, figures=None)))
        self._render_changed()

    def reading(self, done: int, total: int) -> None:
        """The model has read `done` of `total` tokens of the prompt."""
        answer = self._last.answer
        if answer is not None:
            with self._keeping_position():
                answer.reading(done, total)
                self._join_last()

    def extend(self, steps: Sequence[Step]) -> None:
        """The streaming answer goes on with these passes. To be called with batches, 8 to 10 a second."""
        answer = self._streaming_answer
        if answer is not None:
            answer.add(steps)
            if time.monotonic() >= self._resting_until:
                self._extend()

    def _extend(self) -> None:
        answer, options = self._streaming_answer, self._options
        if answer is None or options is None:
            return
        begun = time.thread_time()
        with self._keeping_position():
            answer.extend(options)
            self._last.join(options)
            if answer.legend != answer.coloured:
                self._render_all()
        before, self._render_seconds = self._render_seconds, time.thread_time() - begun
        # One slow rendering alone, as when a lexer is imported, means nothing.
        if (rest := RESTS * min(before, self._render_seconds)) > SHORTEST_REST:
            self._resting_until = time.monotonic() + rest
            self.set_timer(rest, self._extend)

    def end_answer(self, answer: Answer) -> None:
        """The streaming answer is done, and this is what it is."""
        self.count_news()
        lines = AnswerLines(answer)
        lines.take_over(self._last.answer)
        self._last.answered_by(lines)
        self._render_changed()

    def note(self, text: str, kind: NoteKind = "information") -> None:
        """Say one sentence below the last exchange. It is no part of the conversation."""
        self.count_news()
        with self._keeping_position():
            if self._exchanges:
                self._last.notes.append(Note(text, kind))
                self._join_last()
            else:
                self._notes.append(Note(text, kind))

    def set_colours(self, level: Level, theme: str) -> None:
        """level 0: none; 1: accepted drafts; 2: rejected ones too. theme: as `token_style` takes it."""
        self._level = level
        self._theme = theme
        self._render_changed()

    @property
    def colours(self) -> tuple[Level, str]:
        """The level and the theme that were set last."""
        return self._level, self._theme

    def name_keys(self, keys: KeyNames) -> None:
        """Use these names for keys."""
        self._keys = keys
        self._render_changed()

    def toggle_thoughts(self) -> None:
        """Unfold all thoughts, also those to come, or fold them."""
        self._thoughts = not self._thoughts
        if self._thoughts and self._streaming_answer is None:
            # What is unfolded at the end is read from its beginning.
            self.stop_following()
        for exchange in self._exchanges:
            if exchange.answer is not None:
                exchange.answer.forget_toggled()
        self._render_changed()

    def toggle_questions(self) -> None:
        """Fold or unfold the long questions that are in view."""
        options = self._options
        if options is None:
            return
        top = int(self.scroll_y)
        with self._keeping_position():
            for part in self.line_index.between(top, top + self.size.height):
                if part > 0 and (exchange := self._exchanges[self._first + part - 1]).foldable:
                    exchange.toggle_question(options)

    # Rendering ------------------------------------------------------------------------------------

    def reached_top(self) -> None:
        """Lay out older exchanges, if there are any."""
        if self._first:
            self.screen.clear_selection()
            with self._keeping_position():
                self._first = max(0, self._first - LAID_OUT)
                self._render_all()

    def on_resize(self) -> None:
        self.forget_painted()
        if self.following:
            # Or dragging a terminal's edge would lay out all that was ever looked at, at each step.
            self._first = max(self._first, len(self._exchanges) - LAID_OUT)
        self._render_changed()

    def restyled(self) -> None:
        self._render_changed()

    @property
    def _last(self) -> ExchangeLines:
        return self._exchanges[-1]

    @property
    def _streaming_answer(self) -> AnswerLines | None:
        answer = self._last.answer if self._exchanges else None
        return answer if answer is not None and answer.streaming else None

    @property
    def _options(self) -> RenderOptions | None:
        """None while there is no room to draw in."""
        # One cell stays free before the scrollbar.
        width = min(self.width - 1, WIDEST) if self.is_mounted else 0
        if width <= 0:
            return None
        names = self.model_name, self._level, self._theme, self._thoughts, self._keys
        return RenderOptions(width, self.palette, *names)

    def _mark(self, unsent: int) -> None:
        """Have a rule below the oldest `unsent` exchanges, which are not sent any more."""
        for index, exchange in enumerate(self._exchanges):
            exchange.first_sent = index == unsent > 0

    def _render_changed(self) -> None:
        with self._keeping_position():
            self._render_all()

    def _render_all(self) -> None:
        """Render what is laid out and would look different now."""
        explaining = next(
            (each for each in reversed(self._exchanges) if each.answer and each.answer.coloured), None
        )
        for exchange in self._exchanges:
            if exchange.answer is not None:
                exchange.answer.legend = exchange is explaining
        options = self._options
        if options is not None:
            for exchange in self._exchanges[self._first :]:
                exchange.render(options)

    def _join_last(self) -> None:
        """Put the last exchange together after something beside its texts has changed."""
        options = self._options
        if options is not None:
            if self._last.answer is not None:
                self._last.answer.join(options)
            self._last.join(options)

    @contextmanager
    def _keeping_position(self) -> Iterator[None]:
        """Whatever changes in here, the reader stays with the same text."""
        held = None if self.following else self._reader()
        yield
        self._show_rendered(held)

    def _reader(self) -> tuple[ExchangeLines, Position] | None:
        """The exchange and the line at the top of the view."""
        at = self.line_index.at(int(self.scroll_y))
        if at is None or len(self.line_index.parts) < 2:
            return None
        # The line above the first exchange counts as that exchange.
        part, index = at if at[0] > 0 else (1, 0)
        return self._exchanges[self._first + part - 1], position_of(self.line_index.parts[part], index)

    def _show_rendered(self, held: tuple[ExchangeLines, Position] | None) -> None:
        """Show what was rendered, with `held` at the top of the view unless the end is followed."""
        options = self._options
        if options is None:
            return
        shown = self._exchanges[self._first :]
        index = LineIndex([self._above(options), *(exchange.lines for exchange in shown)])
        top = None
        if held is not None and held[0] in shown:
            exchange, position = held
            top = index.start(shown.index(exchange) + 1) + row_of(exchange.lines, position)
        self.show_lines(index, top, streaming=self._streaming_answer is not None)

    def _above(self, options: RenderOptions) -> list[Line]:
        """What stands above the exchanges."""
        if self._first:
            return earlier_lines(self._first, options)
        return [] if self._exchanges else welcome_lines(self._notes, options, self.size.height)

    # Mouse ------------------------------------------------------------------------------------------

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        options = self._options
        if offset is None or options is None or self.text_selection is not None:
            return
        if offset.y == self.size.height - 1 and offset.x >= self.width - cell_len(self.hint):
            self.go_to_end()
            return
        at = self.line_index.at(offset.y + self.scroll_offset.y)
        if at is None:
            return
        part, index = at
        line = self.line_index.parts[part][index]
        if part == 0:
            self.reached_top()
        elif line.action == VERSION:
            if step := version_step(line.text, offset.x):
                self.post_message(self.VersionWanted(self._first + part - 1, step, offset.y))
        elif action := line.action:
            # What is unfolded at the end is read from its beginning.
            self.stop_following()
            with self._keeping_position():
                self._exchanges[self._first + part - 1].act(action, options)
