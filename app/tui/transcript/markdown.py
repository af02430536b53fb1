"""Markdown as lines, block by block as it streams in: one widget for all of a chat, not one a block.

Each mounted widget costs every layout of the screen about 0.1 ms, and thirty answers in Markdown widgets are
a thousand of them. Lines cost nothing while they are not seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from app.text import clean
from app.tui.transcript.code_blocks import language_of, parser
from app.tui.transcript.highlighting import highlighted
from app.tui.transcript.rendering import Palette
from app.tui.transcript.tables import table
from app.tui.transcript.wrapping import Line, Run, wrapped

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

# A longer block is cut, or each new word of it would hold up the screen; but not code, whose lines are final.
LONGEST = 10_000
_CODE = re.compile(r" {0,3}(?:```|~~~)")

BULLETS = "•◦▪"
_EMPHASIS = {"em": Style(italic=True), "strong": Style(bold=True), "s": Style(strike=True)}

# Lines of hard-wrapped prose are about this long; shorter ones were broken on purpose.
_PROSE = range(50, 121)

# An end of a streaming text that may become something else with its next characters: a block's mark alone on
# a line, a table's head without its rows, half of a closing mark.
_UNSURE = re.compile(
    r"(?:^|\n)[ \t>]*(?:[-+*#=|`~:]+|[0-9]{1,9}[.)]?|\|[^\n]*(?:\n[|: \t]*-[-|: \t]*)?)\Z|[*_`~]+\Z"
)

_Left = tuple[Run, ...]


class Styler(Protocol):
    """Makes runs of text at that offset of the source. What is before `since` has been styled already."""

    def __call__(self, text: str, style: Style, offset: int, since: int) -> list[Run]: ...


def plain_text(text: str, style: Style, offset: int, since: int) -> list[Run]:
    """The styler for text whose origins are not shown."""
    return [Run(text, style, offset)]


@dataclass(frozen=True, slots=True)
class Frame:
    """How a text is drawn. block, offset: whose lines these are, and where the text begins in its source.

    left: what is drawn at the left of each line. style: palette.body if None.
    """

    width: int
    palette: Palette
    block: str = ""
    offset: int = 0
    left: _Left = ()
    style: Style | None = None
    styler: Styler = plain_text


class MarkdownLines:
    """The lines of a text that may grow. They equal those of the same text rendered at once.

    A block, or an item of a list, is final once the next one has begun: no later line changes it, as the
    parser knows no references, and nothing here looks ahead. Only the last one is rendered each time.
    """

    def __init__(self, frame: Frame) -> None:
        self.lines: list[Line] = []
        # Up to here the source was styled; a rejected draft at the very end of a text was not.
        self.styled = frame.offset
        self._frame = frame
        # What is final: how much of the source, how many lines, how far it was styled, and whether a blank
        # line follows.
        self._done, self._kept, self._since, self._gap = 0, 0, frame.offset, False
        self._code_lines: dict[int, list[Line]] = {}

    def render(self, source: str, *, streaming: bool = False) -> None:
        """Render this text, which begins with the one before. streaming: more of it will come."""
        more = True
        while more:
            tail = source[self._done :]
            more = len(tail) > LONGEST and not _CODE.match(tail)
            if more:
                tail = tail[: tail.rfind("\n", 0, LONGEST) + 1] or tail[:LONGEST]
            self._render(tail, streaming=streaming and not more, more=more)

    def _render(self, tail: str, *, streaming: bool, more: bool) -> None:
        from markdown_it.tree import SyntaxTreeNode

        del self.lines[self._kept :]
        frame, gap, begun = self._frame, self._gap, self._done
        shown = settled(tail) if streaming else tail
        offset = frame.offset + begun
        renderer = _Renderer(frame, shown, offset, self._since, streaming, self._code_lines)
        for number, node in enumerate(_blocks(SyntaxTreeNode(parser().parse(shown)).children)):
            if number:
                separate = renderer.gap_above(node)
                gap = separate or not _continues(node)
                # Without a blank line above it, its second line may still change it: into a table's head.
                if separate or renderer.line(node) + 2 <= tail.count("\n"):
                    self._keep(begun + renderer.start(node) - offset, renderer.since, gap)
            if gap:
                self.lines.append(renderer.blank(frame.left, renderer.start(node)))
            self.lines += renderer.one(node, frame.left, frame.left, frame.style or frame.palette.body, 0)
        self.styled = renderer.since
        if more and self._done == begun:
            self._keep(begun + len(tail), renderer.since, True)

    def _keep(self, done: int, since: int, gap: bool) -> None:
        self._done, self._kept, self._since, self._gap = done, len(self.lines), since, gap


def settled(text: str) -> str:
    """A streaming text without an end that is unsure, and with the mark closed that its last line opens."""
    text = _UNSURE.sub("", text)
    last = text[text.rfind("\n") + 1 :]
    mark = next((mark for mark in ("`", "**") if last.count(mark) % 2), "")
    return text if "```" in text or "~~~" in text else text + mark


def keeps_breaks(paragraph: str) -> bool:
    """Whether a paragraph's single line breaks were meant: all but those of hard-wrapped prose."""
    *lines, _ = paragraph.split("\n")
    return not all(len(line) in _PROSE for line in lines)


