"""Colouring: without these a person is told that tokens were guessed that the model wrote itself."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from app.tui.theme import origin_style
from app.tui.transcript.colouring import Inks, Level, Trail, coloured, legend

INKS = Inks(Style(), Style(strike=True), "dark")
PIECES = ("The", " river", " flows", ".", "\n\n", "It", " ends")
ORIGINS = ("plain", "lookup", "lookup", "correction", "plain", "bonus", "draft")
GHOSTS = ((3, ", it"), (7, "\nhere"))


def test_each_token_has_the_look_of_its_origin() -> None:
    runs = coloured(PIECES, ORIGINS, GHOSTS, 1, INKS)
    assert "".join(run.text for run in runs) == "".join(PIECES)
    looks = {run.text: run.style for run in runs}
    assert looks["river flows"] == origin_style("lookup", "dark")
    assert looks["."] == origin_style("correction", "dark")
    assert looks["It"] == origin_style("bonus", "dark")
    assert looks["The"] == looks["\n\n"] == looks[" "] == Style()


def test_rejected_drafts_stand_where_they_were_rejected() -> None:
    """Else: a person cannot see what the correction corrected."""
    runs = coloured(PIECES, ORIGINS, GHOSTS, 2, INKS)
    assert "".join(run.text for run in runs) == "The river flows, it.\n\nIt ends⏎here"
    assert [run.text for run in runs if run.style == INKS.ghost] == [", it", "⏎here"]


def test_off_means_off() -> None:
    (run,) = coloured(PIECES, ORIGINS, GHOSTS, 0, INKS)
    assert run.text == "".join(PIECES) and run.style == INKS.body


def test_places_are_those_of_the_text() -> None:
    """Else: a reader is moved when the colours are switched."""
    text = "".join(PIECES)
    for run in coloured(PIECES, ORIGINS, GHOSTS, 2, INKS):
        if run.style != INKS.ghost:
            assert text[run.place : run.place + len(run.text)] == run.text


def test_the_legend_names_what_is_present_and_no_more() -> None:
    names = [entry[0].text for entry in legend(Trail(PIECES, ORIGINS, GHOSTS), INKS, 2, Style())]
    assert names == ["lookup", "draft", "correction", "bonus", "rejected"]
    assert [entry[0].text for entry in legend(Trail(("a",), ("lookup",)), INKS, 2, Style())] == ["lookup"]
    assert legend(Trail(("a",), ("off",)), INKS, 1, Style()) == []
    (later,) = legend(Trail(("a",), ("eagle3",)), INKS, 1, Style())
    assert later[0].text == "eagle3"


TOKENS = st.lists(
    st.tuples(st.sampled_from(["", "a", " b", "\n", "é ", "\x1b[2J"]), st.sampled_from(list(ORIGINS))),
    max_size=12,
)


@given(TOKENS, st.lists(st.tuples(st.integers(0, 12), st.sampled_from(["x", " y"])), max_size=3), st.data())
def test_an_answer_that_grows_looks_as_one_that_is_whole(
    tokens: list[tuple[str, str]], ghosts: list[tuple[int, str]], data: st.DataObject
) -> None:
    """Else: the text jumps, or loses a token, at its end."""
    ghosts = sorted((min(index, len(tokens)), text) for index, text in ghosts)
    trail = Trail([piece for piece, _ in tokens], [origin for _, origin in tokens], ghosts)
    length = len(trail.text)
    assert "\x1b" not in trail.text
    level: Level = data.draw(st.sampled_from([1, 2]))
    edges = [
        0,
        *sorted(data.draw(st.sets(st.integers(1, max(1, length - 1)), max_size=4 if length > 1 else 0))),
        length,
    ]
    grown = [
        run.text
        for start, end in pairwise(edges)
        for run in trail.runs(start, end, INKS, level, last=end == length)
        if start < end or length == 0
    ]
    assert "".join(grown) == "".join(run.text for run in trail.runs(0, length, INKS, level, last=True))
