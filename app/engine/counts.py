"""Adds up the passes of one reply: for the engine's record of it, and for what the panel shows meanwhile."""

from __future__ import annotations

from typing import Any

from app.engine.events import Pass, Tally


class Counts:
    """Counts every pass once. See `Totals` for what is counted."""

    def __init__(self) -> None:
        self.passes = self.drafted = self.accepted = self.rejections = self.kept = self.replayed = 0
        self.by_proposer: dict[str, Tally] = {}
        self.decode_seconds = self.model_seconds = 0.0
        self._accepted_by_position: list[int] = []
        self._k_history: list[int] = []

    def record(self, entry: Pass) -> None:
        """A pass was made."""
        drafted = len(entry.drafted)
        self.passes += 1
        self.drafted += drafted
        self.accepted += entry.accepted
        self.rejections += entry.accepted < drafted
        self.kept += len(entry.tokens)
        self.replayed += entry.replayed
        tally = self.by_proposer.get(entry.proposer, Tally())
        self.by_proposer[entry.proposer] = Tally(
            tally.passes + 1, tally.drafted + drafted, tally.accepted + entry.accepted
        )
        while len(self._accepted_by_position) < drafted:
            self._accepted_by_position.append(0)
        for position in range(entry.accepted):
            self._accepted_by_position[position] += 1
        self._k_history.append(drafted)
        self.decode_seconds += entry.seconds
        self.model_seconds += entry.target_seconds + entry.proposer_seconds

    def totals(self) -> dict[str, Any]:
        """The fields of `Totals`, but for plain_seconds, to make a record that extends it."""
        return {
            "passes": self.passes,
            "drafted": self.drafted,
            "accepted": self.accepted,
            "rejections": self.rejections,
            "kept": self.kept,
            "replayed": self.replayed,
            "by_proposer": dict(self.by_proposer),
            "decode_seconds": self.decode_seconds,
            "model_seconds": self.model_seconds,
            "accepted_by_position": tuple(self._accepted_by_position),
            "k_history": tuple(self._k_history),
        }
