"""The code blocks of an answer, found by the parser that also renders it.

The parser is imported when it is first needed, as the first frame must not wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from app.text import clean

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """A fenced or indented block. language: the first word after the fence, "" for none."""

    language: str
    text: str


@cache
def parser() -> MarkdownIt:
    """Markdown as answers use it, with each block determined by its own lines alone.

    HTML is text, or a tag would vanish. References are text too, as they may come after what refers to them.
    So is a rule under a heading: a list without a blank line above it looks like one as it begins.
    Escapes and entities are tokens of their own, which keep what the source has for them.
    """
    from markdown_it import MarkdownIt

    it = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    return it.disable(["reference", "lheading", "text_join"])


def code_blocks(markdown_text: str) -> list[CodeBlock]:
    """All blocks in order, those in lists and quotes too. A block that is still open ends with the text."""
    return [
        CodeBlock(language_of(token.info), clean(token.content.rstrip("\n")))
        for token in parser().parse(markdown_text)
        if token.type in ("fence", "code_block")
    ]


def language_of(info: str) -> str:
    """The language that a fence names, such as "python" of "python title=x"."""
    words = clean(info).split()
    return words[0].strip("{}.") if words else ""
