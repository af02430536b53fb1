"""One exchange as lines: the question with its documents, the answer, and what was noted after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rich.cells import cell_len

from app.chat.conversation import Exchange
from app.chat.gate import clean
from app.tui.transcript.answer import FOLD, AnswerLines, Drawing
from app.tui.transcript.flow import Line, Run, flow, items
from app.tui.transcript.following import CLOSING

NoteKind = Literal["information", "warning", "error"]

# A longer question shows so many lines until it is unfolded.
QUESTION_LINES = 12

# The action of a line on which versions are walked.
VERSION = "version"

_BLANK = flow([], 80)[0]
_QUESTION = "question"


@dataclass(frozen=True, slots=True)
class Note:
    """One calm sentence about what happened."""

    text: str
    kind: NoteKind


class ExchangeLines:
    """The lines of an exchange. first_sent: a rule above it says that what is older is not sent."""

    def __init__(self, exchange: Exchange) -> None:
        self.question = exchange.question
        self._version = f"‹ {exchange.version}/{exchange.versions} ›" if exchange.versions > 1 else ""
        self.answer = AnswerLines(exchange.answer) if exchange.answer is not None else None
        self.notes: list[Note] = []
        self.first_sent = False
        self._unfolded = False
        self.lines: list[Line] = []
        self._head: list[Line] = []
        self._words = [len(document.text.split()) for document in exchange.question.documents]
        self._drawn: tuple[Drawing, bool, bool] | None = None

    def draw(self, drawing: Drawing) -> None:
        """Lay out everything anew."""
        self._head = self._question(drawing)
        if self.answer is not None:
            self.answer.draw(drawing)
        self._drawn = self._look(drawing)
        self.join(drawing)

    def draw_where_changed(self, drawing: Drawing) -> None:
        """Lay out anew unless these lines were drawn like that already."""
        if self._drawn != self._look(drawing):
            self.draw(drawing)

    def _look(self, drawing: Drawing) -> tuple[Drawing, bool, bool]:
        return drawing, self.first_sent, self.answer is not None and self.answer.legend

    def join(self, drawing: Drawing) -> None:
        """Put the lines together after the answer or the notes changed."""
        lines = list(self._head)
        if self.answer is not None:
            lines += [replace(_BLANK, block="model"), *self.answer.lines]
        lines += note_lines(self.notes, drawing)
        lines += [replace(_BLANK, block="end")] * CLOSING
        self.lines = lines

    def act(self, action: str, drawing: Drawing) -> None:
        """Do what a click on a line of that action does."""
        if action == FOLD + _QUESTION:
            self.turn_question(drawing)
        elif self.answer is not None:
            self.answer.turn(int(action.removeprefix(FOLD)), drawing)
            self.join(drawing)

    def turn_question(self, drawing: Drawing) -> None:
        """Fold a long question, or unfold it."""
        self._unfolded = not self._unfolded
        self._head = self._question(drawing)
        self.join(drawing)

    @property
    def foldable(self) -> bool:
        """Whether the question is so long that it folds."""
        return any(line.action == FOLD + _QUESTION for line in self._head)

    def _question(self, drawing: Drawing) -> list[Line]:
        palette = drawing.palette
        width = drawing.width
        lines: list[Line] = []
        if self.first_sent:
            lines += [*_rule("not sent any more", drawing), replace(_BLANK, block="rule")]
        you = flow([Run("you", palette.you), Run(f"  {self._version}", palette.muted)], width, "you")
        lines += [replace(line, action=VERSION if self._version else "") for line in you]
        chips = [
            _chip(document.name, words, drawing)
            for document, words in zip(self.question.documents, self._words, strict=True)
        ]
        lines += items(chips, width, Run("    ", palette.body), "documents")
        text = clean(self.question.text).strip("\n")
        if not text.strip():
            return lines
        body = flow([Run(text, palette.body)], width, _QUESTION)
        hidden = len(body) - QUESTION_LINES
        # Two lines of text rather than one that says that they are hidden.
        if hidden <= 2:
            return lines + body
        if self._unfolded:
            return lines + body + [_fold("▴ fold the question", drawing)]
        return (
            lines
            + body[:QUESTION_LINES]
            + [_fold(f"▾ {hidden:,} more lines · click or /fold unfolds", drawing)]
        )


def version_step(text: str, x: int) -> int:
    """What a click on that cell of a line with `‹ 2/3 ›` walks: -1 or 1, 0 beside it."""
    start, end = text.find("‹"), text.find("›")
    return 0 if not start <= x <= end else -1 if 2 * x < start + end else 1


def note_lines(notes: Sequence[Note], drawing: Drawing) -> list[Line]:
    """Each note with a bar in the colour of its kind."""
    palette = drawing.palette
    styles = {"information": palette.bar, "warning": palette.warning, "error": palette.error}
    lines: list[Line] = []
    for number, note in enumerate(notes):
        block = f"note {number}"
        bar = Run("▎ ", styles[note.kind])
        lines.append(replace(_BLANK, block=block))
        lines += flow([Run(clean(note.text), palette.muted)], drawing.width, block, [bar])
    return lines


def _chip(name: str, words: int, drawing: Drawing) -> list[Run]:
    name = " ".join(clean(name).split())
    count = f"  {words:,} word{'' if words == 1 else 's'}"
    room = max(8, drawing.width - cell_len(count) - 2)
    if cell_len(name) > room:
        # The end of a name tells more than its middle.
        name = name[: room // 2 - 1] + "…" + name[-(room // 2 - 1) :]
    palette = drawing.palette
    return [Run("▣ ", palette.accent), Run(name, palette.body), Run(count, palette.faint)]


def _fold(text: str, drawing: Drawing) -> Line:
    line = flow([Run(text, drawing.palette.faint)], drawing.width, _QUESTION)[0]
    return replace(line, action=FOLD + _QUESTION)


def _rule(text: str, drawing: Drawing) -> list[Line]:
    left = "── "
    right = " " + "─" * max(0, drawing.width - len(left) - len(text) - 1)
    palette = drawing.palette
    return flow(
        [Run(left, palette.rule), Run(text, palette.faint), Run(right, palette.rule)], drawing.width, "rule"
    )
