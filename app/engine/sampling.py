"""From logits to the distribution that a reply is sampled from.

The order is llama.cpp's: penalties, top-k, top-p, min-p, temperature. So top-p and min-p apply to the
distribution at temperature 1, and each step sees only what the one before it kept.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from app.engine.selection import InvalidLogits, check_logits, largest, top_candidates
from app.engine.settings import Sampling
from app.llama.candidates import Candidates
from proposers.base import Distribution

Logits = NDArray[np.float32]

# Candidates considered first if top-p is on and top-k is off: a nucleus is nearly always smaller.
_NUCLEUS = 512


class Sampler:
    """Applies `Sampling` to rows of logits, of the target and of a draft alike. It keeps no state."""

    def __init__(self, settings: Sampling) -> None:
        self.settings = settings

    @property
    def greedy(self) -> bool:
        return self.settings.temperature == 0.0

    def choose(self, row: Logits, history: Sequence[int], drafted: Sequence[int]) -> int:
        """The argmax of a row (V,) after penalties; the smallest id of those that tie.

        Raises InvalidLogits, see `_finite`.
        """
        if self.settings.penalised:
            row = self._penalise(row[None], history, drafted)[0]
        return _argmax(row)

    def draw(self, distribution: Distribution, rng: np.random.Generator) -> int:
        """A token by inversion: one uniform a token, so equal seeds make equal choices."""
        return int(distribution.tokens[draw_index(distribution.probabilities, rng)])

    def sample(
        self, row: Logits, history: Sequence[int], drafted: Sequence[int], rng: np.random.Generator
    ) -> int:
        """A token of a row (V,) that follows history + drafted; at temperature 0 its argmax."""
        if self.greedy:
            return self.choose(row, history, drafted)
        return self.draw(self.distributions(row[None], history, drafted)[0], rng)

    def distributions(
        self, rows: Logits, history: Sequence[int], drafted: Sequence[int]
    ) -> list[Distribution]:
        """Distributions of rows (n, V); the last row follows history + drafted, see RowSampler.

        Raises InvalidLogits, see `_finite`.
        """
        settings = self.settings
        if settings.penalised:
            rows = self._penalise(rows, history, drafted)
        if self.greedy:
            one = np.ones(1)
            return [Distribution(np.array([_argmax(row)]), one) for row in rows]
        if 0 < settings.top_k < rows.shape[1]:
            return self._truncate(*top_candidates(rows, settings.top_k))
        return [self._without_top_k(row) for row in rows]

    @property
    def candidates_needed(self) -> int:
        """How many of a row's largest logits give the same result as the whole row; 0 if no number does.

        These are the tokens that top-k keeps (one at temperature 0), as many as may be penalised, and one
        more. `from_candidates` explains why.
        """
        settings = self.settings
        kept = 1 if self.greedy else settings.top_k
        # Any token of the row may be raised by a penalty that is a bonus.
        raised = settings.repeat_penalty < 1 or min(settings.frequency_penalty, settings.presence_penalty) < 0
        if kept == 0 or (settings.penalised and raised):
            return 0
        return kept + (settings.penalty_window if settings.penalised else 0) + 1

    def from_candidates(
        self, candidates: Candidates, history: Sequence[int], drafted: Sequence[int]
    ) -> list[Distribution] | None:
        """The distributions of whole rows, bit for bit, from at least `self.candidates_needed` of each row's
        largest logits; None if equal logits make whole rows necessary.

        Row i follows history + drafted[:i]; rows after the draft are ignored.

        Let S be a row's candidates, t the smallest of their raw logits, and b the top-k-th largest of S after
        penalties. A token outside S has a logit of at most t, also after penalties, which can only lower it.
        So if b > t, top-k keeps the same tokens of S as of the whole row, and of equal ones the same, by the
        smaller id. Top-p, min-p and temperature see only what top-k kept.

        b > t fails only for equal logits. Penalties lower at most `penalty_window` tokens of S, so at least
        top-k + 1 tokens keep a logit of t or more: b is at least t, and equals t only if two of them do.

        Raises InvalidLogits, see `_finite`.
        """
        settings = self.settings
        tokens, logits = candidates.tokens[: 1 + len(drafted)], candidates.logits[: 1 + len(drafted)]
        least = np.minimum.reduce(logits, axis=1)
        if settings.penalised:
            logits = self._penalise(logits, history, drafted, tokens)
        kept, values = largest(tokens, logits, 1 if self.greedy else settings.top_k)
        if not (values[:, -1] > least).all():
            return None
        if self.greedy:
            one = np.ones(1)
            return [Distribution(token, one) for token in kept]
        return self._truncate(kept, values)

    def _penalise(
        self,
        rows: Logits,
        history: Sequence[int],
        drafted: Sequence[int],
        candidates: NDArray[np.int32] | None = None,
    ) -> Logits:
        """A copy of rows (n, V), or of the logits (n, K) of candidates, after penalties."""
        settings = self.settings
        window = settings.penalty_window
        rows = rows.copy()
        for index, row in enumerate(rows):
            preceding = drafted[: len(drafted) - len(rows) + 1 + index]
            recent = [*history[-window:], *preceding][-window:]
            counts = Counter(recent)
            tokens = np.fromiter(counts.keys(), np.int64, len(counts))
            times = np.fromiter(counts.values(), np.float32, len(counts))
            if candidates is not None:
                _, tokens, found = np.intersect1d(
                    candidates[index], tokens, assume_unique=True, return_indices=True
                )
                times = times[found]
            logits = row[tokens]
            repeat = np.float32(settings.repeat_penalty)
            logits = np.where(logits <= 0, logits * repeat, logits / repeat)
            row[tokens] = (
                logits
                - times * np.float32(settings.frequency_penalty)
                - np.float32(settings.presence_penalty)
            )
        return rows

    def _truncate(self, tokens: NDArray[np.int64], logits: Logits) -> list[Distribution]:
        """Top-p, min-p and temperature for the sorted candidates (n, m) that top-k kept."""
        settings = self.settings
        if not np.isfinite(logits[:, 0]).all():
            logits = np.array([row if math.isfinite(row[0]) else _finite(row) for row in logits])
        centred = logits.astype(np.float64)
        centred -= centred[:, :1]
        tempered = np.exp(centred / settings.temperature)
        found = []
        # Candidates are sorted, so both rules keep the first few. For some forty of them a loop over plain
        # floats is faster than numpy.
        for index, weights in enumerate(np.exp(centred).tolist()):
            enough = settings.top_p * sum(weights) if settings.top_p < 1.0 else math.inf
            size, reached = 1, weights[0]
            while size < len(weights) and reached < enough and weights[size] >= settings.min_p:
                reached += weights[size]
                size += 1
            kept = tempered[index, :size]
            found.append(Distribution(tokens[index, :size], kept / np.add.reduce(kept)))
        return found

    def _without_top_k(self, row: Logits) -> Distribution:
        """The distribution of a row (V,) without top-k: the nucleus, the tokens above min-p, or all."""
        settings = self.settings
        size = len(row)
        top = row.max()
        if not math.isfinite(top):
            row, top = _finite(row), np.float32(0.0)
        if settings.top_p < 1.0:
            total = float(np.exp(row - top, dtype=np.float64).sum())
            count = min(_NUCLEUS, size)
            while True:
                tokens, logits = top_candidates(row[None], count)
                weights = np.exp((logits[0] - top).astype(np.float64))
                reached = np.cumsum(weights)
                if count == size or reached[-1] >= settings.top_p * total:
                    break
                count = min(count * 8, size)
            kept = (reached - weights) < settings.top_p * total
            kept[0] = True
            if settings.min_p > 0.0:
                kept &= weights >= settings.min_p
            chosen, kept_logits = tokens[0][kept], logits[0][kept]
        else:
            floor = top + np.log(settings.min_p) if settings.min_p > 0.0 else -np.inf
            chosen = np.flatnonzero(row >= floor)
            kept_logits = row[chosen]
        weights = np.exp((kept_logits - top).astype(np.float64) / settings.temperature)
        return Distribution(chosen, weights / weights.sum())


def _argmax(row: Logits) -> int:
    token = int(row.argmax())
    if not math.isfinite(row[token]):
        _finite(row)
    return token


def _finite(row: Logits) -> Logits:
    """Replace a row (m,) whose largest entry is infinite by a finite one that is 0 at the certain token.

    Raises InvalidLogits if there is no such token: for NaN, for infinity more than once, or for nothing but
    minus infinity.
    """
    top = row.max()
    check_logits(top, row[None])
    if top == -math.inf:
        raise InvalidLogits
    return np.where(row == math.inf, 0.0, -math.inf).astype(np.float32)


def draw_index(weights: NDArray[np.float64], rng: np.random.Generator) -> int:
    """An index with probability proportional to weights (m,), by inversion of one uniform.

    `bisect` compares the uniform with single numbers, which lets tests enumerate every outcome of this very
    code.
    """
    cumulative = weights.cumsum()
    cumulative /= cumulative[-1]
    return bisect_right(cumulative, rng.random())
