"""Colouring: without these a person is told that tokens were guessed that the model wrote itself."""

from collections.abc import Iterable
from itertools import chain, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from app.colours import LOOKS, OWN
from app.tui.theme import THEMES, token_style
from app.tui.transcript.colouring import OriginStyler, TokenSpans, legend
from app.tui.transcript.wrapping import Run

REJECTED = Style(strike=True)
PIECES = ("The", " river", " flows", ".", "\n\n", "It", " ends")
ORIGINS = ("plain", "lookup", "lookup", "correction", "plain", "bonus", "draft")
REJECTED_DRAFTS = ((3, ", it"), (7, "\nhere"))


def styled(struck: Style | None = None) -> list[Run]:
    styler = OriginStyler(TokenSpans(PIECES, ORIGINS, REJECTED_DRAFTS), "dark", struck)
    text = "".join(PIECES)
    return styler(text, Style(), 0, 0) + styler.rejected(
        styler.spans.rejected(len(text), len(text) + 1), Style()
    )


def test_accepted_drafts_have_the_look_of_their_proposer_and_the_models_own_words_none() -> None:
    assert "".join(run.text for run in styled()) == "".join(PIECES)
    looks = {run.text: run.style for run in styled()}
    assert looks["river flows"] == token_style("lookup", "dark")
    assert looks["ends"] == token_style("draft", "dark")
    assert looks[".\n\nIt"] == looks["The"] == looks[" "] == Style()


def test_rejected_drafts_stand_where_they_were_rejected() -> None:
    """Else: a person cannot see what the model wrote in their place."""
    runs = styled(REJECTED)
    assert "".join(run.text for run in runs) == "The river flows, it.\n\nIt ends⏎here"
    assert [run.text for run in runs if run.style == REJECTED] == [", it", "⏎here"]


def test_places_are_those_of_the_text() -> None:
    """Else: a reader is moved when the colours are switched."""
    for run in styled(REJECTED):
        if run.style != REJECTED:
            assert "".join(PIECES)[run.offset :].startswith(run.text)


@pytest.mark.parametrize("theme", [*THEMES, "none"])
def test_proposers_look_unlike_and_have_no_look_of_something_else(theme: str) -> None:
    """Else: a person without colours cannot tell them apart, or takes a guess for a link."""
    looks = {name: token_style(name, theme) for name in LOOKS if name not in OWN}
    assert len(set(looks.values())) == len(looks)
    for look in looks.values():
        assert bool(look.underline or look.underline2) == (theme == "none")
        assert (look.color is None and look.bgcolor is None) == (theme == "none")
    assert all(token_style(name, theme) == Style() for name in OWN)
    assert token_style("eagle3", theme) == looks["head"]


def test_the_legend_names_what_is_present_and_no_more() -> None:
    def said(spans: TokenSpans, struck: Style | None = None, theme: str = "dark") -> list[str]:
        entries = legend(OriginStyler(spans, theme, struck), Style())
        return ["".join(run.text for run in entry) for entry in entries]

    spans = TokenSpans(PIECES, ORIGINS, REJECTED_DRAFTS)
    both = "tinted: guessed ahead and right, by lookup, draft"
    assert said(spans) == [both]
    assert said(spans, REJECTED) == [both, "struck: guessed wrong"]
    assert said(TokenSpans(("a",), ("eagle3",)), REJECTED, "none") == [
        "marked: guessed ahead and right, by eagle3"
    ]
    assert said(TokenSpans(("a",), ("off",)), REJECTED) == []


TOKENS = st.lists(
    st.tuples(st.sampled_from(["", "a", " b", "\n", "é ", "\x1b[2J"]), st.sampled_from(list(ORIGINS))),
    max_size=12,
)


@given(TOKENS, st.lists(st.tuples(st.integers(0, 12), st.sampled_from(["x", " y"])), max_size=3), st.data())
def test_text_that_is_styled_bit_by_bit_looks_as_if_styled_at_once(
    tokens: list[tuple[str, str]], rejected: list[tuple[int, str]], data: st.DataObject
) -> None:
    """Else: marks are lost, or stand twice, where a line or a look begins."""
    rejected = sorted((min(index, len(tokens)), text) for index, text in rejected)
    spans = TokenSpans([piece for piece, _ in tokens], [origin for _, origin in tokens], rejected)
    assert "\x1b" not in spans.text
    styler = OriginStyler(spans, "dark", data.draw(st.sampled_from([None, REJECTED])))
    length = len(spans.text)
    edges = sorted({0, length} | data.draw(st.sets(st.integers(0, length), max_size=4)))
    bits = [styler(spans.text[start:end], Style(), start, start) for start, end in pairwise(edges)]
    assert letters(chain(*bits)) == letters(styler(spans.text, Style(), 0, 0))


def letters(runs: Iterable[Run]) -> list[tuple[str, Style]]:
    """Blanks may be marked or not, by where a run begins."""
    return [(letter, run.style) for run in runs for letter in run.text if not letter.isspace()]
