"""Thoughts: without these a person reads a model's musing as its answer, or loses a part of the reply."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chat.thinking import split


def texts(reply: str, *, streaming: bool = False) -> list[tuple[str, str]]:
    return [(part.kind, reply[part.start : part.end]) for part in split(reply, streaming=streaming)]


@pytest.mark.parametrize(
    ("reply", "parts"),
    [
        ("Hello.", [("answer", "Hello.")]),
        ("<think>\na b\n</think>\n\nHello.", [("thought", "a b"), ("answer", "Hello.")]),
        ("<thinking>a</thinking>Hello.", [("thought", "a"), ("answer", "Hello.")]),
        ("a b\n</think>\nHello.", [("thought", "a b"), ("answer", "Hello.")]),
        ("<think></think>Hello.", [("answer", "Hello.")]),
        ("</think>Hello.", [("answer", "Hello.")]),
        (
            "One.\n<think>a</think>\nTwo.\n<think>b</think>\nThree.",
            [
                ("answer", "One."),
                ("thought", "a"),
                ("answer", "Two."),
                ("thought", "b"),
                ("answer", "Three."),
            ],
        ),
        (
            "<think>a <think> b</think>\nHello.",
            [("thought", "a <think> b"), ("answer", "Hello.")],
        ),
    ],
)
def test_thought_and_answer_are_told_apart(reply: str, parts: list[tuple[str, str]]) -> None:
    assert texts(reply) == parts


def test_a_thought_that_was_cut_is_still_there() -> None:
    """Else: a reply stopped in mid-thought looks empty."""
    (part,) = split("<think>so far")
    assert part.kind == "thought" and part.open
    assert texts("<think>so far") == [("thought", "so far")]


@pytest.mark.parametrize(
    "reply",
    [
        "Write `<think>` and `</think>` around it.",
        "```\n<think>\nx\n</think>\n```\nThat is how.",
        "They say <think> in mid-line.",
        "<think>a</think>Now </think> again.",
    ],
)
def test_tags_that_are_talked_about_are_text(reply: str) -> None:
    """Else: an answer about these tags vanishes in a folded block."""
    assert texts(reply)[-1][1] in reply
    assert texts(reply)[-1][0] == "answer"
    assert "think>" in texts(reply)[-1][1]


def test_an_unfinished_tag_is_not_shown_for_an_instant() -> None:
    assert texts("Hello.\n<thi", streaming=True) == [("answer", "Hello.")]
    assert texts("<think>a</thinki", streaming=True) == [("thought", "a")]
    assert texts("Hello.\n<thi") == [("answer", "Hello.\n<thi")]
    assert texts("a <b", streaming=True) == [("answer", "a <b")]


def test_an_indent_behind_a_line_break_stays_and_a_first_blank_goes() -> None:
    """Else: indented code at the start of an answer is no code any more."""
    assert texts(" Hello.") == [("answer", "Hello.")]
    assert texts("<think>a</think>\n\n    x = 1\n") == [("thought", "a"), ("answer", "    x = 1")]


PIECES = ["<think>", "</think>", "<thinking>", "</thinking>", "```\n", "`", "\n", " ", "word", "<", "["]


@given(st.lists(st.sampled_from(PIECES)), st.booleans())
def test_no_text_is_ever_lost(pieces: list[str], streaming: bool) -> None:
    """Else: what a model wrote cannot be read."""
    reply = "".join(pieces)
    parts = split(reply, streaming=streaming)
    gaps = [0, *(edge for part in parts for edge in (part.start, part.end)), len(reply)]
    assert gaps == sorted(gaps)
    assert all(part.start < part.end for part in parts)
    between = "".join(reply[start:end] for start, end in zip(gaps[::2], gaps[1::2], strict=True))
    for tag in PIECES[:4]:
        between = between.replace(tag, "")
    assert between.strip() == "" or (streaming and between.strip().startswith("<"))
