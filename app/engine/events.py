"""Events of the engine while a reply is generated: small frozen records for any front end."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

from app.engine.settings import Sampling

FinishReason = Literal["stop", "length", "stop_string", "context", "cancelled"]

# Why a proposer's best draft is not made. small: it gains too little, or nothing. unread: its model would
# have to read more first than it gains. paused: recent drafts lost time, and the ledger is in debt. risky: if
# all of it were rejected, it would cost more than the ledger holds.
Refusal = Literal["small", "unread", "paused", "risky"]
# Why no proposer is asked: plain passes are being timed, or nothing was worth drafting for many passes.
Pause = Literal["measuring", "resting"]


@dataclass(frozen=True, slots=True)
class Request:
    """One reply. max_tokens: at least 1. k: the initial draft length, None for the controller's choice."""

    prompt: tuple[int, ...]
    sampling: Sampling
    seed: int
    max_tokens: int = 512
    stop: tuple[str, ...] = ()
    k: int | None = None


@dataclass(frozen=True, slots=True)
class Prefill:
    """The prompt is being read: `done` of `total` tokens, `cached` of which were in the cache already. again:
    how many more were, but must be read again because the memory cannot be rewound to their end."""

    done: int
    total: int
    cached: int
    again: int = 0


@dataclass(frozen=True, slots=True)
class ExpectedGain:
    """What the controller expected of a proposer before a pass.

    k: its best draft length, at least 1, among those that the ledger allows if one of them pays. gain: its
    expected tokens per second over those of plain decoding, minus 1. refused: why it could not be chosen, or
    None.
    """

    proposer: str
    k: int
    gain: float
    refused: Refusal | None


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of the target, after the reply took the committed tokens that it wanted.

    tokens, origins: what the reply kept; the end of the reply trimmed committed - len(tokens) tokens. text:
    what may be shown now (some may be held back for a stop string). seconds: the whole pass; target_seconds,
    proposer_seconds: the time inside models. values: what the controller expected of each proposer that had
    something to propose; () with a fixed k. pause: why none was asked, if the controller chooses k. padded:
    throw-away positions that made the pass cheaper. replayed: tokens read again in this pass because the
    memory could not be cut at their end. reading_seconds: the part of proposer_seconds in which models of
    proposers read tokens they had missed. speculation_seconds: the part of the pass that plain decoding would
    not have: choosing, drafting and learning.
    """

    proposer: str
    drafted: tuple[int, ...]
    accepted: int
    committed: int
    tokens: tuple[int, ...]
    origins: tuple[str, ...]
    text: str
    seconds: float
    target_seconds: float
    proposer_seconds: float
    values: tuple[ExpectedGain, ...] = ()
    padded: int = 0
    reading_seconds: float = 0.0
    speculation_seconds: float = 0.0
    replayed: int = 0
    pause: Pause | None = None


@dataclass(frozen=True, slots=True)
class ProposerDropped:
    """A proposer failed and is no longer used; the reply continues without it.

    damaged: whether its logits are invalid; otherwise `reason` is llama.cpp's message.
    """

    proposer: str
    damaged: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Tally:
    """Passes of one proposer."""

    passes: int = 0
    drafted: int = 0
    accepted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What the passes of a reply add up to, and the ratios that follow, None where there is nothing to
    compute them from. Times are in seconds.

    kept: tokens of the reply. rejections: drafts that were not accepted whole. accepted_by_position: passes
    that accepted at least 1, 2, … tokens. by_proposer: every proposer that was on, with or without a pass.
    k_history: tokens drafted in each pass. replayed: tokens that were read again after rejected drafts, as
    the memory cannot be cut. plain_seconds: what plain decoding would have taken for a token, see plain.py.
    """

    passes: int = 0
    drafted: int = 0
    accepted: int = 0
    rejections: int = 0
    kept: int = 0
    accepted_by_position: tuple[int, ...] = ()
    by_proposer: dict[str, Tally] = field(default_factory=dict)
    k_history: tuple[int, ...] = ()
    replayed: int = 0
    decode_seconds: float = 0.0
    model_seconds: float = 0.0
    plain_seconds: float | None = None

    @property
    def acceptance_rate(self) -> float | None:
        return self.accepted / self.drafted if self.drafted else None

    @property
    def tokens_per_pass(self) -> float | None:
        """Committed tokens per pass: the accepted ones, and one of the pass's own."""
        return (self.passes + self.accepted) / self.passes if self.passes else None

    @property
    def tokens_per_second(self) -> float | None:
        return self.kept / self.decode_seconds if self.decode_seconds else None

    @property
    def plain_tokens_per_second(self) -> float | None:
        return 1 / self.plain_seconds if self.plain_seconds else None

    @property
    def speedup(self) -> float | None:
        """See `times_plain`."""
        return times_plain(self.by_proposer, self.drafted, self.tokens_per_second, self.plain_seconds)

    @property
    def host_seconds_per_pass(self) -> float | None:
        """Time of a pass outside models: proposing, verification, rollback, text."""
        return (self.decode_seconds - self.model_seconds) / self.passes if self.passes else None


@dataclass(frozen=True, slots=True)
class Finished(Totals):
    """The end of a reply. rest: the end of its text, if that was held back for a stop string that did not
    come."""

    reason: FinishReason
    token_ids: tuple[int, ...]
    origins: tuple[str, ...]
    text: str
    rest: str
    seed: int
    prompt_tokens: int
    cached_tokens: int
    prefill_seconds: float

    @property
    def trimmed(self) -> int:
        """Committed tokens that the end of the reply cut off."""
        return self.passes + self.accepted - self.kept


Event = Prefill | Pass | ProposerDropped | Finished


def times_plain(
    proposers: Collection[str], drafted: int, tokens_per_second: float | None, plain_seconds: float | None
) -> float | None:
    """The speed relative to plain decoding: the time that it would have taken, over the time spent.

    Exactly 1 for plain decoding itself; None if nothing was drafted or too little was measured. Every ratio
    shown comes from here. proposers: those that were on. plain_seconds: for a token.
    """
    if not tokens_per_second:
        return None
    if set(proposers) == {"off"}:
        return 1.0
    return tokens_per_second * plain_seconds if drafted and plain_seconds is not None else None
