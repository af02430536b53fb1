"""How many tokens to draft: the k with the most expected tokens for its expected time.

    E[committed | k] = 1 + sum over j <= k of S_j,   S_j = product of the hazards up to j
    choose the k that maximises E[committed | k] / (c(k + 1) + D(k)),   k = 0 included

c is calibrated once and kept current from the real passes by width, D is the proposer's own time,
the hazards are what was accepted at each position given that the positions before it were. Every k
is looked at: real cost curves jump, and a marginal test would stop before a cheap width.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from app.engine.events import Pass

# Longest draft that is considered, and how fast old passes are forgotten.
LONGEST = 16
_KEEP = 0.97
_COST_STEP = 0.2
# After this many passes without a draft, one is tried again: texts change.
_PATIENCE = 64


class Controller(Protocol):
    """Chooses draft lengths and learns from passes."""

    @property
    def calibrated(self) -> bool:
        """False while it wants costs of passes before it can choose."""

    def calibrate(self, seconds: Mapping[int, float]) -> None:
        """Take measured costs of passes by width."""

    def choose(self, proposer: str, limit: int) -> int:
        """Tokens to draft in the next pass, from 0 to `limit`."""

    def observe(self, entry: Pass) -> None:
        """A pass was made."""


class ThroughputController:
    """Expected tokens over expected time, from this machine's own passes."""

    def __init__(self) -> None:
        self._calibrated = False
        self._seconds: dict[int, float] = {}
        self._draft_seconds: dict[str, float] = {}
        # Accepted and tried at each position; the prior expects a draft to be worth a try.
        self._accepted: defaultdict[str, np.ndarray] = defaultdict(lambda: np.full(LONGEST, 1.5))
        self._tried: defaultdict[str, np.ndarray] = defaultdict(lambda: np.full(LONGEST, 2.0))
        self._idle = 0

    @property
    def calibrated(self) -> bool:
        return self._calibrated

    def calibrate(self, seconds: Mapping[int, float]) -> None:
        self._calibrated = True
        self._seconds.update(seconds)

    def choose(self, proposer: str, limit: int) -> int:
        limit = min(limit, LONGEST)
        if limit <= 0:
            return 0
        rates = [rate for _, rate in zip(range(limit + 1), self._rates(proposer), strict=False)]
        k = int(np.argmax(rates))
        if k == 0 and self._idle >= _PATIENCE:
            k = 1 + int(np.argmax(rates[1:]))
        return k

    def _rates(self, proposer: str) -> list[float]:
        """Expected tokens per second for each k from 0 to LONGEST."""
        hazards = self._accepted[proposer] / self._tried[proposer]
        expected = 1.0 + np.concatenate([[0.0], np.cumsum(np.cumprod(hazards))])
        draft = self._draft_seconds.get(proposer, 0.0)
        return [float(expected[k]) / (self._cost(k + 1) + k * draft) for k in range(LONGEST + 1)]

    def _cost(self, width: int) -> float:
        """Seconds of a pass; linear between measured widths, out of reach beyond them."""
        widths = sorted(self._seconds)
        if not widths or width > widths[-1]:
            return 1.0 if width == 1 else np.inf
        return float(np.interp(width, widths, [self._seconds[known] for known in widths]))

    def observe(self, entry: Pass) -> None:
        drafted = len(entry.drafted)
        width = 1 + drafted
        before = self._seconds.get(width, entry.target_seconds)
        self._seconds[width] = before + _COST_STEP * (entry.target_seconds - before)
        if drafted == 0:
            self._idle += 1
            return
        self._idle = 0
        each = entry.proposer_seconds / drafted
        before = self._draft_seconds.get(entry.proposer, each)
        self._draft_seconds[entry.proposer] = before + _COST_STEP * (each - before)
        reached = min(entry.accepted + 1, drafted, LONGEST)
        tried, accepted = self._tried[entry.proposer], self._accepted[entry.proposer]
        tried[:reached] = tried[:reached] * _KEEP + 1.0
        accepted[:reached] *= _KEEP
        accepted[: min(entry.accepted, LONGEST)] += 1.0
