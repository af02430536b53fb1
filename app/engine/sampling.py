"""From logits to the distribution that a reply is sampled from.

The order is llama.cpp's: penalties, top-k, top-p, min-p, temperature. So top-p and min-p look at
the distribution at temperature 1, and every step sees only what the one before it kept.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from app.engine.selection import NO_NUMBERS, top_candidates
from app.engine.settings import Sampling
from app.errors import SpecchatError
from proposers.base import Distribution

Logits = NDArray[np.float32]

# Candidates looked at first where top-p is on and top-k is off: a nucleus is nearly always smaller.
_NUCLEUS = 512


class Sampler:
    """`Sampling` applied to rows of logits, of the target and of a draft alike. It keeps no state."""

    def __init__(self, settings: Sampling) -> None:
        self.settings = settings

    @property
    def greedy(self) -> bool:
        return self.settings.temperature == 0.0

    def choose(self, row: Logits, history: Sequence[int], drafted: Sequence[int]) -> int:
        """The argmax of a row (V,) after penalties; the smaller id where two tie.

        Raises SpecchatError for NaN.
        """
        if self.settings.penalised:
            row = self._penalise(row[None], history, drafted)[0]
        token = int(row.argmax())
        if math.isnan(row[token]):
            raise SpecchatError(NO_NUMBERS)
        return token

    def draw(self, distribution: Distribution, rng: np.random.Generator) -> int:
        """A token by inversion: one uniform a token, so equal seeds meet equal choices."""
        return int(distribution.tokens[draw_index(distribution.probabilities, rng)])

    def distributions(
        self, rows: Logits, history: Sequence[int], drafted: Sequence[int]
    ) -> list[Distribution]:
        """Distributions of rows (n, V); the last row follows history + drafted, see RowSampler.

        Raises SpecchatError for NaN.
        """
        settings = self.settings
        if settings.penalised:
            rows = self._penalise(rows, history, drafted)
        if self.greedy:
            one = np.ones(1)
            return [Distribution(np.array([row.argmax()]), one) for row in rows]
        if 0 < settings.top_k < rows.shape[1]:
            return self._truncate(*top_candidates(rows, settings.top_k))
        return [self._without_top_k(row) for row in rows]

    def _penalise(self, rows: Logits, history: Sequence[int], drafted: Sequence[int]) -> Logits:
        settings = self.settings
        window = settings.penalty_window
        rows = rows.copy()
        for index, row in enumerate(rows):
            preceding = drafted[: len(drafted) - len(rows) + 1 + index]
            recent = [*history[-window:], *preceding][-window:]
            counts = Counter(recent)
            tokens = np.fromiter(counts.keys(), np.int64, len(counts))
            times = np.fromiter(counts.values(), np.float32, len(counts))
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
        """Top-p, min-p and temperature on candidates (n, m), sorted, that top-k kept."""
        settings = self.settings
        centred = logits.astype(np.float64)
        centred -= centred[:, :1]
        tempered = np.exp(centred / settings.temperature)
        found = []
        # Candidates are sorted, so both rules keep the first so many; some forty plain floats are
        # counted before numpy has begun.
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
        """One row (V,) without top-k: the nucleus, the tokens above min-p, or all of them."""
        settings = self.settings
        size = len(row)
        top = row.max()
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


def draw_index(weights: NDArray[np.float64], rng: np.random.Generator) -> int:
    """An index with probability proportional to weights (m,), by inversion of one uniform.

    `bisect` compares the uniform with single numbers, which lets the tests enumerate every outcome
    of the code that runs.
    """
    cumulative = weights.cumsum()
    cumulative /= cumulative[-1]
    return bisect_right(cumulative, rng.random())
