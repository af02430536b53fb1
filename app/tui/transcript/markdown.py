"""Markdown as lines, block by block while it grows: one drawing for the whole text, not a widget a block.

Every mounted widget costs each layout of the screen about 0.1 ms, and thirty answers in Markdown
widgets are a thousand of them; lines cost nothing while they are not seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from app.chat.gate import clean
from app.tui.transcript.code_blocks import language_of, parser
from app.tui.transcript.flow import Flow, Line, Run, flow
from app.tui.transcript.highlighting import highlighted
from app.tui.transcript.palette import Palette
from app.tui.transcript.tables import table

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

# A longer block is cut, lest each new word of it hold up the screen; but code, of which each line is alone.
LONGEST = 10_000
_CODE = re.compile(r" {0,3}(?:```|~~~)")

BULLETS = "•◦▪"
_EMPHASIS = {"em": Style(italic=True), "strong": Style(bold=True), "s": Style(strike=True)}

# Lines of hard-wrapped prose are about this long; shorter ones were broken on purpose.
_PROSE = range(50, 121)

# The end of a growing text that its next characters may turn into something else: marks of a block alone
# on a line, a table's head without its rows, half of a closing mark.
_UNSURE = re.compile(
    r"(?:^|\n)[ \t>]*(?:[-+*#=|`~:]+|[0-9]{1,9}[.)]?|\|[^\n]*(?:\n[|: \t]*-[-|: \t]*)?)\Z|[*_`~]+\Z"
)

_Left = tuple[Run, ...]


class Ink(Protocol):
    """Makes runs of text that stands at that place of the source; what is before `since` was inked."""

    def __call__(self, text: str, style: Style, place: int, since: int) -> list[Run]: ...


def uncoloured(text: str, style: Style, place: int, since: int) -> list[Run]:
    """The ink for text whose origins are not shown."""
    return [Run(text, style, place)]


class MarkdownLines:
    """The lines of a text that may grow; they are those of the same text drawn at once.

    A block, or an item of a list, is drawn for good once the next one has begun: no later line changes it,
    as the parser knows no references, and nothing here looks ahead. Only the last is drawn each time.
    """

    def __init__(
        self,
        width: int,
        palette: Palette,
        block: str = "",
        place: int = 0,
        *,
        left: _Left = (),
        style: Style | None = None,
        ink: Ink = uncoloured,
    ) -> None:
        """place: of the text in the block's source. left: drawn at the left of each line."""
        self.lines: list[Line] = []
        # Up to there all was inked; what comes at the very end of a whole text was not.
        self.inked = place
        self._width, self._palette, self._block, self._place = width, palette, block, place
        self._left, self._style, self._ink = left, style or palette.body, ink
        # What is drawn for good: source, lines, how far it was inked, and if a blank line follows.
        self._done, self._kept, self._since, self._gap = 0, 0, place, False
        self._code_lines: dict[int, list[Line]] = {}

    def draw(self, source: str, *, growing: bool = False) -> None:
        """Draw this text, which begins with the one before. growing: more of it will come."""
        more = True
        while more:
            tail = source[self._done :]
            more = len(tail) > LONGEST and not _CODE.match(tail)
            if more:
                tail = tail[: tail.rfind("\n", 0, LONGEST) + 1] or tail[:LONGEST]
            self._draw(tail, growing=growing and not more, more=more)

    def _draw(self, tail: str, *, growing: bool, more: bool) -> None:
        from markdown_it.tree import SyntaxTreeNode

        del self.lines[self._kept :]
        place, gap = self._place + self._done, self._gap
        shown = settled(tail) if growing else tail
        pen = _Pen(
            shown,
            self._width,
            self._palette,
            self._block,
            place,
            self._ink,
            self._since,
            growing,
            self._code_lines,
        )
        begun = self._done
        for number, node in enumerate(_pieces(SyntaxTreeNode(parser().parse(shown)).children)):
            if number:
                apart = pen.gap_above(node)
                gap = apart or not _continues(node)
                # Without a blank line above it, where it begins may turn on its second line: a table's head.
                if apart or pen.line(node) + 2 <= tail.count("\n"):
                    self._keep(begun + pen.start(node) - place, pen.since, gap)
            if gap:
                self.lines.append(pen.blank(self._left, pen.start(node)))
            self.lines += pen.one(node, self._left, self._left, self._style, 0)
        self.inked = pen.since
        if more and self._done == begun:
            self._keep(begun + len(tail), pen.since, True)

    def _keep(self, done: int, since: int, gap: bool) -> None:
        self._done, self._kept, self._since, self._gap = done, len(self.lines), since, gap


def markdown(source: str, width: int, palette: Palette, block: str = "", place: int = 0) -> list[Line]:
    """The lines of a whole text."""
    drawn = MarkdownLines(width, palette, block, place)
    drawn.draw(source)
    return drawn.lines


