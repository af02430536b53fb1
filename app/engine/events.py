"""What the engine tells while a reply grows: small frozen records that any front end can consume."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from app.engine.settings import Sampling

FinishReason = Literal["stop", "length", "stop_string", "context", "cancelled"]

# Why a proposer's best draft is not made: its gain is too small, or there is none; what it has to read first
# would cost more than that; drafts lost lately, and the ledger is in debt; it would cost more than the ledger
# holds, were all of it rejected.
Refusal = Literal["small", "unread", "paused", "risky"]
# Why no proposer is asked: plain passes are timed, or none had anything worth a try for many passes.
Pause = Literal["measuring", "resting"]


@dataclass(frozen=True, slots=True)
class Request:
    """One reply. max_tokens: at least 1. k: the draft length to begin with; None: the controller's."""

    prompt: tuple[int, ...]
    sampling: Sampling
    seed: int
    max_tokens: int = 512
    stop: tuple[str, ...] = ()
    k: int | None = None


@dataclass(frozen=True, slots=True)
class Prefill:
    """The prompt is being read: `done` of `total` tokens; `cached` of them were known already. again: how
    many were known too, and are read again as the memory cannot go back to where they end."""

    done: int
    total: int
    cached: int
    again: int = 0


@dataclass(frozen=True, slots=True)
class ExpectedGain:
    """What the controller expected of a proposer before a pass.

    k: its best draft length, at least 1, of those that the ledger allows where one of them pays. gain:
    expected tokens per second with it, over plain decoding's, less 1. refused: why it could not be chosen,
    None where it could.
    """

    proposer: str
    k: int
    gain: float
    refused: Refusal | None


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of the target, after the reply took what it wanted of the committed tokens.

    tokens, origins: what the reply kept. text: what may be shown now (a stop string may hold some
    back). committed - len(tokens) tokens were trimmed by the reply's end. seconds: the whole pass;
    target_seconds and proposer_seconds: the shares spent inside models. values: what the controller
    expected of each proposer that had something to propose; () with a fixed k. pause: why none was asked,
    where k is the controller's. padded: throw-away positions that made the pass cheaper. replayed: tokens
    that were read again in it, because the memory could not be cut where they end. reading_seconds: the share
    of proposer_seconds in which models of proposers read what they had missed. speculation_seconds: the share
    of the pass that plain decoding would not have had: choosing, drafting and learning.
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
    """A proposer failed and drafts no more; the reply goes on without it.

    damaged: its model computes no numbers; otherwise `reason` is what llama.cpp said.
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


@dataclass(frozen=True, slots=True)
class Finished:
    """The reply's end and its figures. Seconds; None where a figure was not measured.

    by_proposer: of each that was on, those that made no pass too. plain_seconds: what plain decoding would
    have taken for a token, see pace.py. rest: the end of the text, if it was held back for a stop string that
    did not come.
    """

    reason: FinishReason
    token_ids: tuple[int, ...]
    origins: tuple[str, ...]
    text: str
    rest: str
    seed: int
    prompt_tokens: int
    cached_tokens: int
    passes: int
    drafted: int
    accepted: int
    trimmed: int
    accepted_by_position: tuple[int, ...]
    by_proposer: dict[str, Tally]
    k_history: tuple[int, ...]
    prefill_seconds: float
    decode_seconds: float
    model_seconds: float
    plain_seconds: float | None

    @property
    def acceptance_rate(self) -> float | None:
        return self.accepted / self.drafted if self.drafted else None

    @property
    def tokens_per_pass(self) -> float | None:
        return (self.passes + self.accepted) / self.passes if self.passes else None

    @property
    def tokens_per_second(self) -> float | None:
        return len(self.token_ids) / self.decode_seconds if self.decode_seconds else None

    @property
    def speedup(self) -> float | None:
        """See `times_plain`."""
        return times_plain(self.by_proposer, self.drafted, self.tokens_per_second, self.plain_seconds)

    @property
    def host_seconds_per_pass(self) -> float | None:
        """Time of a pass outside models: proposing, verification, rollback, text."""
        return (self.decode_seconds - self.model_seconds) / self.passes if self.passes else None


Event = Prefill | Pass | ProposerDropped | Finished


def times_plain(
    proposers: Collection[str], drafted: int, tokens_per_second: float | None, plain_seconds: float | None
) -> float | None:
    """How many times as fast as plain decoding: what that would have taken, over the time spent.

    Exactly 1 where it was plain decoding; None where nothing was drafted, or not enough was measured. Every
    ratio that is shown comes from here. proposers: those that were on. plain_seconds: of a token.
    """
    if not tokens_per_second:
        return None
    if set(proposers) == {"off"}:
        return 1.0
    return tokens_per_second * plain_seconds if drafted and plain_seconds is not None else None
