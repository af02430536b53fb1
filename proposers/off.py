"""Plain decoding: a proposer that never guesses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from proposers.base import NOTHING, Proposal, RowSampler

if TYPE_CHECKING:
    import numpy as np


class Off:
    """Drafts nothing, so that each pass makes one token."""

    name = "off"
    model_seconds = 0.0
    stops = False
    run = 0

    def twin(self) -> Off:
        return self

    def resume(self, history: Sequence[int]) -> None:
        """Nothing is shared."""

    @property
    def knowledge(self) -> tuple[float, ...]:
        return ()

    def know(self, knowledge: Sequence[float]) -> bool:
        return not knowledge

    def begin(self, history: Sequence[int]) -> None:
        """Nothing to catch up with."""

    def behind(self, history: Sequence[int]) -> int:
        return 0

    def catch_up(self, history: Sequence[int]) -> None:
        """No model has to read."""

    def forecast(self, history: Sequence[int], limit: int, least: float = 0.0) -> Sequence[float]:
        return ()

    def propose(
        self,
        history: Sequence[int],
        limit: int,
        sampler: RowSampler,
        rng: np.random.Generator,
        floor: float = 0.0,
    ) -> Proposal:
        return NOTHING

    def observe(self, history: Sequence[int]) -> None:
        """Nothing to learn."""
