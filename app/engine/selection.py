"""The m largest logits of each row, fast: a vocabulary has 150,000 entries, and a pass ten rows.

A row is read once, as a block of _DEPTH rows that are reduced to column maxima. At least m entries reach the
m-th largest of the (coarser) maxima, so each of the m largest entries lies in a column whose maximum reaches
it: about m columns, a hundredth of the row, are read again.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.errors import SpecchatError

_DEPTH, _COARSE = 64, 4


class InvalidLogits(SpecchatError):
    """No distribution can be computed from these logits."""

    def __init__(self) -> None:
        super().__init__(
            "The model computes no numbers (NaN or infinity): its file is damaged, download it again."
        )


def check_logits(top: float, rows: NDArray[np.float32]) -> None:
    """Raise InvalidLogits if rows (n, V), with largest entry `top`, hold NaN, or infinity more than once
    each.

    One infinite logit is a token that is certain, and minus infinity one that is impossible. The rows are
    read only if `top` is not finite: numpy's maximum of NaN and anything is NaN.
    """
    if top < math.inf:
        return
    if np.isnan(rows).any() or (np.count_nonzero(rows == math.inf, axis=1) > 1).any():
        raise InvalidLogits


def top_candidates(rows: NDArray[np.float32], count: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The `count` largest entries of each row (n, V), largest first, ties by smaller index.

    Returns their indices and values, both (n, count); count must not exceed V. Raises InvalidLogits, see
    `check_logits`.
    """
    number, size = rows.shape
    width = size // _DEPTH
    coarse = width // _COARSE
    if count > coarse // 2:
        # Most columns would be read again, so the exact bound costs less.
        return largest(np.broadcast_to(np.arange(size), rows.shape), rows, count)
    # Methods and ufunc.reduce instead of numpy's functions: most of these arrays are so small that a call's
    # overhead is as much as its loop.
    block = rows[:, : _DEPTH * width].reshape(number, _DEPTH, width)
    maxima = np.maximum.reduce(block, axis=1)
    tail = _DEPTH * width
    check_logits(np.maximum.reduce(maxima, axis=None), rows)
    if tail < size:
        check_logits(np.maximum.reduce(rows[:, tail:], axis=None), rows)
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
    """The `count` largest of each row's candidates (n, m), given their tokens and logits, like
    `top_candidates`."""
    number, size = logits.shape
    top = np.partition(logits, size - count, axis=1)[:, size - count :]
    # NaN is sorted to the end.
    check_logits(np.maximum.reduce(top, axis=None), logits)
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
    """The `count` largest of each row's candidates; each row owns at least that many."""
    if number == 1:
        chosen = np.lexsort((indices, -values))[None, :count]
        return indices[chosen], values[chosen]
    order = np.lexsort((indices, -values, owners))
    starts = owners[order].searchsorted(np.arange(number))
    chosen = order[starts[:, None] + np.arange(count)]
    return indices[chosen], values[chosen]
