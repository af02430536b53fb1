"""What the engine tells while a reply grows: small frozen records that any front end can consume."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.engine.settings import Sampling

FinishReason = Literal["stop", "length", "stop_string", "context", "cancelled"]


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
class Value:
    """What the controller expected of a proposer before a pass.

    k: its best draft length, at least 1. gain: expected tokens per second with it, over plain decoding's,
    less 1. affordable: whether the ledger allowed it.
    """

    proposer: str
    k: int
    gain: float
    affordable: bool


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of the target, after the reply took what it wanted of the committed tokens.

    tokens, origins: what the reply kept. text: what may be shown now (a stop string may hold some
    back). committed - len(tokens) tokens were trimmed by the reply's end. seconds: the whole pass;
    target_seconds and proposer_seconds: the shares spent inside models. values: what the controller
    expected of each proposer that had something to propose; () with a fixed k. padded: throw-away
    positions that made the pass cheaper. replayed: tokens that were read again in it, because the memory
    could not be cut where they end. reading_seconds: the share of proposer_seconds in which models of
    proposers read what they had missed. speculation_seconds: the share of the pass that plain decoding would
    not have had: choosing, drafting and learning.
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
    values: tuple[Value, ...] = ()
    padded: int = 0
    reading_seconds: float = 0.0
    speculation_seconds: float = 0.0
    replayed: int = 0


@dataclass(frozen=True, slots=True)
class Dropped:
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

    plain_seconds: what plain decoding would have taken for a token, see pace.py. rest: the end of the text,
    if it was held back for a stop string that did not come.
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
        """What plain decoding would have taken, over the time spent."""
        if self.plain_seconds is None or not self.decode_seconds:
            return None
        return len(self.token_ids) * self.plain_seconds / self.decode_seconds

    @property
    def host_seconds_per_pass(self) -> float | None:
        """Time of a pass outside models: proposing, verification, rollback, text."""
        return (self.decode_seconds - self.model_seconds) / self.passes if self.passes else None


Event = Prefill | Pass | Dropped | Finished
