"""What the process tells that loads llama.cpp: plain values, so that to read them loads nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """free, total: bytes, 0 where the driver does not tell. kind: as app.llama.devices has it."""

    name: str
    description: str
    kind: str
    free: int
    total: int


@dataclass(frozen=True, slots=True)
class BuildFacts:
    """llama.cpp as it is installed.

    threads: the numbers that are tried with each model. missing: functions that heads need and this build has
    not. model: the file that the chat opens; problem: why there is none. amx: what happens when its code for
    AMX runs here, "" where nothing goes wrong.
    """

    version: str
    backends: tuple[str, ...]
    gpu_offload: bool
    cpu_features: tuple[str, ...]
    devices: tuple[DeviceFacts, ...]
    threads: tuple[int, ...]
    missing: tuple[str, ...]
    model: str
    problem: str
    amx: str = ""


@dataclass(frozen=True, slots=True)
class AnswerFacts:
    """A model that was loaded and asked. load_seconds: to read it; seconds: to decode `tokens`; finite:
    whether every logit was a number. memory: how it goes back, see app/models/memory_kind.py; copy_bytes: of
    a copy of it, 0 where it needs none. rejected: tokens of a draft that were taken back; rewind_cost: what
    that took, in plain passes."""

    model: str
    load_seconds: float
    tokens: int
    seconds: float
    finite: bool
    memory: str = "attention"
    copy_bytes: int = 0
    rejected: int = 0
    rewind_cost: float = 0.0


@dataclass(frozen=True, slots=True)
class Refused:
    """What was asked for cannot be had, for a reason that is known. absent: there is no such model."""

    reason: str
    absent: bool = False


@dataclass(frozen=True, slots=True)
class Died:
    """The process ended or hung without an answer. how: such as "was killed by SIGILL". last: what it
    wrote last."""

    how: str
    last: str = ""