def settled(text: str) -> str:
    """A growing text without an end that is still unsure, a mark that is open in its last line closed."""
    text = _UNSURE.sub("", text)
    last = text[text.rfind("\n") + 1 :]
    mark = next((mark for mark in ("`", "**") if last.count(mark) % 2), "")
    return text if "```" in text or "~~~" in text else text + mark


def keeps_breaks(paragraph: str) -> bool:
    """Whether a paragraph's single line breaks were meant: all but those of hard-wrapped prose."""
    *lines, _ = paragraph.split("\n")
    return not all(len(line) in _PROSE for line in lines)


def _pieces(nodes: Sequence[SyntaxTreeNode]) -> Iterator[SyntaxTreeNode]:
    """What is drawn one by one: blocks, and the items of lists."""
    for node in nodes:
        if node.type in ("bullet_list", "ordered_list"):
            yield from node.children
        else:
            yield node


def _continues(node: SyntaxTreeNode) -> bool:
    return node.type == "list_item" and node.previous_sibling is not None


class _Pen:
    """Draws the pieces of one source, which stands at `place`, in their order."""

    def __init__(
        self,
        source: str,
        width: int,
        palette: Palette,
        block: str,
        place: int,
        ink: Ink,
        since: int,
        growing: bool,
        code_lines: dict[int, list[Line]],
    ) -> None:
        self.since = since
        # Lines of a block of code that is still open, by their place: each is drawn once.
        self._code_lines = code_lines
        self._source = source
        # Code within a line has blanks for its line breaks.
        self._flat = source.replace("\n", " ")
        self._lines = source.split("\n")
        self._width, self._palette, self._block, self._place = width, palette, block, place
        self._ink = ink
        self._growing = growing
        self._starts = list(accumulate((len(line) + 1 for line in self._lines), initial=0))
        self._at = 0

    def line(self, node: SyntaxTreeNode) -> int:
        """The line that it begins in."""
        return node.map[0] if node.map else 0

    def start(self, node: SyntaxTreeNode) -> int:
        """The place at which that line begins."""
        return self._place + self._starts[self.line(node)]

    def gap_above(self, node: SyntaxTreeNode) -> bool:
        """Whether the source has a blank line above it."""
        return self.line(node) > 0 and not self._lines[self.line(node) - 1].strip(" \t>")

    def blank(self, left: _Left, place: int) -> Line:
        return replace(flow([], self._width, self._block, left)[0], place=place)

    def blocks(
        self, nodes: Sequence[SyntaxTreeNode], first: _Left, rest: _Left, style: Style, depth: int
    ) -> list[Line]:
        """Blocks under one another, with the blank lines that the source has.

        first, rest: what is drawn at the left of the first line, and of the others.
        """
        lines: list[Line] = []
        for node in _pieces(nodes):
            if lines and self.gap_above(node):
                lines.append(self.blank(rest, lines[-1].place))
            lines += self.one(node, rest if lines else first, rest, style, depth)
        return lines

    def one(self, node: SyntaxTreeNode, first: _Left, rest: _Left, style: Style, depth: int) -> list[Line]:
        """The lines of one piece."""
        palette = self._palette
        lines: list[Line] = []
        match node.type:
            case "heading":
                style = palette.accent if node.tag in ("h1", "h2") else palette.strong
                lines = self._text(node, first, rest, style + palette.strong)
            case "paragraph":
                lines = self._text(node, first, rest, style)
            case "list_item":
                # A number is the source's own: a list that goes on after a code block keeps counting.
                bullet = f"{node.info}{node.markup}" if node.info else BULLETS[depth % len(BULLETS)]
                lead = (*first, Run(f"{bullet} ", palette.accent))
                indent = (*rest, Run(" " * (len(bullet) + 1), style))
                lines = self.blocks(node.children, lead, indent, style, depth + 1)
                first = lead
            case "blockquote":
                bar = Run("▎ ", palette.bar)
                first, rest = (*first, bar), (*rest, bar)
                lines = self.blocks(node.children, first, rest, palette.muted, depth)
            case "fence" | "code_block":
                lines = self._code(node, first, rest)
            case "table":
                lines = self._table(node, first, rest, style)
            case "hr":
                room = self._width - sum(len(run.text) for run in rest)
                rule = Run("─" * min(room, 40), palette.rule, self.start(node))
                lines = flow([rule], self._width, self._block, first)
            case other:
                raise AssertionError(f"a block of the kind {other} has no drawing")
        return lines or [self.blank(first, self.start(node))]

    def _text(self, node: SyntaxTreeNode, first: _Left, rest: _Left, style: Style) -> list[Line]:
        return flow(self._inline(node, style), self._width, self._block, first, rest)

    def _code(self, node: SyntaxTreeNode, first: _Left, rest: _Left) -> list[Line]:
        palette = self._palette
        bar = Run("▏ ", palette.code + palette.bar)
        language = language_of(node.info)
        lines: list[Line] = []
        if language:
            label = Flow(self._width, self._block, (*first, bar), fill=palette.code)
            label.feed([Run(language, palette.code + palette.faint, self.start(node))])
            lines = [replace(line, ending="", skip=len(line.text)) for line in label.lines]
        code = clean(node.content.rstrip("\n"))
        # The lexer takes ten times as long as all else: it comes when the block is whole.
        is_open = self._growing and node.map is not None and node.map[1] == len(self._lines)
        runs = highlighted(code, "" if is_open else language, palette)
        above = self.line(node) + (node.type == "fence")
        for number, line in enumerate(_by_lines(runs), above):
            text = "".join(run.text for run in line)
            # What the source has more is an indent, or a mark of what the block is in.
            more = len(self._lines[number]) - len(text) if text else 0
            self._at = self._starts[number] + max(0, more)
            place = self._place + self._at
            drawn = self._code_lines.get(place) if is_open else None
            if drawn is None:
                inked: list[Run] = []
                for run in line:
                    inked += self._inked(run.text, run.style, self._at)
                    self._at += len(run.text)
                body = Flow(
                    self._width,
                    self._block,
                    (*(rest if lines else first), bar),
                    (*rest, bar),
                    words=False,
                    fill=palette.code,
                    skip_first=True,
                )
                body.feed(inked)
                drawn = body.lines if text else [replace(body.lines[0], place=place)]
                if is_open and number + 1 < len(self._lines):
                    self._code_lines[place] = drawn
            self.since = max(self.since, place + len(text))
            lines += drawn
        return lines

    def _table(self, node: SyntaxTreeNode, first: _Left, rest: _Left, style: Style) -> list[Line]:
        rows = [row for part in node.children for row in part.children]
        header = rows[0].children
        right = ["right" in str(cell.attrs.get("style", "")) for cell in header]
        cells = [
            [
                self._inline(cell, style + self._palette.strong if row is rows[0] else style)
                for cell in row.children
            ]
            for row in rows
        ]
        indent = sum(len(run.text) for run in rest)
        lines = table(cells, right, self._width - indent, self._block, self._palette.rule)
        left = Strip([Segment(run.text, run.style) for run in rest])
        lead = Strip([Segment(run.text, run.style) for run in first])
        return [
            Line(Strip.join([left if index else lead, line.strip]), line.block, line.place)
            for index, line in enumerate(lines)
        ]

    def _inline(self, node: SyntaxTreeNode, style: Style) -> list[Run]:
        runs: list[Run] = []
        for inline in node.children:
            first, last = inline.map or (0, len(self._lines))
            self._at = max(self._at, self._starts[first])
            broken = "\n" if keeps_breaks(inline.content) else " "
            runs += self._spans(inline.children, style, broken, self._starts[last])
        return runs

    def _spans(self, nodes: Sequence[SyntaxTreeNode], style: Style, broken: str, end: int) -> list[Run]:
        """Runs of what stands in the source before `end`."""
        palette = self._palette
        found: list[Run] = []
        for node in nodes:
            match node.type:
                case "text_special":
                    # An entity or an escape: one character for many.
                    found += self._found(node.content, style, end, node.markup)
                case "code_inline":
                    found += self._found(node.content, style + palette.inline, end)
                case "softbreak" | "hardbreak":
                    found += self._found(broken if node.type == "softbreak" else "\n", style, end, "\n")
                case "em" | "strong" | "s":
                    found += self._spans(node.children, style + _EMPHASIS[node.type], broken, end)
                case "link" | "image":
                    # The address is always shown: what a link says and where it leads may differ.
                    image = node.type == "image"
                    address = str(node.attrs.get("src" if image else "href", ""))
                    label = self._spans(node.children, style + Style(underline=not image), broken, end)
                    found += label
                    said = "".join(each.content for each in node.walk(include_self=False))
                    if said != address.removeprefix("mailto:"):
                        shown = self._found(address, palette.muted, end)
                        between = [Run(each, palette.muted, self._place + self._at) for each in (" (", ")")]
                        found += [between[0], *shown, between[1]] if label else shown
                case _:
                    found += self._found(node.content, style, end)
        return found

    def _found(self, text: str, style: Style, end: int, sought: str = "") -> list[Run]:
        """Text that is inked by where the source has it, or has what was sought for it."""
        sought = sought or text
        place = (self._source if sought == "\n" else self._flat).find(sought, self._at, end)
        place = self._at if place < 0 else place
        self._at = place + len(sought)
        # Entities are decoded after the gate: &#x202e; is such a character only now.
        return self._inked(clean(text), style, place)

    def _inked(self, text: str, style: Style, place: int) -> list[Run]:
        if not text:
            return []
        place += self._place
        runs = self._ink(text, style, place, self.since)
        self.since = max(self.since, place + len(text))
        return runs


def _by_lines(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs cut at line breaks, which go."""
    lines: list[list[Run]] = [[]]
    for run in runs:
        first, *others = run.text.split("\n")
        lines[-1].append(Run(first, run.style))
        lines += [[Run(text, run.style)] for text in others]
    return lines
