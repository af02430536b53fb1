"""What theory expects: without these the screen teaches a speedup or a best draft length that is not so."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.expectation import (
    Cost,
    best_k,
    expected_tokens,
    expected_tokens_by_position,
    relative_cost,
    speedup,
)

shares = st.floats(0.0, 1.0)
# Costs of widths 1 to 17 that jump at will.
curves = st.lists(st.floats(0.01, 100.0), min_size=17, max_size=17)


def by_width(costs: Sequence[float]) -> Cost:
    return lambda width: costs[width - 1]


@pytest.mark.parametrize(
    ("alpha", "k", "tokens"),
    [(0.9, 6, 5.217), (0.8, 4, 3.362), (0.5, 4, 1.938), (0.3, 4, 1.425), (1.0, 7, 8.0), (0.0, 7, 1.0)],
)
def test_tokens_of_a_pass_are_those_of_the_paper(alpha: float, k: int, tokens: float) -> None:
    assert expected_tokens(alpha, k) == pytest.approx(tokens, abs=5e-4)


@given(st.floats(0.0, 0.999), st.integers(0, 32))
def test_the_sum_is_the_formula_of_the_paper(alpha: float, k: int) -> None:
    assert expected_tokens(alpha, k) == pytest.approx((1 - alpha ** (k + 1)) / (1 - alpha))


@given(st.lists(shares, max_size=6))
def test_odds_by_position_give_the_mean_over_all_outcomes(hazards: list[float]) -> None:
    """Else: acceptance that falls along a draft is summed wrongly."""
    mean = 0.0
    for fates in product((True, False), repeat=len(hazards)):
        chances = [odds if fate else 1 - odds for fate, odds in zip(fates, hazards, strict=True)]
        kept = fates.index(False) if False in fates else len(fates)
        mean += float(np.prod(chances)) * (1 + kept)
    assert expected_tokens_by_position(hazards) == pytest.approx(mean)


@given(shares, shares, curves, st.floats(0.01, 1000.0))
def test_a_speedup_has_no_unit_and_plain_decoding_is_one(
    alpha: float, draft_cost: float, costs: list[float], unit: float
) -> None:
    """Else: a curve in milliseconds shows another speedup than the same curve in seconds."""
    cost, other = by_width(costs), by_width([each * unit for each in costs])
    assert speedup(alpha, 0, cost, draft_cost) == 1
    for k in (1, 5, 16):
        assert speedup(alpha, k, cost, draft_cost) == pytest.approx(speedup(alpha, k, other, draft_cost))


def test_time_of_drafting_counts_once_for_each_drafted_token() -> None:
    cost = by_width([2.0, 3.0, 4.0, 5.0, 6.0])
    assert relative_cost(4, cost, 0.25) == pytest.approx(3.0 + 1.0)
    assert speedup(0.8, 4, cost, 0.25) == pytest.approx(3.3616 / 4)


def test_the_best_k_is_found_behind_a_jump() -> None:
    """Else: a climb stops at k = 0 where the second position is dear and the eighth is not."""
    cost = by_width([1.0, 2.2, 2.6, 3.0, 3.0, 3.1, 3.1, 3.1, *[9.0] * 9])
    assert speedup(0.9, 1, cost, 0.0) < 1
    assert best_k(0.9, cost, 0.0, 16) == 7
    assert best_k(0.9, cost, 0.0, 3) == 3


@given(shares, shares, curves)
def test_no_k_beats_the_best(alpha: float, draft_cost: float, costs: list[float]) -> None:
    cost = by_width(costs)
    best = best_k(alpha, cost, draft_cost, 16)
    every = [speedup(alpha, k, cost, draft_cost) for k in range(17)]
    assert every[best] == max(every)
    assert best == every.index(max(every))


def test_the_screen_can_import_it_without_numpy() -> None:
    """Else: the screen takes longer to open, or loads llama.cpp."""
    program = "import sys, app.engine.expectation; sys.exit(bool({'numpy', 'llama_cpp'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
