"""What theory expects: without these the screen teaches a speedup or a best draft length that is not so."""

from __future__ import annotations

import subprocess
import sys
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.expectation import (
    best_k,
    expected_tokens,
    expected_tokens_by_position,
    interpolated,
    relative_cost,
    speedup,
)

shares = st.floats(0.0, 1.0)
curves = st.dictionaries(st.integers(2, 40), st.floats(0.01, 100.0), min_size=1).map(
    lambda points: {1: 1.0, **points}
)


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
    alpha: float, draft_cost: float, points: dict[int, float], unit: float
) -> None:
    """Else: a curve in milliseconds shows another speedup than the same curve in seconds."""
    cost = interpolated(points)
    other = interpolated({width: seconds * unit for width, seconds in points.items()})
    assert speedup(alpha, 0, cost, draft_cost) == 1
    for k in (1, 5, 16):
        assert speedup(alpha, k, cost, draft_cost) == pytest.approx(speedup(alpha, k, other, draft_cost))


def test_time_of_drafting_counts_once_for_each_drafted_token() -> None:
    cost = interpolated({1: 2.0, 5: 6.0})
    assert relative_cost(4, cost, 0.25) == pytest.approx(3.0 + 1.0)
    assert speedup(0.8, 4, cost, 0.25) == pytest.approx(3.3616 / 4)


def test_the_best_k_is_found_behind_a_jump() -> None:
    """Else: a climb stops at k = 0 where the second position is dear and the eighth is not."""
    cost = interpolated({1: 1.0, 2: 2.2, 4: 3.0, 8: 3.1, 9: 6.0, 17: 12.0})
    assert speedup(0.9, 1, cost, 0.0) < 1
    assert best_k(0.9, cost, 0.0, 16) == 7
    assert best_k(0.9, cost, 0.0, 3) == 3


@given(shares, shares, curves)
def test_no_k_beats_the_best(alpha: float, draft_cost: float, points: dict[int, float]) -> None:
    cost = interpolated(points)
    best = best_k(alpha, cost, draft_cost, 16)
    every = [speedup(alpha, k, cost, draft_cost) for k in range(17)]
    assert every[best] == max(every)
    assert best == every.index(max(every))


@given(curves)
def test_a_curve_is_linear_between_what_was_measured(points: dict[int, float]) -> None:
    """Else: k is judged by costs that nobody measured."""
    cost = interpolated(points)
    widths = sorted(points)
    for width in range(1, widths[-1] + 1):
        assert cost(width) == pytest.approx(np.interp(width, widths, [points[each] for each in widths]))


def test_a_curve_goes_on_by_its_last_slope_but_never_falls() -> None:
    assert interpolated({1: 1.0, 4: 2.0, 8: 4.0})(12) == pytest.approx(6.0)
    assert interpolated({1: 1.0, 4: 3.0, 8: 2.0})(100) == pytest.approx(2.0)


@pytest.mark.parametrize("points", [{}, {1: 1.0}, {2: 1.0, 3: 2.0}, {1: 0.0, 2: 1.0}, {1: 1.0, 2: -1.0}])
def test_what_is_no_curve_is_refused(points: dict[int, float]) -> None:
    with pytest.raises(ValueError, match="width 1"):
        interpolated(points)


def test_the_screen_can_import_it_without_numpy() -> None:
    """Else: the screen takes longer to open, or loads llama.cpp."""
    program = "import sys, app.engine.expectation; sys.exit(bool({'numpy', 'llama_cpp'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
