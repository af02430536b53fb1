"""The m largest of each row of logits, fast: a vocabulary has 150,000 entries and a pass ten rows.

A row is read once, as a block of `depth` rows that are reduced to column maxima. The m-th largest of
(coarser) maxima is at least m entries' lower bound, so every one of the m largest entries lies in a
column whose maximum reaches it: some m columns, a hundredth of the row, are looked at again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_DEPTH, _COARSE = 32, 8


def top_candidates(rows: NDArray[np.float32], count: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The `count` largest entries of each row (n, V), largest first, ties by smaller index.

    Returns their indices and values, both (n, count). count must not exceed V.
    """
    number, size = rows.shape
    width = size // _DEPTH
    coarse = width // _COARSE
    if count > coarse // 2:
        # So many that most columns would be looked at again: the exact bound costs less.
        bound = np.partition(rows, size - count, axis=1)[:, size - count]
        row_of, index_of = np.nonzero(rows >= bound[:, None])
        value_of = rows[row_of, index_of]
        return _largest_first(row_of, index_of, value_of, number, count)
    block = rows[:, : _DEPTH * width].reshape(number, _DEPTH, width)
    maxima = block.max(axis=1)
    coarse_maxima = maxima[:, : _COARSE * coarse].reshape(number, _COARSE, coarse).max(axis=1)
    bound = np.partition(coarse_maxima, coarse - count, axis=1)[:, coarse - count]
    flat = np.flatnonzero(maxima >= bound[:, None])
    owner = flat // width
    column = flat - owner * width
    entries = block[owner, :, column]
    hits = np.flatnonzero(entries >= bound[owner][:, None])
    place = hits // _DEPTH
    row_of = owner[place]
    index_of = (hits - place * _DEPTH) * width + column[place]
    value_of = entries.ravel()[hits]
    tail = _DEPTH * width
    if tail < size:
        tail_row, tail_column = np.nonzero(rows[:, tail:] >= bound[:, None])
        row_of = np.concatenate([row_of, tail_row])
        index_of = np.concatenate([index_of, tail_column + tail])
        value_of = np.concatenate([value_of, rows[tail_row, tail_column + tail]])
    return _largest_first(row_of, index_of, value_of, number, count)


def _largest_first(
    row_of: NDArray[np.int64],
    index_of: NDArray[np.int64],
    value_of: NDArray[np.float32],
    number: int,
    count: int,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The `count` largest of each row's candidates (each row has at least so many)."""
    order = np.lexsort((index_of, -value_of, row_of))
    starts = np.searchsorted(row_of[order], np.arange(number))
    chosen = order[starts[:, None] + np.arange(count)]
    return index_of[chosen], value_of[chosen]
