"""What the engine's process tells: small frozen records, pickled.

`identity` is that of the command that an event answers, 0 where nobody asked. See commands.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.engine.events import Finished, Pass, Prefill
from app.models.row import Listing


@dataclass(frozen=True, slots=True)
class ProposerOption:
    """A proposer that can be chosen. problem: why it cannot be now, as a sentence; None where it can."""

    name: str
    summary: str
    problem: str | None


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """`share` (0 to 1) of what is being loaded is there."""

    what: str
    share: float


@dataclass(frozen=True, slots=True)
class Noted:
    """A sentence to keep in sight, such as that memory was too short for the whole context."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """The model is ready.

    name, draft: see app/models/naming.py; draft None without one. context_trained: the longest context that
    it was trained with. costs: width and seconds of passes, measured just now. gpus: names of those that hold
    layers. memory: how the model's memory is rewound, see app/models/memory_words.py.
    """

    name: str
    path: str
    context_length: int
    context_trained: int
    options: tuple[ProposerOption, ...]
    draft: str | None
    costs: tuple[tuple[int, float], ...] = ()
    gpus: tuple[str, ...] = ()
    memory: str = ""
    identity: int = 0


@dataclass(frozen=True, slots=True)
class Switched:
    """What is on now. problem: why it is not what was asked for. With the identity 0 nobody asked: a proposer
    has failed, or cannot be used for a reply."""

    proposer: str
    options: tuple[ProposerOption, ...]
    draft: str | None
    problem: str | None
    identity: int = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """The proposer needs disk space: a yes is SetProposer again, with `agreed`."""

    proposer: str
    question: str
    identity: int = 0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that could be a draft. problem: why it does not fit; None where it does."""

    path: str
    name: str
    bytes: int
    problem: str | None
    loaded: bool


@dataclass(frozen=True, slots=True)
class Drafts:
    """Answer to FindDrafts."""

    candidates: tuple[Candidate, ...]
    identity: int = 0


@dataclass(frozen=True, slots=True)
class Models:
    """Answer to FindModels."""

    listing: Listing
    identity: int = 0


@dataclass(frozen=True, slots=True)
class Counted:
    """Answer to Count."""

    identity: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Shortened:
    """So many more of the oldest exchanges are left out, so that the prompt fits."""

    identity: int
    exchanges: int


@dataclass(frozen=True, slots=True)
class PromptProgress:
    """The prompt is being read."""

    identity: int
    prefill: Prefill


@dataclass(frozen=True, slots=True)
class Step:
    """One pass, with the texts that the screen cannot make itself.

    pieces: the text of each of entry.tokens (a character that spans tokens belongs to its last).
    rejected: the text of the drafted tokens that were not accepted.
    """

    entry: Pass
    pieces: tuple[str, ...]
    rejected: str


@dataclass(frozen=True, slots=True)
class Steps:
    """The passes since the last such event, every one of them, batched to the screen's rate.

    plain_seconds: what plain decoding would have taken for a token so far, None where that is not known.
    """

    identity: int
    steps: tuple[Step, ...]
    plain_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """A reply's end. Its ids and text do not include what was `begun`."""

    identity: int
    finished: Finished


@dataclass(frozen=True, slots=True)
class TooLong:
    """The prompt has `tokens` and the context holds `capacity`; `trained` is what it could hold."""

    identity: int
    tokens: int
    capacity: int
    trained: int


@dataclass(frozen=True, slots=True)
class ComparisonProgress:
    """How far a comparison is, and one of its replies.

    text: written since the last such event. tokens, drafted, seconds: of the whole reply so far; 0 tokens
    while the prompt is read. left: seconds until the comparison ends, None where not known.
    """

    identity: int
    proposer: str
    text: str
    tokens: int
    drafted: int
    seconds: float
    left: float | None


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where a reply differs from the first one compared: both tokens' texts there, and the target's logit of
    the first minus that of this one (None where it was not measured)."""

    position: int
    first: str
    this: str
    gap: float | None


@dataclass(frozen=True, slots=True)
class Compared:
    """One proposer's reply, or what there was of it when it was stopped. divergence None: identical to the
    first. problem: why it could not run."""

    identity: int
    proposer: str
    finished: Finished | None
    divergence: Divergence | None
    problem: str | None


@dataclass(frozen=True, slots=True)
class ComparisonEnded:
    """Every reply of a comparison was told."""

    identity: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A command could not be carried out: one sentence that says what to do."""

    identity: int
    message: str


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A command was stopped before it had anything to tell."""

    identity: int


@dataclass(frozen=True, slots=True)
class Crashed:
    """The engine's process has died; told by the client. reason: how. details: its last lines. run: which
    start of an engine it was, as the chat counts."""

    reason: str
    details: str
    run: int = 0


Progress = LoadProgress | Noted | Shortened | PromptProgress | Steps | ComparisonProgress | Compared
_Answer = Loaded | Switched | Asked | Drafts | Models | Counted | Done | TooLong | ComparisonEnded
# The one event that ends a command.
Ending = _Answer | Cancelled | Failed
Event = Progress | Ending | Crashed


def ended_by(event: Event) -> int:
    """The identity of the command that this event ends; 0 for none."""
    return event.identity if isinstance(event, Ending) else 0
