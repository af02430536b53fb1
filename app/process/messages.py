"""What the screen and the engine's process say to each other: small frozen records, pickled.

Every command has an `identity`, a number above zero, and ends in exactly one event of `Ending` that carries
it, whatever becomes of the command: the engine's process answers, or the client does where that has died.
So nothing waits for ever, and what was asked for earlier is never taken for what was asked for last. Events
that nobody asked for have the identity 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.chat.message import Message
from app.config.values import LoadSettings
from app.engine.events import Finished, Pass, Prefill
from app.engine.settings import Sampling
from app.models.row import Listing

# Commands ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Load:
    """Load a model in place of the one that is loaded. Answered by Loaded.

    died: how the process ended that loaded it last, such as "was killed by SIGILL"; "" if none did.
    """

    settings: LoadSettings
    died: str = ""
    identity: int = 0


@dataclass(frozen=True, slots=True)
class Generate:
    """Answer a conversation whose last message is the person's.

    max_tokens None: as far as the context reaches. begun: ids of a reply that is to be continued.
    k None lets the controller choose. shorten: leave out as few of the oldest exchanges as make it fit, which
    LeftOut tells. Answered by Done, or by TooLong.
    """

    identity: int
    messages: tuple[Message, ...]
    sampling: Sampling
    seed: int
    proposer: str
    k: int | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    begun: tuple[int, ...] = ()
    shorten: bool = False


@dataclass(frozen=True, slots=True)
class SetProposer:
    """Use this proposer from the next pass on, in mid-reply too. Answered by Switched, or by Asked.

    agreed: the person agrees to the disk space that Asked named.
    """

    name: str
    agreed: bool = False
    identity: int = 0


@dataclass(frozen=True, slots=True)
class SetK:
    """Draft so many tokens a pass from the next pass on; None lets the controller choose. Answered by
    Switched."""

    k: int | None
    identity: int = 0


@dataclass(frozen=True, slots=True)
class SetDraft:
    """Load this draft model (name or path) in place of the one that is loaded; None unloads it. Answered by
    Switched."""

    draft: str | None
    identity: int = 0


@dataclass(frozen=True, slots=True)
class FindDrafts:
    """Which files could draft, and why others cannot. Answered by Drafts.

    folders: looked through besides the target's own.
    """

    folders: tuple[str, ...] = ()
    identity: int = 0


@dataclass(frozen=True, slots=True)
class FindModels:
    """Which models there are, here and in the catalogue. Answered by Models, with no model loaded too.

    folders: looked through besides the places of other programs.
    """

    folders: tuple[str, ...] = ()
    identity: int = 0


@dataclass(frozen=True, slots=True)
class Count:
    """How many tokens a text has, or a conversation as it is sent. Answered by Counted."""

    identity: int = 0
    text: str = ""
    messages: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class Compare:
    """Answer one prompt with each proposer, same seed. Comparing tells how the replies grow, Compared what
    came of each. Answered by ComparisonEnded."""

    identity: int
    messages: tuple[Message, ...]
    sampling: Sampling
    seed: int
    proposers: tuple[str, ...]
    k: int | None
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop what has this identity: between two passes or chunks, or within a long chunk. What is stopped
    ends by Done or Cancelled; Cancel itself is not answered."""

    identity: int


@dataclass(frozen=True, slots=True)
class Quit:
    """Leave."""


# What may be carried out between two passes of a reply.
Small = SetProposer | SetK | SetDraft | FindDrafts | FindModels | Count
# What is answered.
Task = Small | Load | Generate | Compare
Command = Task | Cancel | Quit

# Events -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Option:
    """A proposer that can be chosen. problem: why it cannot be now, as a sentence; None where it can."""

    name: str
    summary: str
    problem: str | None


@dataclass(frozen=True, slots=True)
class Loading:
    """`share` (0 to 1) of what is being loaded is there."""

    what: str
    share: float


@dataclass(frozen=True, slots=True)
class Noted:
    """What memory was too short for, such as the whole context, or that a draft has failed: a sentence to
    keep in sight."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """The model is ready.

    name, draft: see app/models/naming.py; draft None without.
    context_trained: the longest context that it was trained with.
    costs: width and seconds of passes, measured just now. gpus: what those that hold layers of it call
    themselves. memory: how the model's goes back, see app/models/memory_words.py.
    """

    name: str
    path: str
    description: str
    context_length: int
    context_trained: int
    options: tuple[Option, ...]
    draft: str | None
    costs: tuple[tuple[int, float], ...] = ()
    gpus: tuple[str, ...] = ()
    memory: str = ""
    identity: int = 0


@dataclass(frozen=True, slots=True)
class Switched:
    """What is on now, and why it is not what was asked for. With the identity 0 it was not asked for: a
    proposer has failed, or cannot be used for a reply."""

    proposer: str
    options: tuple[Option, ...]
    draft: str | None
    problem: str | None
    identity: int = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """The proposer needs disk space: a yes is SetProposer again, with agreed."""

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
class LeftOut:
    """So many more of the oldest exchanges are not sent, so that the prompt fits."""

    identity: int
    exchanges: int


@dataclass(frozen=True, slots=True)
class Reading:
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
    """A reply's end. Its ids and text do not hold what was `begun`."""

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
class Counted:
    """Answer to Count."""

    identity: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Comparing:
    """How far a comparison is, and one of its replies.

    text: what was written since its last such event. tokens, drafted, seconds: of the whole reply so far; 0
    tokens while the prompt is read. left: seconds that the comparison still takes, None where not known.
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
    """Where a reply parts from the first one compared: both tokens' texts, and how far the target's
    logits of the two lie apart there (first minus this; None where it was not measured)."""

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
    """The engine's process ended by itself (told by the client). reason: how; details: its last lines. run:
    which start of an engine it came of, as the chat counts."""

    reason: str
    details: str
    run: int = 0


# The one event that ends a command.
Ending = (
    Loaded
    | Switched
    | Asked
    | Drafts
    | Models
    | Counted
    | Done
    | TooLong
    | ComparisonEnded
    | Cancelled
    | Failed
)
Event = Loading | Noted | LeftOut | Reading | Steps | Comparing | Compared | Ending | Crashed


def ended_by(event: Event) -> int:
    """The identity of the command that this event ends; 0 for none."""
    return event.identity if isinstance(event, Ending) else 0
