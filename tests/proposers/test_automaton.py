"""The automaton against a quadratic search that reads like the definition."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from proposers.automaton import HOPS, NO_MATCH, Match, SuffixAutomaton

# Few different tokens make many repeats; short texts stay below HOPS, where occurrences are exact.
texts = st.lists(st.integers(0, 2), max_size=HOPS - 4)
pieces = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1, max_size=4)


def indexed(text: Sequence[int]) -> SuffixAutomaton:
    automaton = SuffixAutomaton()
    for token in text:
        automaton.extend(token)
    return automaton


def longest_match(text: Sequence[int]) -> Match:
    """The longest suffix that also ends earlier."""
    for length in range(len(text) - 1, 0, -1):
        wanted = list(text[len(text) - length :])
        ends = [end for end in range(length, len(text)) if list(text[end - length : end]) == wanted]
        if ends:
            return Match(length, ends[-1], len(ends))
    return NO_MATCH


@given(texts)
def test_the_match_is_the_longest_and_latest_at_every_step(text: list[int]) -> None:
    """Else a draft copies from a worse place than the history offers, and fewer tokens are accepted."""
    automaton = SuffixAutomaton()
    for position, token in enumerate(text, start=1):
        automaton.extend(token)
        assert automaton.match == longest_match(text[:position])


@given(pieces, st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_the_match_in_quoted_text(parts: list[list[int]], order: list[int]) -> None:
    """Else a document quoted again and again, the case lookup is for, is drafted from the wrong place."""
    text = [token for choice in order for token in parts[choice % len(parts)]][: HOPS - 4]
    assert indexed(text).match == longest_match(text)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 2), min_size=1, max_size=3), st.integers(1, 3), st.lists(st.integers(0, 2)))
def test_deep_repeats_stay_true(period: list[int], laps: int, tail: list[int]) -> None:
    """Past HOPS the latest may be overlooked; a place where the words do not stand is never named."""
    text = (period * (laps * HOPS))[: laps * HOPS] + tail
    match = indexed(text).match
    exact = longest_match(text)
    assert match.length == exact.length
    assert match.end <= exact.end and match.occurrences <= exact.occurrences
    if match.length:
        assert match.occurrences >= 1
        assert text[match.end - match.length : match.end] == text[len(text) - match.length :]


def test_a_run_is_matched_to_the_lap_before() -> None:
    """Else a model that loops is drafted from the start of the loop, far from what it varies now."""
    text = [7, 8, 9] * 200
    assert indexed(text).match.end == len(text) - 3


@given(st.lists(st.integers(0, 1), max_size=200))
def test_size_is_linear(text: list[int]) -> None:
    """Else a long chat fills the memory: at most two states a token (Blumer et al. 1985)."""
    assert len(indexed(text)._next) <= max(2 * len(text), 1)


def test_nothing_is_matched_in_nothing() -> None:
    """Else the first token of a chat crashes the reply."""
    assert SuffixAutomaton().match == NO_MATCH
    assert indexed([5]).match == NO_MATCH
