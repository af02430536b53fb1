"""Lookup as the engine uses it: begin, propose, observe, over histories that grow and are cut."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proposers.automaton import NO_MATCH, Match
from proposers.base import NOTHING, Proposal, Proposer, RowSampler
from proposers.lookup import GUARD, Lookup

UNUSED_SAMPLER = cast(RowSampler, None)
RNG = np.random.default_rng(0)

tokens = st.lists(st.integers(0, 2), max_size=40)


def propose(lookup: Proposer, history: list[int], limit: int = 8) -> Proposal:
    return lookup.propose(history, limit, UNUSED_SAMPLER, RNG)


def fresh(history: list[int]) -> Lookup:
    lookup = Lookup()
    lookup.begin(history)
    return lookup


def reference(history: list[int], limit: int) -> tuple[int, ...]:
    """The copy by its definition: search backwards, then append one token at a time."""
    for length in range(len(history) - 1, 0, -1):
        for end in range(len(history) - 1, length - 1, -1):
            if history[end - length : end] == history[len(history) - length :]:
                written = list(history)
                for step in range(limit):
                    written.append(written[end + step])
                return tuple(written[len(history) :])
    return ()


@given(tokens, st.integers(1, 12))
def test_copies_what_followed_the_latest_occurrence(history: list[int], limit: int) -> None:
    """Else drafts are not what the text said last, and verification throws them away."""
    proposal = propose(fresh(history), history, limit)
    assert proposal == Proposal(reference(history, limit))


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 64])
def test_periodic_text_is_continued_past_its_end(limit: int) -> None:
    """Else a list or table that repeats is drafted for less than one lap, and the speedup is lost."""
    history = [1, 2, 3, 1, 2, 3, 1, 2]
    expected = ([3, 1, 2] * 22)[:limit]
    assert propose(fresh(history), history, limit).tokens == tuple(expected)


@given(tokens, st.integers(1, 50))
def test_never_more_than_the_limit(history: list[int], limit: int) -> None:
    """Else a reply overruns its token budget or the last slots of the context."""
    proposal = propose(fresh(history), history, limit)
    assert len(proposal.tokens) in (0, limit)
    assert proposal.q is None


@pytest.mark.parametrize("history", [[], [4], [4, 5, 6]])
def test_no_repeat_no_draft(history: list[int]) -> None:
    """Else a chat that has just begun crashes, or pays for wide passes without a reason."""
    assert propose(fresh(history), history) == NOTHING


def test_a_trim_forgets_what_was_cut() -> None:
    """Else a message that was edited away is still quoted in drafts."""
    lookup = fresh([1, 2, 3, 4, 1, 2, 5])
    lookup.begin([1, 2, 3, 4])
    assert propose(lookup, [1, 2, 3, 4, 1, 2], 1).tokens == (3,)
    lookup.begin([8, 8, 8])
    assert propose(lookup, [8, 8, 8, 1, 2]) == NOTHING


@pytest.mark.parametrize("cut", [1, GUARD, 3 * GUARD])
def test_a_trim_that_nobody_announced_is_noticed(cut: int) -> None:
    """Else a regenerated reply drafts from the one that was discarded."""
    history = list(range(100))
    for again in ([], list(range(500, 500 + cut)), list(range(500, 700))):
        lookup = fresh(history)
        regenerated = history[:-cut] + again
        lookup.observe(regenerated)
        assert propose(lookup, [*regenerated, 98, 99]) == NOTHING
        assert propose(lookup, [*regenerated, 98, 99, 3, 4], 1).tokens == (5,)


steps = st.lists(
    st.tuples(
        st.sampled_from(["begin", "propose", "observe", "cut"]), st.lists(st.integers(0, 2), max_size=6)
    ),
    max_size=15,
)


@given(steps)
def test_no_drift_in_any_order_of_calls(calls: list[tuple[str, list[int]]]) -> None:
    """Else acceptance decays over a long chat with rejections, toggles and edits, and nothing says why."""
    lookup = Lookup()
    history: list[int] = []
    for call, new in calls:
        if call == "cut":
            history = history[: len(history) // 2] + new
            lookup.begin(history)
        else:
            history = history + new
            if call == "begin":
                lookup.begin(history)
            elif call == "observe":
                lookup.observe(history)
            else:
                propose(lookup, history)
        again = fresh(history)
        assert propose(lookup, history) == propose(again, history)
        assert lookup.match == again.match


def test_proposing_leaves_no_trace() -> None:
    """Else rejected drafts become part of the index and are drafted again."""
    history = [1, 2, 3, 1, 2]
    lookup = fresh(history)
    first = propose(lookup, history)
    assert propose(lookup, history) == first
    assert propose(lookup, [*history, 7, 1, 2], 2).tokens == (7, 1)


def test_histories_need_not_be_lists() -> None:
    """Else an engine that hands in a tuple has its index rebuilt at each pass, or gets no drafts."""
    lookup = Lookup()
    lookup.begin((1, 2, 3))
    lookup.observe((1, 2, 3, 1, 2))
    assert lookup.propose((1, 2, 3, 1, 2), 1, UNUSED_SAMPLER, RNG).tokens == (3,)


def test_the_match_that_would_be_copied_is_told() -> None:
    """Else no benchmark can say which matches are worth a draft."""
    history = [5, 1, 2, 3, 6, 1, 2, 4, 7, 1, 2, 3, 8, 1, 2]
    lookup = fresh(history)
    assert lookup.match == Match(length=2, end=11, occurrences=3)
    lookup.observe([*history, 99])
    assert lookup.match == NO_MATCH


def test_it_is_a_proposer_without_a_model() -> None:
    """Else the statistics charge lookup with model time, or give its tokens another origin."""
    proposer: Proposer = Lookup()
    assert (proposer.name, proposer.model_seconds) == ("lookup", 0.0)
