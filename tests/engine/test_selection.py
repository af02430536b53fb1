"""The fast selection against a stable sort: the same entries in the same order, whatever the rows hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from app.engine.selection import _COARSE, _DEPTH, top_candidates

# From this size on, a single candidate is found by columns and not by a sort of the row.
BY_COLUMNS = 2 * _DEPTH * _COARSE

Rows = NDArray[np.float32]


def check(rows: Rows, count: int) -> None:
    expected = np.array([np.argsort(-row, kind="stable")[:count] for row in rows])
    before = rows.copy()
    tokens, values = top_candidates(rows, count)
    assert np.array_equal(tokens, expected)
    assert np.array_equal(values, np.take_along_axis(rows, expected, axis=1))
    assert tokens.dtype == np.int64
    assert values.dtype == np.float32
    assert np.array_equal(rows, before)


@st.composite
def selections(draw: st.DrawFn) -> tuple[Rows, int]:
    """Rows (n, V) and a count; sizes on both sides of every border of the blocks."""
    blocks = draw(st.sampled_from([0, 1, _DEPTH, BY_COLUMNS, 3 * BY_COLUMNS, 20 * BY_COLUMNS]))
    size = max(1, blocks + draw(st.integers(-_DEPTH - 1, _DEPTH + 1)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = (draw(st.integers(1, 5)), size)
    kind = draw(st.sampled_from(["distinct", "few values", "constant", "ascending", "descending", "spike"]))
    rows = rng.standard_normal(shape)
    if kind == "few values":
        rows = rng.integers(-2, 3, shape) * rng.choice([-0.0, 0.5], shape)
    elif kind == "constant":
        rows = np.full(shape, draw(st.sampled_from([0.0, -1.5, -np.inf])))
    elif kind == "ascending":
        rows = np.sort(rows, axis=1)
    elif kind == "descending":
        rows = -np.sort(rows, axis=1)
    elif kind == "spike":
        rows[:, rng.integers(size, size=3)] = 50.0
    if draw(st.booleans()):
        rows[rng.random(shape) < draw(st.sampled_from([0.1, 0.9, 0.999]))] = -np.inf
    if draw(st.booleans()):
        rows[:] = rows[0]
    fast = max(1, size // _DEPTH // _COARSE // 2)
    count = draw(st.one_of(st.integers(1, fast), st.integers(fast, fast + 1), st.integers(1, size)))
    return rows.astype(np.float32), min(count, size)


@settings(max_examples=400, deadline=None)
@given(selections())
def test_candidates_are_those_of_a_stable_sort(selection: tuple[Rows, int]) -> None:
    """Else a likely token is missing from top-k, or a seed's reply hangs on how ties fall."""
    check(*selection)


@pytest.mark.parametrize("size", [1, 2, 31, 33, BY_COLUMNS - 1, BY_COLUMNS, 2 * BY_COLUMNS + 17])
def test_every_count_of_a_row(size: int) -> None:
    """Else one value of top-k, such as the last that takes the fast way, loses a candidate."""
    rng = np.random.default_rng(size)
    rows = rng.integers(0, 40, (2, size)).astype(np.float32)
    for count in range(1, size + 1):
        check(rows, count)


@pytest.mark.parametrize("size", [16 * BY_COLUMNS, 16 * BY_COLUMNS + 5, 17 * BY_COLUMNS - 1])
def test_the_largest_is_found_wherever_it_lies(size: int) -> None:
    """Else tokens at some ids, such as those after the last whole block, can never be sampled."""
    rng = np.random.default_rng(0)
    places = {0, 1, size - 1, size - 2, size // 2, size // _DEPTH, size // _DEPTH * _DEPTH}
    places |= set(rng.integers(0, size, 60).tolist())
    rows = rng.standard_normal((3, size)).astype(np.float32)
    for place in sorted(places - {size}):
        changed = rows.copy()
        changed[1, place] = 90.0
        tokens, values = top_candidates(changed, 4)
        assert tokens[1, 0] == place
        assert values[1, 0] == 90.0
        check(changed, 4)


def test_a_view_with_strides_is_read_as_it_is() -> None:
    """Else rows that a caller cut out of a larger array give other candidates than a copy would."""
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((6, 2 * BY_COLUMNS + 6)).astype(np.float32)
    check(rows[::2, 3:-1], 1)
    check(rows[::-1, ::2], 1)
    check(rows[1:2], 2)