def _blocks(nodes: Sequence[SyntaxTreeNode]) -> Iterator[SyntaxTreeNode]:
    """What is rendered one by one: blocks, and the items of lists."""
    for node in nodes:
        if node.type in ("bullet_list", "ordered_list"):
            yield from node.children
        else:
            yield node


def _continues(node: SyntaxTreeNode) -> bool:
    return node.type == "list_item" and node.previous_sibling is not None


class _Renderer:
    """Renders the blocks of one source, which stands at `offset`, in their order."""

    def __init__(
        self,
        frame: Frame,
        source: str,
        offset: int,
        since: int,
        streaming: bool,
        code_lines: dict[int, list[Line]],
    ) -> None:
        self.since = since
        # Lines of a code block that is still open, by their offset: each is rendered once.
        self._code_lines = code_lines
        self._frame, self._palette = frame, frame.palette
        self._source = source
        # Inline code has spaces in place of its line breaks.
        self._flat = source.replace("\n", " ")
        self._lines = source.split("\n")
        self._offset = offset
        self._streaming = streaming
        self._starts = list(accumulate((len(line) + 1 for line in self._lines), initial=0))
        self._at = 0

    def line(self, node: SyntaxTreeNode) -> int:
        """The line that a node begins in."""
        return node.map[0] if node.map else 0

    def start(self, node: SyntaxTreeNode) -> int:
        """The offset at which that line begins."""
        return self._offset + self._starts[self.line(node)]

    def gap_above(self, node: SyntaxTreeNode) -> bool:
        """Whether the source has a blank line above a node."""
        return self.line(node) > 0 and not self._lines[self.line(node) - 1].strip(" \t>")

    def blank(self, left: _Left, offset: int) -> Line:
        """A line with only what is drawn at its left."""
        return replace(self._wrapped([], left)[0], offset=offset)

    def one(self, node: SyntaxTreeNode, first: _Left, rest: _Left, style: Style, depth: int) -> list[Line]:
        """The lines of one block. first, rest: what is drawn at the left of its first line and of others."""
        palette = self._palette
        lines: list[Line] = []
        match node.type:
            case "heading":
                style = palette.accent if node.tag in ("h1", "h2") else palette.strong
                lines = self._wrapped(self._inline(node, style + palette.strong), first, rest)
            case "paragraph":
                lines = self._wrapped(self._inline(node, style), first, rest)
            case "list_item":
                # The number is the source's own: a list that goes on after a code block keeps counting.
                bullet = f"{node.info}{node.markup}" if node.info else BULLETS[depth % len(BULLETS)]
                first = (*first, Run(f"{bullet} ", palette.accent))
                indent = (*rest, Run(" " * (len(bullet) + 1), style))
                lines = self._inner(node, first, indent, style, depth + 1)
            case "blockquote":
                bar = Run("▎ ", palette.bar)
                first, rest = (*first, bar), (*rest, bar)
                lines = self._inner(node, first, rest, palette.muted, depth)
            case "fence" | "code_block":
                lines = self._code(node, first, rest)
            case "table":
                lines = self._table(node, first, rest, style)
            case "hr":
                room = self._frame.width - sum(len(run.text) for run in rest)
                lines = self._wrapped([Run("─" * min(room, 40), palette.rule, self.start(node))], first)
            case other:
                raise AssertionError(f"a block of the kind {other} has no rendering")
        return lines or [self.blank(first, self.start(node))]

    def _inner(self, node: SyntaxTreeNode, first: _Left, rest: _Left, style: Style, depth: int) -> list[Line]:
        """The blocks inside another one, with the blank lines that the source has."""
        lines: list[Line] = []
        for child in _blocks(node.children):
            if lines and self.gap_above(child):
                lines.append(self.blank(rest, lines[-1].offset))
            lines += self.one(child, rest if lines else first, rest, style, depth)
        return lines

    def _wrapped(
        self, runs: Sequence[Run], first: _Left, rest: _Left | None = None, code: Style | None = None
    ) -> list[Line]:
        return wrapped(runs, self._frame.width, self._frame.block, first, rest, code=code)

    def _code(self, node: SyntaxTreeNode, first: _Left, rest: _Left) -> list[Line]:
        palette = self._palette
        bar = Run("▏ ", palette.code + palette.bar)
        language = language_of(node.info)
        lines: list[Line] = []
        if language:
            label = Run(language, palette.code + palette.faint, self.start(node))
            lines = self._wrapped([label], (*first, bar), code=palette.code)
            lines = [replace(line, ending="", skip=len(line.text)) for line in lines]
        code = clean(node.content.rstrip("\n"))
        # A lexer takes ten times as long as all else, so it runs only once the block is whole.
        is_open = self._streaming and node.map is not None and node.map[1] == len(self._lines)
        runs = highlighted(code, "" if is_open else language, palette)
        above = self.line(node) + (node.type == "fence")
        for number, line in enumerate(_by_lines(runs), above):
            text = "".join(run.text for run in line)
            # What the source has more is an indent, or a mark of what the block is in.
            more = len(self._lines[number]) - len(text) if text else 0
            self._at = self._starts[number] + max(0, more)
            offset = self._offset + self._at
            rendered = self._code_lines.get(offset) if is_open else None
            if rendered is None:
                styled: list[Run] = []
                for run in line:
                    styled += self._styled(run.text, run.style, self._at)
                    self._at += len(run.text)
                left = (*(rest if lines else first), bar)
                rendered = self._wrapped(styled, left, (*rest, bar), code=palette.code)
                if not text:
                    rendered = [replace(rendered[0], offset=offset)]
                if is_open and number + 1 < len(self._lines):
                    self._code_lines[offset] = rendered
            self.since = max(self.since, offset + len(text))
            lines += rendered
        return lines

    def _table(self, node: SyntaxTreeNode, first: _Left, rest: _Left, style: Style) -> list[Line]:
        rows = [row for part in node.children for row in part.children]
        right = ["right" in str(cell.attrs.get("style", "")) for cell in rows[0].children]
        cells = [
            [
                self._inline(cell, style + self._palette.strong if row is rows[0] else style)
                for cell in row.children
            ]
            for row in rows
        ]
        indent = sum(len(run.text) for run in rest)
        lines = table(cells, right, self._frame.width - indent, self._frame.block, self._palette.rule)
        lead, left = (Strip([Segment(run.text, run.style) for run in runs]) for runs in (first, rest))
        return [
            Line(Strip.join([left if index else lead, line.strip]), line.block, line.offset)
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
        """Runs of inline nodes whose source ends before `end`. broken: what a soft line break becomes."""
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
                    found += self._link(node, style, broken, end)
                case _:
                    found += self._found(node.content, style, end)
        return found

    def _link(self, node: SyntaxTreeNode, style: Style, broken: str, end: int) -> list[Run]:
        """The label and the address, which is always shown: a link may say one thing and lead elsewhere."""
        muted, image = self._palette.muted, node.type == "image"
        address = str(node.attrs.get("src" if image else "href", ""))
        label = self._spans(node.children, style + Style(underline=not image), broken, end)
        if "".join(each.content for each in node.walk(include_self=False)) == address.removeprefix("mailto:"):
            return label
        shown = self._found(address, muted, end)
        before, after = (Run(each, muted, self._offset + self._at) for each in (" (", ")"))
        return [*label, before, *shown, after] if label else shown

    def _found(self, text: str, style: Style, end: int, sought: str = "") -> list[Run]:
        """Text, styled by where the source has it, or has `sought` in its place."""
        sought = sought or text
        found = (self._source if sought == "\n" else self._flat).find(sought, self._at, end)
        found = self._at if found < 0 else found
        self._at = found + len(sought)
        # Entities are decoded after the model's text was cleaned: &#x202e; is such a character only now.
        return self._styled(clean(text), style, found)

    def _styled(self, text: str, style: Style, at: int) -> list[Run]:
        if not text:
            return []
        offset = at + self._offset
        runs = self._frame.styler(text, style, offset, self.since)
        self.since = max(self.since, offset + len(text))
        return runs


def _by_lines(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs cut at line breaks, which are left out."""
    lines: list[list[Run]] = [[]]
    for run in runs:
        first, *others = run.text.split("\n")
        lines[-1].append(Run(first, run.style))
        lines += [[Run(text, run.style)] for text in others]
    return lines
