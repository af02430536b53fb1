"""The sentence under a reply: what it may say, and that it is never said of what was not so."""

from __future__ import annotations

import pytest

from app.chat.conversation import Answer, End, Figures
from app.chat.gain import gain_sentence

# Pieces of twelve words, and the origins of those that lookup and the draft wrote.
TEXT = (" the", " cat", " sat", " on", " the", " mat", " and", " saw", " the", " dog", " run", " off")
LOOKUP = ("plain", *["lookup"] * 8, "bonus", "plain", "plain")


def answer(
    speedup: float | None,
    origins: tuple[str, ...] = LOOKUP,
    pieces: tuple[str, ...] = TEXT,
    proposer: str = "lookup",
    acceptance: float | None = 0.7,
    end: End = "length",
) -> Answer:
    tokens = len(pieces) + (end == "stop")
    figures = Figures(proposer, tokens, 50.0, 40.0, speedup, acceptance, 2.0, 0.1, 9, 7)
    return Answer("".join(pieces), tuple(range(len(pieces))), pieces, origins, (), end, figures)


def drafted(name: str, count: int) -> tuple[str, ...]:
    return ("plain",) * (len(TEXT) - count) + (name,) * count


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (answer(2.34), "Lookup wrote 8 of 12 words: 2.3× faster."),
        (answer(2.34, end="stop"), "Lookup wrote 8 of 12 words: 2.3× faster."),
        (answer(1.07), "Lookup wrote 8 of 12 words: 7 % faster."),
        (answer(1.01), "Lookup wrote 8 of 12 words: plain speed."),
        (answer(0.91), "Lookup wrote 8 of 12 words: 9 % slower than plain."),
        (answer(None), "Lookup wrote 8 of 12 words; too little to measure the speed."),
        (answer(1.5, drafted("draft", 5)), "The draft wrote 5 of 12 words: 1.5× faster."),
        (
            answer(1.5, (*drafted("draft", 5)[2:], "lookup", "lookup")),
            "The draft wrote 5 and lookup 2 of 12 words: 1.5× faster.",
        ),
        (answer(0.9, drafted("draft", 0)), "No guess was right: 10 % slower than plain."),
        (answer(None, drafted("draft", 0), end="cancelled"), "No guess was right."),
        (answer(2.0, ("lookup",), ("yes",)), "Lookup wrote 1 of 1 word: 2.0× faster."),
        # Two halves of a word from two sides are no word of either: then tokens are counted.
        (answer(1.2, ("lookup", "plain"), (" light", "house")), "Lookup wrote 1 of 2 tokens: 1.2× faster."),
        (answer(1.2, ("lookup",) * 9, ("灯",) * 9), "Lookup wrote 9 of 9 tokens: 1.2× faster."),
        (answer(1.2, ("lookup",) * 2, ("a b", "c d")), "Lookup wrote 3 of 3 words: 1.2× faster."),
        (answer(1.0, drafted("", 0), proposer="off", acceptance=None), "Speculation was off: plain speed."),
        (answer(None, drafted("", 0), acceptance=None), "Nothing to copy here: plain speed."),
        (
            answer(None, drafted("", 0), proposer="lookup + draft", acceptance=None),
            "No guess was worth its time: plain speed.",
        ),
        (answer(1.5, ("plain",), ("",), end="cancelled"), ""),
        (answer(None, (), (), acceptance=None, end="stop"), ""),
        (Answer("cut", end="crashed"), ""),
    ],
)
def test_the_sentence(made: Answer, said: str) -> None:
    """Else: a gain, a loss or a share of words that were not there."""
    assert gain_sentence(made) == said


def test_what_a_reply_goes_on_from_is_not_counted() -> None:
    """Else: a reply that was cut takes credit for what stood there before."""
    made = answer(2.0, LOOKUP, TEXT)
    whole = Answer(
        "", (), ("old ", "words ", *TEXT), ("lookup", "lookup", *LOOKUP), (), "length", made.figures
    )
    assert gain_sentence(whole) == "Lookup wrote 8 of 12 words: 2.0× faster."


def test_a_foreign_name_is_one_clean_line() -> None:
    """Else: a copied chat acts on the terminal by what it calls a proposer."""
    said = gain_sentence(answer(2.0, ("x\x1b[2J\ny",) * 12))
    assert said == "X[2J y wrote 12 of 12 words: 2.0× faster."
