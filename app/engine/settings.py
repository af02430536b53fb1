"""A reply's sampling settings, separate from the sampler so that a front end need not load numpy."""

from __future__ import annotations

from dataclasses import dataclass

from app.errors import UsageError

# Most tokens drafted for one pass, whoever chooses.
LONGEST_DRAFT = 32


@dataclass(frozen=True, slots=True)
class Sampling:
    """A reply's settings. top_k 0, top_p 1, min_p 0 and penalties of 1, 0, 0 are off.

    penalty_window: how many of the last tokens penalties apply to, the prompt's included.
    Raises UsageError for a value outside its range.
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalty_window: int = 64

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("temperature", self.temperature, 0.0, 100.0),
            ("top-k", self.top_k, 0, 2**31),
            ("top-p", self.top_p, 0.0, 1.0),
            ("min-p", self.min_p, 0.0, 1.0),
            ("repeat-penalty", self.repeat_penalty, 0.01, 100.0),
            ("frequency-penalty", self.frequency_penalty, -100.0, 100.0),
            ("presence-penalty", self.presence_penalty, -100.0, 100.0),
            ("penalty-window", self.penalty_window, 0, 2**31),
        ):
            if not low <= value <= high:
                raise UsageError(f"{name} is {value}: give a number from {low} to {high}.")

    @property
    def penalised(self) -> bool:
        return self.penalty_window > 0 and (
            self.repeat_penalty != 1.0 or self.frequency_penalty != 0.0 or self.presence_penalty != 0.0
        )
