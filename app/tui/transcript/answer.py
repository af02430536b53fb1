"""One answer as lines: its thoughts, its text while it grows and when it is done, its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from app.chat.conversation import Answer
from app.chat.gain import gain_sentence
from app.chat.gate import clean
from app.chat.thinking import ReplyPart, split
from app.process.messages import Step
from app.tui.transcript.colouring import Level, Trail, TrailInk, legend
from app.tui.transcript.ending import cut_short, ending
from app.tui.transcript.flow import Line, Run, flow, items
from app.tui.transcript.markdown import MarkdownLines, uncoloured
from app.tui.transcript.palette import Palette

FOLD = "fold "


@dataclass(frozen=True, slots=True)
class Keys:
    """How the keys are called that lines speak of; a person may have given them others."""

    thoughts: str = "Ctrl+G"
    go_on: str = "Ctrl+L"


@dataclass(frozen=True, slots=True)
class Drawing:
    """All that lines depend on but their text. theme: its settings name. thoughts: shown unfolded."""

    width: int
    palette: Palette
    model_name: str = "model"
    level: Level = 0
    theme: str = "dark"
    thoughts: bool = False
    keys: Keys = Keys()


@dataclass(slots=True)
class _Section:
    """A part on the screen. text: its lines, unless it is a thought that was folded."""

    part: ReplyPart
    lines: list[Line] = field(default_factory=list)
    text: MarkdownLines | None = None


class AnswerLines:
    """The lines of an answer, kept while nothing that they depend on changes.

    legend: whether this answer is the one that explains the colours.
    """

    def __init__(self, answer: Answer | None = None) -> None:
        """None, or an answer without an end: one that grows from what is there."""
        self.legend = False
        self.text = ""
        self.lines: list[Line] = []
        self._answer = answer
        self._growing = answer is None or answer.end is None
        self._trail = Trail()
        self._traceable = True
        self._state = ""
        self._turned: set[int] = set()
        # Counted once: it looks at every token.
        self._earned: str | None = None
        self._sections: list[_Section] = []
        if answer is not None:
            self.text = clean(answer.text)
            trail = Trail(answer.pieces, answer.origins, answer.rejected)
            self._traceable = trail.text.startswith(self.text)
            self._trail = trail

    @property
    def growing(self) -> bool:
        return self._growing

    @property
    def coloured(self) -> bool:
        """Whether it is known where its tokens came from."""
        return self._traceable and len(self._trail) > 0

    def reading(self, done: int, total: int) -> None:
        """The prompt is being read, `done` of `total` tokens."""
        self._state = f"reading {done:,} of {total:,} tokens"

    def add(self, steps: Sequence[Step]) -> None:
        """Take what these passes brought; `grow` shows it."""
        self._state = ""
        for step in steps:
            known = len(self.text)
            self.text += clean(step.entry.text)
            before = min(step.entry.accepted, len(step.pieces))
            self._trail.add(step.pieces, step.entry.origins, before, step.rejected)
            if self._trail.text[known : len(self.text)] != self.text[known:]:
                # What the pieces say is not what is shown: no colours are better than false ones.
                self._traceable = False

    def grow(self, drawing: Drawing) -> None:
        """Lay out what was added, at the cost of the new text only."""
        parts = split(self.text, streaming=True)
        kept = [section.part for section in self._sections]
        if len(parts) < len(kept) or any(
            (old.kind, old.start) != (new.kind, new.start) or (index + 1 < len(kept) and old != new)
            for index, (old, new) in enumerate(zip(kept, parts, strict=False))
        ):
            self.draw(drawing)
            return
        for part in parts[len(kept) :]:
            self._sections.append(_Section(part))
        for index in range(max(0, len(kept) - 1), len(parts)):
            self._grow(index, parts[index], drawing)
        self.join(drawing)

    def follow(self, grown: AnswerLines | None) -> None:
        """Take the place of the answer that grew: thoughts stay as they were folded."""
        if grown is not None:
            self._turned = set(grown._turned)
            self.legend = grown.legend

    def turn(self, index: int, drawing: Drawing) -> None:
        """Fold the thought of that section, or unfold it."""
        self._turned ^= {index}
        self.draw(drawing)

    def draw(self, drawing: Drawing) -> None:
        """Lay out everything anew."""
        self._sections = [_Section(part) for part in split(self.text, streaming=self._growing)]
        for index, section in enumerate(self._sections):
            self._grow(index, section.part, drawing)
        self.join(drawing)

    def refold(self) -> None:
        """Forget which thoughts were turned one by one: all are to be alike."""
        self._turned.clear()

    def _grow(self, index: int, part: ReplyPart, drawing: Drawing) -> None:
        section = self._sections[index]
        section.part = part
        palette = drawing.palette
        thought = part.kind == "thought"
        unfolded = thought and drawing.thoughts != (index in self._turned)
        section.lines = [self._thought_head(index, part, unfolded, drawing)] if thought else []
        if thought and not unfolded:
            return
        ink = self._ink(drawing)
        if section.text is None:
            section.text = MarkdownLines(
                drawing.width,
                palette,
                f"part {index}",
                part.start,
                left=(Run("▏ ", palette.bar),) if thought else (),
                style=palette.muted if thought else palette.body,
                ink=ink or uncoloured,
            )
        last = index + 1 == len(self._sections)
        section.text.draw(self.text[part.start : part.end], growing=self._growing and last)
        section.lines += section.text.lines
        if ink and last and not self._growing:
            # What was drafted where the answer ended.
            ghosts = self._trail.ghosts(section.text.inked, len(self.text) + 1)
            rest = ink.rejected(ghosts, palette.body)
            section.lines += flow(rest, drawing.width, f"part {index}") if rest else []

    def _ink(self, drawing: Drawing) -> TrailInk | None:
        """What the text is coloured with, if it is."""
        if not (drawing.level and self.coloured):
            return None
        return TrailInk(self._trail, drawing.theme, drawing.palette.ghost if drawing.level == 2 else None)

    def _thought_head(self, index: int, part: ReplyPart, unfolded: bool, drawing: Drawing) -> Line:
        words = len(self.text[part.start : part.end].split())
        verb = "thinking," if part.open and self._growing else "thought for"
        text = f"{'▾' if unfolded else '▸'} {verb} {words:,} word{'' if words == 1 else 's'}"
        runs = [Run(text, drawing.palette.muted, part.start)]
        runs.append(
            Run(
                f" · {drawing.keys.thoughts} {'folds' if unfolded else 'unfolds'}",
                drawing.palette.faint,
                part.start,
            )
        )
        line = flow(runs, drawing.width, f"part {index}")[0]
        return replace(line, action=f"{FOLD}{index}")

    def join(self, drawing: Drawing) -> None:
        """Put the lines together after something beside the text changed."""
        palette = drawing.palette
        name = [Run(clean(drawing.model_name), palette.model)]
        lines = flow(name, drawing.width, "model")
        if self._growing:
            # In the line of the name as far as that has room: the text must not move when a guess is right.
            entries = [name, *self._explained(drawing)]
            lines = items(entries, drawing.width, Run("   ", palette.body), "model")[: len(lines)]
        for number, section in enumerate(self._sections):
            if number:
                lines.append(replace(_BLANK, block=f"part {number}", place=section.part.start))
            lines += section.lines
        written = any(section.lines for section in self._sections)
        state = self._state or ("…" if self._growing and not written else "")
        if state:
            lines += flow([Run(state, palette.faint)], drawing.width, "state")
        lines += self._foot(drawing)
        self.lines = lines

    def _foot(self, drawing: Drawing) -> list[Line]:
        answer = self._answer
        if self._growing or answer is None:
            return []
        palette = drawing.palette
        if self._earned is None:
            self._earned = gain_sentence(answer)
        how = ending(answer.end, drawing.keys.go_on)
        earned = self._earned.removesuffix(".") if how else self._earned
        runs = [[Run(earned, palette.muted)]] if earned else []
        if how:
            runs.append([Run(how, palette.warning if cut_short(answer) else palette.muted)])
        lines = items(self._explained(drawing), drawing.width, Run("   ", palette.body), "foot")
        lines += items(runs, drawing.width, Run(" · ", palette.faint), "foot")
        return [replace(_BLANK, block="foot"), *lines] if lines else []

    def _explained(self, drawing: Drawing) -> list[list[Run]]:
        """What the colours mean, if this answer is the one that says it."""
        ink = self._ink(drawing) if self.legend else None
        return legend(ink, drawing.palette.muted) if ink else []


_BLANK = flow([], 80)[0]
