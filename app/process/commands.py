"""What the screen asks of the engine's process: small frozen records, pickled.

Every command has an `identity`, a number above zero, and ends in exactly one event of `Ending` with the same
identity (see events.py): the engine's process sends it, or the client does if that process has died. So
nothing waits for ever, and no answer is taken for that to another command.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.chat.message import Message
from app.config.values import LoadSettings
from app.engine.settings import Sampling


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
    """Answer a conversation whose last message is the person's. Answered by Done, or by TooLong.

    max_tokens None: as far as the context reaches. begun, begun_text: ids and text of a reply that is to be
    continued. k None: the controller chooses. shorten: leave out as few of the oldest exchanges as make it
    fit, see Shortened.
    """

    identity: int
    messages: tuple[Message, ...]
    sampling: Sampling
    seed: int
    proposer: str
    k: int | None = None
    max_tokens: int | None = None
    begun: tuple[int, ...] = ()
    begun_text: str = ""
    shorten: bool = False


@dataclass(frozen=True, slots=True)
class SetProposer:
    """Use this proposer from the next pass on, also in the middle of a reply. Answered by Switched or Asked.

    agreed: the person agrees to the disk space that Asked named.
    """

    name: str
    agreed: bool = False
    identity: int = 0


@dataclass(frozen=True, slots=True)
class SetK:
    """Draft `k` tokens a pass from the next pass on; None: the controller chooses. Answered by Switched."""

    k: int | None
    identity: int = 0


@dataclass(frozen=True, slots=True)
class SetDraft:
    """Load this draft model (a name or path) in place of the present one; None unloads it. Answered by
    Switched."""

    draft: str | None
    identity: int = 0


@dataclass(frozen=True, slots=True)
class FindDrafts:
    """Find files that could draft in the target's folder and in `folders`. Answered by Drafts."""

    folders: tuple[str, ...] = ()
    identity: int = 0


@dataclass(frozen=True, slots=True)
class FindModels:
    """List the models in the catalogue, in the places of other programs and in `folders`, whether or not a
    model is loaded. Answered by Models."""

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
    """Answer one prompt with each proposer and the same seed. ComparisonProgress and Compared come on the
    way. Answered by ComparisonEnded."""

    identity: int
    messages: tuple[Message, ...]
    sampling: Sampling
    seed: int
    proposers: tuple[str, ...]
    k: int | None
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop the command of this identity, between two passes or within a long chunk. That command ends in Done
    or Cancelled; Cancel itself is not answered."""

    identity: int


@dataclass(frozen=True, slots=True)
class Quit:
    """Leave."""


# What can be carried out between two passes of a reply.
Small = SetProposer | SetK | SetDraft | FindDrafts | FindModels | Count
# What is answered.
Task = Small | Load | Generate | Compare
Command = Task | Cancel | Quit
