"""Markdown: without these what a person reads jumps, or changes, as an answer ends or is looked at again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.style import Style

from app.tui.theme import token_style
from app.tui.transcript import markdown as module
from app.tui.transcript.colouring import OriginStyler, TokenSpans
from app.tui.transcript.markdown import Frame, MarkdownLines
from app.tui.transcript.rendering import NAMES, Palette
from app.tui.transcript.wrapping import Line

PALETTE = Palette(
    **{name: Style(bold=name == "strong", color=f"color({number})") for number, name in enumerate(NAMES)}
)

# Whatever begins, ends, or cannot end a block, and text that is measured or told apart in other ways.
BITS = (
    "word words ",
    "港の灯 ",
    "👩‍🚀é ",
    "a line of hard-wrapped prose that is just as long as such lines are",
    "\n",
    "\n\n",
    "\n\n\n",
    "\n  ",
    "\n    ",
    "- ",
    "* ",
    "1. ",
    "10) ",
    "> ",
    "# ",
    "```",
    "```py\n",
    "~~~",
    "x = '''1'''  # n\n",
    "| a | b |\n",
    "|---|--:|\n",
    "| a\\|b | `c` |",
    "|",
    "---",
    "===",
    "**",
    "*",
    "_",
    "`",
    "~~",
    "[label](http://a.b/c 'title')",
    "[label][1]",
    "[1]: http://a.b\n",
    "<http://a.b>",
    "<div>\n",
    "<b>",
    "![i](x.png)",
    "&amp;",
    "&#x202e;",
    "\\*",
    "\\",
    "\t",
    "  \n",
)
TEXTS = st.lists(st.sampled_from(BITS), max_size=24).map("".join)


def cuts(text: str, data: st.DataObject) -> list[str]:
    """The text cut anywhere."""
    inside = data.draw(st.sets(st.integers(0, len(text)), max_size=12))
    edges = sorted({0, len(text)} | inside)
    return [text[start:end] for start, end in pairwise(edges)]


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.sampled_from([20, 78]), st.sampled_from([60, module.LONGEST]), st.data())
def test_what_grew_is_what_is_drawn_at_once(text: str, width: int, longest: int, data: st.DataObject) -> None:
    """Else: an answer jumps at its end, or reads otherwise when the window is resized."""
    pieces = cuts(text, data) or [""]
    names = data.draw(st.lists(st.sampled_from(["lookup", "draft", "plain"]), min_size=13, max_size=13))
    rejected = {at: "¿no?" for at in data.draw(st.sets(st.sampled_from(range(len(pieces))), max_size=3))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LONGEST", longest)
        whole = MarkdownLines(
            Frame(width, PALETTE, styler=styler(TokenSpans(pieces, names, sorted(rejected.items()))))
        )
        whole.render(text)
        spans = TokenSpans()
        grown = MarkdownLines(Frame(width, PALETTE, styler=styler(spans)))
        for index, piece in enumerate(pieces):
            spans.add([piece], [names[index]], 0, rejected.get(index, ""))
            grown.render(spans.text.rstrip(), streaming=True)
        grown.render(text)
    assert grown.lines == whole.lines
    assert "\u202e" not in shown(whole.lines)


@pytest.mark.parametrize(
    "text",
    [
        # A second line that is no head of a table after all, and a fence whose info turns it into text.
        "word\na |\n-- |x\ny",
        "word\n``` a`b\n\n```py\nx = 1\n```\n*y*",
        "- a\n\n  b\n- c\n# d\n1. e\n2. f\n   - g\n\n   h",
        "> a\nb\n>\n> - c\n> - d\n\ne\n---\n- ---\n    f\n",
        "    a\n\n    b\nc\n***\n| d |\n|---|\n| e |\nf",
    ],
)
def test_what_grows_letter_by_letter_is_what_is_drawn_at_once(text: str) -> None:
    grown = MarkdownLines(Frame(30, PALETTE))
    for end in range(len(text)):
        grown.render(text[:end].rstrip(), streaming=True)
    grown.render(text)
    assert grown.lines == at_once(text)


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("one «two three» four", "two three"),
        ("**one «two» three «four** five» six", "twofour five"),
        ("- one «two»\n- «three» four\n\n> five «six\n> seven» eight", "twothreesixseven"),
        ("a &amp; «b &lt; c» \\* «\\* `d e`» f", "b < c* d e"),
        ("[one «two](http://a.b/two) two» two", "twohttp://a.b/two two"),
        ("| a | «b» |\n|---|---|\n| «b» | c |", "bb"),
        ("1. one\n\n   ```py\n   x = «1\n     y» = 2\n   ```", "1y"),
        ("    «a\n     b» c", "ab"),
    ],
)
def test_accepted_text_is_marked_wherever_it_stands(text: str, marked: str) -> None:
    """Else: the model's own words pass for guesses, in lists, code and tables."""
    pieces = re.split("[«»]", text)
    spans = TokenSpans(pieces, [("plain", "lookup")[index % 2] for index in range(len(pieces))])
    lines = MarkdownLines(Frame(60, PALETTE, styler=OriginStyler(spans, "dark")))
    lines.render(spans.text)
    ground = token_style("lookup", "dark").bgcolor
    found = [
        text for line in lines.lines for text, style, _ in line.strip if style and style.bgcolor == ground
    ]
    assert "".join(found) == marked


def at_once(text: str) -> list[Line]:
    lines = MarkdownLines(Frame(30, PALETTE))
    lines.render(text)
    return lines.lines


def styler(spans: TokenSpans) -> OriginStyler:
    return OriginStyler(spans, "dark", PALETTE.rejected)


def shown(lines: Sequence[Line]) -> str:
    return "\n".join(line.text.rstrip() for line in lines)
