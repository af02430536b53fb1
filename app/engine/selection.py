"""The m largest of each row of logits, fast: a vocabulary has 150,000 entries and a pass ten rows.

A row is read once, as a block of `depth` rows that are reduced to column maxima. The m-th largest of
(coarser) maxima is at least m entries' lower bound, so every one of the m largest entries lies in a
column whose maximum reaches it: some m columns, a hundredth of the row, are looked at again.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.errors import SpecchatError

_DEPTH, _COARSE = 64, 4


class NoNumbers(SpecchatError):
    """Logits that say nothing."""

    def __init__(self) -> None:
        super().__init__(
            "The model computes no numbers (NaN or infinity): its file is damaged, download it again."
        )


def refuse_damage(top: float, rows: NDArray[np.float32]) -> None:
    """Raise NoNumbers where rows (n, V), whose largest entry is `top`, hold NaN, or infinity more than once.

    One infinite logit is a token that is certain, and minus infinity one that cannot be. The rows are only
    looked at where `top` is no usual number: numpy's maximum of NaN and anything is NaN.
    """
    if top < math.inf:
        return
    if np.isnan(rows).any() or (np.count_nonzero(rows == math.inf, axis=1) > 1).any():
        raise NoNumbers


def top_candidates(rows: NDArray[np.float32], count: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The `count` largest entries of each row (n, V), largest first, ties by smaller index.

    Returns their indices and values, both (n, count). count must not exceed V. Raises NoNumbers, see
    `refuse_damage`.
    """
    number, size = rows.shape
    width = size // _DEPTH
    coarse = width // _COARSE
    if count > coarse // 2:
        # So many that most columns would be looked at again: the exact bound costs less.
        return largest(np.broadcast_to(np.arange(size), rows.shape), rows, count)
    # Methods and reduce of ufuncs rather than functions of numpy: most of these arrays are so small that
    # a function's way to its loop costs as much as the loop.
    block = rows[:, : _DEPTH * width].reshape(number, _DEPTH, width)
    maxima = np.maximum.reduce(block, axis=1)
    tail = _DEPTH * width
    refuse_damage(np.maximum.reduce(maxima, axis=None), rows)
    if tail < size:
        refuse_damage(np.maximum.reduce(rows[:, tail:], axis=None), rows)
    coarse_maxima = np.maximum.reduce(maxima[:, : _COARSE * coarse].reshape(number, _COARSE, coarse), axis=1)
    coarse_maxima.partition(coarse - count, axis=1)
    bound = coarse_maxima[:, coarse - count]
    flat = (maxima >= bound[:, None]).ravel().nonzero()[0]
    owners = flat // width
    columns = flat - owners * width
    entries = block[owners, :, columns]
    hits = (entries >= bound[owners][:, None]).ravel().nonzero()[0]
    places = hits // _DEPTH
    indices = (hits - places * _DEPTH) * width + columns[places]
    owners = owners[places]
    values = entries.ravel()[hits]
    if tail < size:
        tail_owners, tail_columns = (rows[:, tail:] >= bound[:, None]).nonzero()
        owners = np.concatenate([owners, tail_owners])
        indices = np.concatenate([indices, tail_columns + tail])
        values = np.concatenate([values, rows[tail_owners, tail_columns + tail]])
    return _largest_first(owners, indices, values, number, count)


def largest(
    tokens: NDArray[np.integer[Any]], logits: NDArray[np.float32], count: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The `count` largest of each row's candidates (n, m), whose logits these are, as `top_candidates`."""
    number, size = logits.shape
    top = np.partition(logits, size - count, axis=1)[:, size - count :]
    # NaN is sorted to the end.
    refuse_damage(np.maximum.reduce(top, axis=None), logits)
    bound = top[:, 0]
    owners, columns = (logits >= bound[:, None]).nonzero()
    found = tokens[owners, columns].astype(np.int64)
    return _largest_first(owners, found, logits[owners, columns], number, count)


def _largest_first(
    owners: NDArray[np.int64],
    indices: NDArray[np.int64],
    values: NDArray[np.float32],
    number: int,
    count: int,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The `count` largest of each row's candidates; each row owns at least so many."""
    if number == 1:
        chosen = np.lexsort((indices, -values))[None, :count]
        return indices[chosen], values[chosen]
    order = np.lexsort((indices, -values, owners))
    starts = owners[order].searchsorted(np.arange(number))
    chosen = order[starts[:, None] + np.arange(count)]
    return indices[chosen], values[chosen]
