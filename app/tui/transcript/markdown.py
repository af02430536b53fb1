"""A finished answer's Markdown as lines: one drawing for the whole answer, not a widget for each block.

Every mounted widget costs each layout of the screen about 0.1 ms, and thirty answers in Markdown
widgets are a thousand of them; lines cost nothing while they are not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

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

BULLETS = "•◦▪"
_EMPHASIS = {"em": Style(italic=True), "strong": Style(bold=True), "s": Style(strike=True)}

# Lines of hard-wrapped prose are about this long; shorter ones were broken on purpose.
_PROSE = range(50, 121)


def markdown(source: str, width: int, palette: Palette, block: str = "", place: int = 0) -> list[Line]:
    """The lines of a Markdown text that stands at `place` of the block's source."""
    drawing = _Drawing(source, width, palette, block, place)
    from markdown_it.tree import SyntaxTreeNode

    return drawing.blocks(SyntaxTreeNode(parser().parse(source)).children, (), (), palette.body)


def keeps_breaks(paragraph: str) -> bool:
    """Whether a paragraph's single line breaks were meant: all but those of hard-wrapped prose."""
    *lines, _ = paragraph.split("\n")
    return not all(len(line) in _PROSE for line in lines)


class _Drawing:
    def __init__(self, source: str, width: int, palette: Palette, block: str, place: int) -> None:
        self._width = width
        self._palette = palette
        self._block = block
        lengths = (len(line) + 1 for line in source.split("\n"))
        self._starts = list(accumulate(lengths, initial=place))

    def blocks(
        self,
        nodes: Sequence[SyntaxTreeNode],
        first: tuple[Run, ...],
        rest: tuple[Run, ...],
        style: Style,
        *,
        tight: bool = False,
        depth: int = 0,
    ) -> list[Line]:
        """Blocks under one another. first, rest: what is drawn at the left of the first line, and of
        the others."""
        lines: list[Line] = []
        for node in nodes:
            if lines and not tight:
                lines.append(self._blank(rest, lines[-1].place))
            lines += self._one(node, rest if lines else first, rest, style, depth)
        return lines or [self._blank(first, self._starts[0])]

    def _one(
        self,
        node: SyntaxTreeNode,
        first: tuple[Run, ...],
        rest: tuple[Run, ...],
        style: Style,
        depth: int,
    ) -> list[Line]:
        palette = self._palette
        match node.type:
            case "heading":
                style = palette.accent if node.tag in ("h1", "h2") else palette.strong
                return self._text(node, first, rest, style + palette.strong)
            case "paragraph":
                return self._text(node, first, rest, style)
            case "bullet_list" | "ordered_list":
                return self._list(node, first, rest, style, depth)
            case "blockquote":
                bar = Run("▎ ", palette.bar)
                return self.blocks(node.children, (*first, bar), (*rest, bar), palette.muted, depth=depth)
            case "fence" | "code_block":
                return self._code(node, first, rest)
            case "table":
                return self._table(node, first, rest, style)
            case "hr":
                room = self._width - sum(len(run.text) for run in rest)
                return flow(
                    [Run("─" * min(room, 40), palette.rule, self._place(node))],
                    self._width,
                    self._block,
                    first,
                )
            case other:
                raise AssertionError(f"a block of the kind {other} has no drawing")

    def _text(
        self, node: SyntaxTreeNode, first: tuple[Run, ...], rest: tuple[Run, ...], style: Style
    ) -> list[Line]:
        return flow(self._inline(node, style), self._width, self._block, first, rest)

    def _list(
        self,
        node: SyntaxTreeNode,
        first: tuple[Run, ...],
        rest: tuple[Run, ...],
        style: Style,
        depth: int,
    ) -> list[Line]:
        # A number is the source's own: a list that goes on after a code block keeps counting.
        marks = [
            f"{item.info}{item.markup} " if item.info else f"{BULLETS[depth % len(BULLETS)]} "
            for item in node.children
        ]
        wide = max(len(mark) for mark in marks)
        tight = all(
            child.hidden for item in node.children for child in item.children if child.type == "paragraph"
        )
        lines: list[Line] = []
        for item, mark in zip(node.children, marks, strict=True):
            if lines and not tight:
                lines.append(self._blank(rest, lines[-1].place))
            lead = (*(rest if lines else first), Run(mark.rjust(wide), self._palette.accent))
            indent = (*rest, Run(" " * wide, style))
            lines += self.blocks(item.children, lead, indent, style, tight=tight, depth=depth + 1)
        return lines

    def _code(self, node: SyntaxTreeNode, first: tuple[Run, ...], rest: tuple[Run, ...]) -> list[Line]:
        palette = self._palette
        place = self._place(node)
        bar = Run("▏ ", palette.code + palette.bar)
        language = language_of(node.info)
        lines: list[Line] = []
        if language:
            label = Flow(self._width, self._block, (*first, bar), fill=palette.code)
            label.feed([Run(language, palette.code + palette.faint, place)])
            lines = [Line(line.strip, line.block, place, "", skip=len(line.text)) for line in label.lines]
        body = Flow(
            self._width,
            self._block,
            (*(rest if lines else first), bar),
            (*rest, bar),
            words=False,
            fill=palette.code,
            skip_first=True,
        )
        code = clean(node.content.rstrip("\n"))
        body.feed(run._replace(place=run.place + place) for run in highlighted(code, language, palette))
        return lines + body.lines

    def _table(
        self, node: SyntaxTreeNode, first: tuple[Run, ...], rest: tuple[Run, ...], style: Style
    ) -> list[Line]:
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
            broken = "\n" if keeps_breaks(inline.content) else " "
            place = self._place(inline)
            for text, look in self._spans(inline.children, style, broken):
                # Entities are decoded after the gate: &#x202e; is such a character only now.
                text = clean(text)
                runs.append(Run(text, look, place))
                place += len(text)
        return runs

    def _spans(self, nodes: Sequence[SyntaxTreeNode], style: Style, broken: str) -> list[tuple[str, Style]]:
        palette = self._palette
        found: list[tuple[str, Style]] = []
        for node in nodes:
            match node.type:
                case "text":
                    found.append((node.content, style))
                case "code_inline":
                    found.append((node.content, style + palette.inline))
                case "softbreak":
                    found.append((broken, style))
                case "hardbreak":
                    found.append(("\n", style))
                case "em" | "strong" | "s":
                    found += self._spans(node.children, style + _EMPHASIS[node.type], broken)
                case "link" | "image":
                    # The address is always shown: what a link says and where it leads may differ.
                    image = node.type == "image"
                    address = str(node.attrs.get("src" if image else "href", ""))
                    label = self._spans(node.children, style + Style(underline=not image), broken)
                    found += label
                    if "".join(text for text, _ in label) != address.removeprefix("mailto:"):
                        found.append((f" ({address})" if label else address, palette.muted))
                case _:
                    found.append((node.content, style))
        return found

    def _blank(self, prefix: tuple[Run, ...], place: int) -> Line:
        return replace(flow([], self._width, self._block, prefix)[0], place=place)

    def _place(self, node: SyntaxTreeNode) -> int:
        return self._starts[node.map[0]] if node.map else self._starts[0]
