"""One exchange as lines: the question with its documents, the answer, and what was noted after it."""

from __future__ import annotations

from dataclasses import replace

from rich.cells import cell_len

from app.chat.conversation import Exchange
from app.text import clean
from app.tui.cells import shortened
from app.tui.numbers import counted
from app.tui.transcript.answer import FOLD, AnswerLines
from app.tui.transcript.auto_scroll import BLANK_ROWS
from app.tui.transcript.notes import Note, note_lines
from app.tui.transcript.rendering import RenderOptions
from app.tui.transcript.wrapping import Line, Run, blank, wrapped, wrapped_items

# A longer question shows this many lines until it is unfolded.
QUESTION_LINES = 12

# The action of a line on which a click shows another version.
VERSION = "version"

_QUESTION = "question"


class ExchangeLines:
    """The lines of an exchange. first_sent: whether a rule above it says that older ones are not sent."""

    def __init__(self, exchange: Exchange) -> None:
        self._question = exchange.question
        self._version = f"‹ {exchange.version}/{exchange.versions} ›" if exchange.versions > 1 else ""
        self.answer = AnswerLines(exchange.answer) if exchange.answer is not None else None
        self.notes: list[Note] = []
        self.first_sent = False
        self._unfolded = False
        self.lines: list[Line] = []
        self._head: list[Line] = []
        self._words = [len(document.text.split()) for document in exchange.question.documents]
        self._rendered: tuple[RenderOptions, bool, bool] | None = None

    def answered_by(self, answer: AnswerLines) -> None:
        """Show this answer from now on."""
        self.answer = answer
        self._rendered = None

    def render(self, options: RenderOptions) -> None:
        """Render everything, unless these lines were rendered like that already."""
        look = options, self.first_sent, self.answer is not None and self.answer.legend
        if self._rendered == look:
            return
        self._rendered = look
        self._head = self._question_lines(options)
        if self.answer is not None:
            self.answer.render(options)
        self.join(options)

    def join(self, options: RenderOptions) -> None:
        """Put the lines together after the answer or the notes have changed."""
        lines = list(self._head)
        if self.answer is not None:
            lines += [blank("model"), *self.answer.lines]
        lines += note_lines(self.notes, options)
        self.lines = lines + [blank("end")] * BLANK_ROWS

    def act(self, action: str, options: RenderOptions) -> None:
        """Do what a click on a line with that action does."""
        if action == FOLD + _QUESTION:
            self.toggle_question(options)
        elif self.answer is not None:
            self.answer.toggle(int(action.removeprefix(FOLD)), options)
            self.join(options)

    def toggle_question(self, options: RenderOptions) -> None:
        """Fold a long question, or unfold it."""
        self._unfolded = not self._unfolded
        self._head = self._question_lines(options)
        self.join(options)

    @property
    def foldable(self) -> bool:
        """Whether the question is so long that it folds."""
        return any(line.action == FOLD + _QUESTION for line in self._head)

    def _question_lines(self, options: RenderOptions) -> list[Line]:
        palette, width = options.palette, options.width
        lines: list[Line] = []
        if self.first_sent:
            left, text = "── ", "no longer sent to the model"
            right = " " + "─" * max(0, width - len(left) - len(text) - 1)
            rule = [Run(left, palette.rule), Run(text, palette.faint), Run(right, palette.rule)]
            lines += [*wrapped(rule, width, "rule"), blank("rule")]
        you = wrapped([Run("you", palette.you), Run(f"  {self._version}", palette.muted)], width, "you")
        lines += [replace(line, action=VERSION if self._version else "") for line in you]
        chips = [
            _chip(document.name, words, options)
            for document, words in zip(self._question.documents, self._words, strict=True)
        ]
        lines += wrapped_items(chips, width, Run("    ", palette.body), "documents")
        text = clean(self._question.text).strip("\n")
        if not text.strip():
            return lines
        body = wrapped([Run(text, palette.body)], width, _QUESTION)
        hidden = len(body) - QUESTION_LINES
        # A fold of two lines or fewer would save no room.
        if hidden <= 2:
            return lines + body
        fold = (
            "▴ fold the question" if self._unfolded else f"▾ {hidden:,} more lines · click or /fold unfolds"
        )
        line = wrapped([Run(fold, palette.faint)], width, _QUESTION)[0]
        shown = body if self._unfolded else body[:QUESTION_LINES]
        return [*lines, *shown, replace(line, action=FOLD + _QUESTION)]


def version_step(text: str, x: int) -> int:
    """Which version a click on that cell of a line with `‹ 2/3 ›` shows: -1 or 1, or 0 beside it."""
    start, end = text.find("‹"), text.find("›")
    return 0 if not start <= x <= end else -1 if 2 * x < start + end else 1


def _chip(name: str, words: int, options: RenderOptions) -> list[Run]:
    count = f"  {counted(words, 'word')}"
    name = shortened(name, max(8, options.width - cell_len(count) - 2))
    palette = options.palette
    return [Run("▣ ", palette.accent), Run(name, palette.body), Run(count, palette.faint)]
