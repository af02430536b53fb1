"""What the engine is about, as the chat knows it: one state at a time, which says what may follow.

    Ready ──► Replying, Comparing ──► Ready
    any ──► Loading ──► Ready, or what was wanted next
    Loading ──► Stopped, where the model cannot be loaded

A state names the command that it waits for. That command ends in exactly one event (see process/commands.py),
and only that event, or the engine's death, leads out of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.session.growing import Growing

# What is done once a model is loaded: nothing, answer the last question, or go on with its answer.
Next = Literal["nothing", "answer", "continue"]


@dataclass(frozen=True, slots=True)
class Ready:
    """A model is loaded, and nothing is being made."""


@dataclass(frozen=True, slots=True)
class Loading:
    """A model is being loaded. died: an engine has died of loading it, and other settings are tried."""

    identity: int
    then: Next = "nothing"
    died: bool = False


@dataclass(frozen=True, slots=True)
class Stopped:
    """No model is loaded. running: the engine's process is there."""

    running: bool
    then: Next = "nothing"


@dataclass(frozen=True, slots=True)
class Replying:
    """A reply is being made. stopped: when it was told to stop, by the monotonic clock; None: it was not."""

    identity: int
    growing: Growing
    stopped: float | None = None


@dataclass(frozen=True, slots=True)
class Comparing:
    """Replies are being compared. stopped: as in Replying."""

    identity: int
    stopped: float | None = None


State = Ready | Loading | Stopped | Replying | Comparing
