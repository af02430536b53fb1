"""What the process tells that loads llama.cpp; it is asked here, and may die of it."""

from __future__ import annotations

import io
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from app.children import how_it_ended, python_command
from app.llama.facts import Device, LlamaBuild
from app.process.frames import read_frame
from app.text import clean

# The drivers of several graphics cards may take half a minute to start.
_INSTALLATION_SECONDS = 60.0
_ANSWER_SECONDS = 180.0
_CHILD = python_command("app.doctor.child")
_LAST_BYTES = 2000


@dataclass(frozen=True, slots=True)
class Installation:
    """llama.cpp as it is installed, and what the chat would load with it.

    threads: the numbers that are tried with each model. missing: functions that heads need and this build
    lacks. model: the file that the chat opens; problem: why there is none. amx: what happens when its code
    for AMX runs here, "" where nothing goes wrong.
    """

    build: LlamaBuild
    devices: tuple[Device, ...]
    threads: tuple[int, ...]
    missing: tuple[str, ...]
    model: str
    problem: str
    amx: str = ""


@dataclass(frozen=True, slots=True)
class TrialAnswer:
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
    """llama.cpp or a model cannot be loaded, for a reason that is known. absent: there is no such model."""

    reason: str
    absent: bool = False


@dataclass(frozen=True, slots=True)
class Died:
    """The process ended or hung without an answer. how: such as "was killed by SIGILL". last: the last line
    that it wrote."""

    how: str
    last: str = ""


def ask_installation(name: str | None) -> Installation | Refused | Died:
    """What is installed. name: the model that the settings name."""
    found = ask((*_CHILD, "installation", name or ""), _INSTALLATION_SECONDS)
    return cast("Installation | Refused | Died", found)


def ask_answer(path: Path | None = None) -> TrialAnswer | Refused | Died:
    """Have a model load and decode, by default the bundled one."""
    return cast("TrialAnswer | Refused | Died", ask((*_CHILD, "answer", str(path or "")), _ANSWER_SECONDS))


def ask(command: Sequence[str], seconds: float) -> object:
    """The record that the command writes; Died where it writes none within `seconds`."""
    with tempfile.TemporaryFile() as log:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Died(f"did not answer within {seconds:.0f} s", _last_line(log))
        except OSError as error:
            return Died(f"could not be started ({error.strerror})")
        answer = read_frame(io.BytesIO(done.stdout))
        return Died(how_it_ended(done.returncode), _last_line(log)) if answer is None else answer


def _last_line(log: IO[bytes]) -> str:
    log.seek(max(0, log.seek(0, 2) - _LAST_BYTES))
    lines = clean(log.read().decode("utf-8", "replace")).strip().splitlines()
    return lines[-1].strip() if lines else ""
