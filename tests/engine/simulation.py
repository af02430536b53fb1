"""A simulated machine with known costs of passes: its speed drifts, and it delays passes at times."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass

from app.engine.events import Pass


def a_pass(drafted: int, accepted: int, seconds: float, proposer: str = "lookup") -> Pass:
    """A pass whose time was spent in the target alone."""
    return Pass(
        proposer=proposer,
        drafted=(7,) * drafted,
        accepted=accepted,
        committed=accepted + 1,
        tokens=(7,) * (accepted + 1),
        origins=(proposer,) * accepted + ("bonus",),
        text="",
        seconds=seconds,
        target_seconds=seconds,
        proposer_seconds=0.0,
    )


@dataclass(slots=True)
class Machine:
    """costs: seconds by width on average. drift: passes get slower and faster by this share, once in `period`
    seconds. hiccups: how often in a second a pass is held up by 100 ms. noise: of a pass, as a share of it.
    back: extra time of a plain pass after a wider one, as a share of it.

    spent: seconds of all passes, hiccups left out. plain: what plain decoding would have taken for their
    tokens. costliest: the longest drafted pass. held_up: seconds of hiccups.
    """

    costs: Mapping[int, float]
    rng: random.Random
    drift: float = 0.0
    period: float = 3.0
    hiccups: float = 0.0
    noise: float = 0.0
    back: float = 0.0
    spent: float = 0.0
    plain: float = 0.0
    costliest: float = 0.0
    held_up: float = 0.0
    _width: int = 1

    def make(self, drafted: int, accepted: int) -> Pass:
        """A pass as the machine makes it now."""
        speed = 1.0 + self.drift * math.sin(2 * math.pi * self.spent / self.period)
        seconds = speed * self.costs[drafted + 1] * self.rng.gauss(1.0, self.noise)
        if drafted == 0 and self._width > 1:
            seconds += speed * self.back * self.costs[1]
        self._width = drafted + 1
        self.spent += seconds
        self.plain += (accepted + 1) * speed * self.costs[1]
        self.costliest = max(self.costliest, seconds if drafted else 0.0)
        held_up = 0.1 if self.rng.random() < self.hiccups * seconds else 0.0
        self.held_up += held_up
        return a_pass(drafted, accepted, seconds + held_up)
