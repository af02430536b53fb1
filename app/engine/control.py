"""How many tokens to draft: the k with the most expected tokens for its expected time.

    E[committed | k] = 1 + sum over j <= k of S_j,   S_j = product of the hazards up to j
    choose the k that maximises E[committed | k] / (c(k + 1) + D(k)),   k = 0 included

c is calibrated once and kept current from the real passes by width, D is the proposer's own time,
the hazards are what was accepted at each position given that the positions before it were. Every k
is looked at: real cost curves jump, and a marginal test would stop before a cheap width.

A ledger keeps speculation from ever costing much, on any text. With A = sum of c(1) over committed
tokens, less the time spent, a draft is only made while A - (c(k + 1) + D(k) - c(1)) stays above
-(2 % of the plain time so far + 3 plain passes); whatever is then rejected, no more is lost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from app.engine.events import Pass

# Longest draft that is considered, and how fast old passes are forgotten.
LONGEST = 16
_KEEP = 0.97
_COST_STEP = 0.2
# Share of plain decoding's time that may be spent on drafts that came to nothing.
_BUDGET = 0.02
# Plain passes that a first try may cost.
_START = 3
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
    """Expected tokens over expected time, from this machine's own passes.

    Plain floats throughout: a decision is made before each pass, when no cache is warm.
    """

    def __init__(self) -> None:
        self._calibrated = False
        # Seconds of a pass by width - 1; infinite where nothing was measured.
        self._seconds: list[float] = []
        self._draft_seconds: dict[str, float] = {}
        # By position, (accepted, tried): the prior expects a draft to be worth a try.
        self._positions: dict[str, list[tuple[float, float]]] = {}
        self._idle = 0
        # Seconds: what plain decoding would have taken so far, and how far ahead of it this is.
        self._plain = 0.0
        self._ahead = 0.0

    @property
    def calibrated(self) -> bool:
        return self._calibrated

    def calibrate(self, seconds: Mapping[int, float]) -> None:
        """Take costs by width; between measured widths they are linear, beyond them out of reach."""
        self._calibrated = True
        widths = sorted(seconds)
        if widths:
            costs = [seconds[width] for width in widths]
            every = np.interp(np.arange(1, LONGEST + 2), widths, costs, right=np.inf)
            self._seconds = [float(cost) for cost in every]

    def choose(self, proposer: str, limit: int) -> int:
        limit = min(limit, LONGEST, len(self._seconds) - 1)
        if proposer == "off" or limit <= 0:
            return 0
        draft = self._draft_seconds.get(proposer, 0.0)
        plain = self._seconds[0]
        affordable = self._ahead + _BUDGET * self._plain + (_START + 1) * plain
        best, best_rate = 0, 1.0 / plain
        if self._idle >= _PATIENCE:
            best_rate = 0.0
        survival = expected = 1.0
        for k, (accepted, tried) in enumerate(self._of(proposer)[:limit], start=1):
            survival *= accepted / tried
            expected += survival
            seconds = self._seconds[k] + k * draft
            if seconds <= affordable and expected / seconds > best_rate:
                best, best_rate = k, expected / seconds
        return best

    def observe(self, entry: Pass) -> None:
        drafted = len(entry.drafted)
        if self._seconds:
            # Plain passes teach the cost of one; they neither gain nor lose.
            self._plain += entry.committed * self._seconds[0]
            self._ahead += entry.committed * self._seconds[0] - entry.seconds if drafted else 0.0
        if drafted < len(self._seconds):
            known = self._seconds[drafted]
            change = entry.target_seconds - known
            # A width that was out of reach is known now.
            self._seconds[drafted] = (
                known + _COST_STEP * change if math.isfinite(known) else entry.target_seconds
            )
        if drafted == 0:
            self._idle += 1
            return
        self._idle = 0
        each = entry.proposer_seconds / drafted
        before = self._draft_seconds.get(entry.proposer, each)
        self._draft_seconds[entry.proposer] = before + _COST_STEP * (each - before)
        positions = self._of(entry.proposer)
        # Behind a rejection nothing was seen.
        for position in range(min(entry.accepted + 1, drafted, LONGEST)):
            accepted, tried = positions[position]
            hit = 1.0 if position < entry.accepted else 0.0
            positions[position] = (accepted * _KEEP + hit, tried * _KEEP + 1.0)

    def _of(self, proposer: str) -> list[tuple[float, float]]:
        return self._positions.setdefault(proposer, [(1.5, 2.0)] * LONGEST)
