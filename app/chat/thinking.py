"""A model's thoughts and its answer, told apart in the text of one reply.

No character is lost but the tags and the white space around the parts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["thought", "answer"]

_TAG = re.compile(r"<(/?)(?:think|thinking)>")
_TAGS = ("<think>", "</think>", "<thinking>", "</thinking>")
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ReplyPart:
    """text[start:end] of a reply. open: a thought whose end has not come."""

    kind: Kind
    start: int
    end: int
    open: bool = False


def split(text: str, *, streaming: bool = False) -> tuple[ReplyPart, ...]:
    """The parts of a reply in order, without the tags and the white space around them; none is empty.

    An opening tag counts at the beginning of a line; a closing one where a thought is open, or, once, where
    none was opened, for templates that open the thought themselves: then all text before it is a thought.
    Tags in code are text. An unclosed thought reaches to the end and is marked open.
    streaming: leaves out an unfinished tag at the end, which would be seen for an instant.
    """
    end = len(text) - (_unfinished(text) if streaming else 0)
    parts: list[ReplyPart] = []
    start = 0
    thinking = False
    for tag in _TAG.finditer(text, 0, end):
        closing = bool(tag[1])
        if closing:
            headless = not thinking and not any(part.kind == "thought" for part in parts)
            if not thinking and (not headless or _in_code(text, tag)):
                continue
            parts = [part for part in parts if not headless]
            _add(parts, text, "thought", 0 if headless else start, tag.start())
        else:
            if thinking or not _begins_line(text, tag.start()) or _in_code(text, tag):
                continue
            _add(parts, text, "answer", start, tag.start())
        thinking = not closing
        start = tag.end()
    _add(parts, text, "thought" if thinking else "answer", start, end, thinking)
    return tuple(parts)


def _add(parts: list[ReplyPart], text: str, kind: Kind, start: int, end: int, is_open: bool = False) -> None:
    """Append the part without the white space around it; an indent of its first line stays."""
    body = text[start:end]
    if not body.strip():
        return
    lead = len(body) - len(body.lstrip())
    # Spaces before the first word of a reply come from the tokenizer; after a line break they are an indent.
    begin = start + (body.rfind("\n", 0, lead) + 1 or lead)
    parts.append(ReplyPart(kind, begin, start + len(body.rstrip()), is_open))


def _begins_line(text: str, place: int) -> bool:
    return not text[text.rfind("\n", 0, place) + 1 : place].strip()


def _in_code(text: str, tag: re.Match[str]) -> bool:
    """Whether the tag is quoted: between backticks, or in a fenced block."""
    if text[max(0, tag.start() - 1) : tag.start()] == "`" or text[tag.end() : tag.end() + 1] == "`":
        return True
    return len(_FENCE.findall(text, 0, tag.start())) % 2 == 1


def _unfinished(text: str) -> int:
    """Length of the tag that the text's end may be the beginning of."""
    place = text.rfind("<", max(0, len(text) - len(_TAGS[-1])))
    if place < 0:
        return 0
    tail = text[place:]
    return len(tail) if any(tag.startswith(tail) and tag != tail for tag in _TAGS) else 0
