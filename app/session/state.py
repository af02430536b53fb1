"""What the engine is doing, as the chat knows it: one state at a time, which says what may follow.

    state             Enter                 Esc                     F5        ends with
    Ready             asks                  –                       compares  –
    LoadingModel      asks once loaded      does not ask after all  –         Loaded → Ready, Failed → Stopped
    Stopped           asks once loaded      does not ask after all  –         –
    Replying          asks after the reply  stops the reply         –         Done, TooLong, … → Ready
    ComparingReplies  asks after all        stops the comparison    –         ComparisonEnded, … → Ready

While questions wait for a reply or a comparison, Esc first gives them back. Where the engine has not stopped
PATIENCE_SECONDS after Esc, the next Esc starts it again.

In every state, another model or other settings lead to LoadingModel; what came of a reply is kept. So does
the engine's death: where it died of loading, other settings are tried once, and then it is Stopped. An engine
that had died before it began to load is only started again.

A state names the command that it waits for. That command ends in exactly one event (see process/endings.py),
and only that event, or the engine's death, ends the state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.process import events as e
from app.session.streaming import StreamingReply

# What may come of a reply, and of a comparison.
ReplyEvent = e.Shortened | e.PromptProgress | e.Steps | e.Done | e.TooLong | e.Cancelled | e.Failed
ComparisonEvent = e.ComparisonProgress | e.Compared | e.ComparisonEnded | e.Cancelled | e.Failed
# What is done once a model is loaded: nothing, answer the last question, or continue its answer.
Next = Literal["nothing", "answer", "continue"]


@dataclass(frozen=True, slots=True)
class Ready:
    """A model is loaded, and nothing is being made."""


@dataclass(frozen=True, slots=True)
class LoadingModel:
    """A model is being loaded.

    died: an engine died of loading it, and other settings are tried. begun: whether this engine surely had
    the command, as it was started for it or has told of progress; else it may have died before.
    """

    identity: int
    then: Next = "nothing"
    died: bool = False
    begun: bool = False


@dataclass(frozen=True, slots=True)
class Stopped:
    """No model is loaded."""

    then: Next = "nothing"


@dataclass(frozen=True, slots=True)
class Replying:
    """A reply is being made. stopped: when it was told to stop, by the monotonic clock."""

    identity: int
    reply: StreamingReply
    stopped: float | None = None


@dataclass(frozen=True, slots=True)
class ComparingReplies:
    """Replies are being compared. stopped: as in Replying."""

    identity: int
    stopped: float | None = None


State = Ready | LoadingModel | Stopped | Replying | ComparingReplies
