"""The automaton against a quadratic search that reads like the definition."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from proposers.automaton import HOPS, NO_MATCH, START, Match, SuffixAutomaton

# Few different tokens make many repeats; short texts stay below HOPS, where occurrences are exact.
texts = st.lists(st.integers(0, 2), max_size=HOPS - 4)
pieces = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1, max_size=4)


def indexed(text: Sequence[int]) -> SuffixAutomaton:
    automaton = SuffixAutomaton()
    for token in text:
        automaton.extend(token)
    return automaton


def longest_match(text: Sequence[int], suffix_of: Sequence[int], before: int) -> Match:
    """The longest suffix of `suffix_of` that ends in `text` at a position up to `before`."""
    for length in range(len(suffix_of), 0, -1):
        wanted = list(suffix_of[len(suffix_of) - length :])
        ends = [end for end in range(length, before + 1) if list(text[end - length : end]) == wanted]
        if ends:
            latest = ends[-1]
            following = [text[end] for end in ends if end < len(text)]
            continued = following.count(text[latest]) if latest < len(text) else 0
            return Match(length, latest, len(ends), continued)
    return NO_MATCH


@given(texts)
def test_repeat_is_the_longest_and_latest_at_every_step(text: list[int]) -> None:
    """Else a draft copies from a worse place than the history offers, and fewer tokens are accepted."""
    automaton = SuffixAutomaton()
    for position, token in enumerate(text, start=1):
        automaton.extend(token)
        seen = text[:position]
        assert automaton.repeat() == longest_match(seen, seen, before=position - 1)


@given(pieces, st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_repeat_in_quoted_text(parts: list[list[int]], order: list[int]) -> None:
    """Else a document quoted again and again, the case lookup is for, is drafted from the wrong place."""
    text = [token for choice in order for token in parts[choice % len(parts)]][: HOPS - 4]
    automaton = indexed(text)
    assert automaton.repeat() == longest_match(text, text, before=len(text) - 1)


@given(texts, texts)
def test_cursor_finds_the_longest_match_of_a_second_text(text: list[int], second: list[int]) -> None:
    """Else an earlier chat that holds the very words is not found, or the wrong part of it is copied."""
    automaton = indexed(text)
    cursor = START
    for position, token in enumerate(second, start=1):
        cursor = automaton.advance(cursor, token)
        assert automaton.find(cursor) == longest_match(text, second[:position], before=len(text))


@given(texts)
def test_cursor_survives_growth(text: list[int]) -> None:
    """Else a cursor kept while the text grows goes stale as states split, and matches get lost."""
    automaton = SuffixAutomaton()
    cursor = START
    for token in text:
        cursor = automaton.advance(cursor, token)
        automaton.extend(token)
        assert cursor.length == automaton.repeat().length
        # The newest occurrence is the text's own end by now.
        assert cursor.length == 0 or automaton.find(cursor).end == len(automaton.tokens)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 2), min_size=1, max_size=3), st.integers(1, 3), st.lists(st.integers(0, 2)))
def test_deep_repeats_stay_true(period: list[int], laps: int, tail: list[int]) -> None:
    """Past HOPS the latest may be overlooked; a place where the words do not stand is never named."""
    text = (period * (laps * HOPS))[: laps * HOPS] + tail
    match = indexed(text).repeat()
    exact = longest_match(text, text, before=len(text) - 1)
    assert match.length == exact.length
    assert match.end <= exact.end and match.count <= exact.count
    assert match.continued <= match.count
    if match.length:
        assert match.count >= 1
        assert text[match.end - match.length : match.end] == text[len(text) - match.length :]


def test_a_run_is_matched_to_the_lap_before() -> None:
    """Else a model that loops is drafted from the start of the loop, far from what it varies now."""
    text = [7, 8, 9] * 200
    assert indexed(text).repeat().end == len(text) - 3


@given(st.lists(st.integers(0, 1), max_size=200))
def test_size_is_linear(text: list[int]) -> None:
    """Else a long chat fills the memory: at most two states a token (Blumer et al. 1985)."""
    assert len(indexed(text)._next) <= max(2 * len(text), 1)


def test_nothing_is_matched_in_nothing() -> None:
    """Else the first token of a chat crashes the reply."""
    assert SuffixAutomaton().repeat() == NO_MATCH
    assert SuffixAutomaton().find(SuffixAutomaton().advance(START, 5)) == NO_MATCH
    assert indexed([5]).repeat() == NO_MATCH
