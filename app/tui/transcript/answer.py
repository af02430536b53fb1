"""One answer as lines: its thoughts, its text while it streams and when it is done, and its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from app.chat.conversation import Answer
from app.chat.gain import gain_sentence
from app.chat.thinking import ReplyPart, split
from app.process.events import Step
from app.text import clean
from app.tui.numbers import counted
from app.tui.transcript.colouring import OriginStyler, TokenSpans, legend
from app.tui.transcript.markdown import Frame, MarkdownLines, plain_text
from app.tui.transcript.rendering import RenderOptions
from app.tui.transcript.wrapping import Line, Run, blank, wrapped, wrapped_items

FOLD = "fold "

# How an answer ended, if not by itself. {} is the key that continues it.
_ENDINGS: dict[str | None, str] = {
    "length": "cut at the length that was set, {} continues",
    "stop_string": "ended at a stop string",
    "context": "cut: the context is full",
    "cancelled": "stopped by you",
    "crashed": "cut short, {} continues",
}
# Endings that should catch the eye.
_CUT_SHORT = ("length", "context", "crashed")


@dataclass(slots=True)
class _Section:
    """A part on the screen. text: its lines, None for a thought that was never unfolded."""

    part: ReplyPart
    lines: list[Line] = field(default_factory=list)
    text: MarkdownLines | None = None


class AnswerLines:
    """The lines of an answer, kept while nothing that they depend on changes.

    legend: whether this answer is the one that explains the colours.
    """

    def __init__(self, answer: Answer | None = None) -> None:
        """None, or an answer without an end: it streams, from what is there."""
        self.legend = False
        self.text = clean(answer.text) if answer else ""
        self.lines: list[Line] = []
        self.streaming = answer is None or answer.end is None
        self._answer = answer
        self._spans = TokenSpans(answer.pieces, answer.origins, answer.rejected) if answer else TokenSpans()
        # Wrong colours would be worse than none.
        self._traceable = self._spans.text.startswith(self.text) if answer else True
        self._state = ""
        self._toggled: set[int] = set()
        self._sections: list[_Section] = []

    @property
    def coloured(self) -> bool:
        """Whether it is known where its tokens came from."""
        return self._traceable and bool(self._spans.origins)

    @cached_property
    def _summary(self) -> str:
        """What speculation gave this answer; computed once, as it looks at every token."""
        return gain_sentence(self._answer) if self._answer else ""

    def reading(self, done: int, total: int) -> None:
        """The model has read `done` of `total` tokens of the prompt."""
        self._state = f"reading {done:,} of {total:,} tokens"

    def add(self, steps: Sequence[Step]) -> None:
        """Take what these passes brought; `extend` shows it."""
        self._state = ""
        for step in steps:
            known = len(self.text)
            self.text += clean(step.entry.text)
            before = min(step.entry.accepted, len(step.pieces))
            self._spans.add(step.pieces, step.entry.origins, before, step.rejected)
            if self._spans.text[known : len(self.text)] != self.text[known:]:
                self._traceable = False

    def extend(self, options: RenderOptions) -> None:
        """Render what was added, at the cost of the new text only."""
        parts = split(self.text, streaming=self.streaming)
        kept = [section.part for section in self._sections]
        if len(parts) < len(kept) or any(
            (old.kind, old.start) != (new.kind, new.start) or (index + 1 < len(kept) and old != new)
            for index, (old, new) in enumerate(zip(kept, parts, strict=False))
        ):
            self.render(options)
            return
        self._sections += [_Section(part) for part in parts[len(kept) :]]
        for index in range(max(0, len(kept) - 1), len(parts)):
            self._extend(index, parts[index], options)
        self.join(options)

    def take_over(self, streamed: AnswerLines | None) -> None:
        """Take the place of the answer that streamed: thoughts stay folded or unfolded."""
        if streamed is not None:
            self._toggled = set(streamed._toggled)
            self.legend = streamed.legend

    def toggle(self, index: int, options: RenderOptions) -> None:
        """Fold the thought of that section, or unfold it."""
        self._toggled ^= {index}
        self.render(options)

    def forget_toggled(self) -> None:
        """Fold or unfold all thoughts alike again."""
        self._toggled.clear()

    def render(self, options: RenderOptions) -> None:
        """Render everything."""
        self._sections.clear()
        self.extend(options)

    def _extend(self, index: int, part: ReplyPart, options: RenderOptions) -> None:
        section = self._sections[index]
        section.part = part
        palette, block = options.palette, f"part {index}"
        thought = part.kind == "thought"
        unfolded = thought and options.thoughts != (index in self._toggled)
        section.lines = [self._thought_head(index, part, unfolded, options)] if thought else []
        if thought and not unfolded:
            return
        styler = self._styler(options)
        if section.text is None:
            left = (Run("▏ ", palette.bar),) if thought else ()
            style = palette.muted if thought else palette.body
            frame = Frame(options.width, palette, block, part.start, left, style, styler or plain_text)
            section.text = MarkdownLines(frame)
        last = index + 1 == len(self._sections)
        section.text.render(self.text[part.start : part.end], streaming=self.streaming and last)
        section.lines += section.text.lines
        if styler and last and not self.streaming:
            # What was rejected where the answer ended.
            rejected = self._spans.rejected(section.text.styled, len(self.text) + 1)
            runs = styler.rejected(rejected, palette.body)
            section.lines += wrapped(runs, options.width, block) if runs else []

    def _styler(self, options: RenderOptions) -> OriginStyler | None:
        """What colours the text, if it is to be coloured."""
        if not (options.level and self.coloured):
            return None
        struck = options.palette.rejected if options.level == 2 else None
        return OriginStyler(self._spans, options.theme, struck)

    def _thought_head(self, index: int, part: ReplyPart, unfolded: bool, options: RenderOptions) -> Line:
        words = counted(len(self.text[part.start : part.end].split()), "word")
        verb = "thinking," if part.open and self.streaming else "thought for"
        sign, does = ("▾", "folds") if unfolded else ("▸", "unfolds")
        runs = [
            Run(f"{sign} {verb} {words}", options.palette.muted, part.start),
            Run(f" · {options.keys.thoughts} {does}", options.palette.faint, part.start),
        ]
        return replace(wrapped(runs, options.width, f"part {index}")[0], action=f"{FOLD}{index}")

    def join(self, options: RenderOptions) -> None:
        """Put the lines together after something beside the text has changed."""
        palette = options.palette
        name = [Run(clean(options.model_name), palette.model)]
        lines = wrapped(name, options.width, "model")
        if self.streaming:
            # Beside the name, as far as there is room: the text must not move when a guess is right.
            items = [name, *self._explained(options)]
            lines = wrapped_items(items, options.width, Run("   ", palette.body), "model")[: len(lines)]
        for number, section in enumerate(self._sections):
            if number:
                lines.append(blank(f"part {number}", section.part.start))
            lines += section.lines
        written = any(section.lines for section in self._sections)
        state = self._state or ("…" if self.streaming and not written else "")
        if state:
            lines += wrapped([Run(state, palette.faint)], options.width, "state")
        self.lines = lines + self._foot(options)

    def _foot(self, options: RenderOptions) -> list[Line]:
        if self.streaming or self._answer is None:
            return []
        palette, end = options.palette, self._answer.end
        ending = _ENDINGS.get(end, "").format(options.keys.go_on)
        summary = self._summary.removesuffix(".") if ending else self._summary
        items = [[Run(summary, palette.muted)]] if summary else []
        if ending:
            items.append([Run(ending, palette.warning if end in _CUT_SHORT else palette.muted)])
        lines = wrapped_items(self._explained(options), options.width, Run("   ", palette.body), "foot")
        lines += wrapped_items(items, options.width, Run(" · ", palette.faint), "foot")
        return [blank("foot"), *lines] if lines else []

    def _explained(self, options: RenderOptions) -> list[list[Run]]:
        """What the colours mean, if this answer is the one that says it."""
        styler = self._styler(options) if self.legend else None
        return legend(styler, options.palette.muted) if styler else []
