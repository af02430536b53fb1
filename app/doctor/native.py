"""Asks the process that loads llama.cpp, and outlives its death."""

from __future__ import annotations

import io
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, cast

from app.chat.gate import clean
from app.children import how_it_ended, python_command
from app.doctor.facts import AnswerFacts, BuildFacts, Died, Refused
from app.process.frames import read_frame

# The drivers of several graphics cards may take half a minute to start.
_BUILD_SECONDS = 60.0
_ANSWER_SECONDS = 180.0
_CHILD = python_command("app.doctor.child")
_LAST_BYTES = 2000


def ask_build(name: str | None) -> BuildFacts | Refused | Died:
    """What is installed. name: the model that the settings name."""
    return cast("BuildFacts | Refused | Died", ask((*_CHILD, "build", name or ""), _BUILD_SECONDS))


def ask_answer(path: Path | None = None) -> AnswerFacts | Refused | Died:
    """Have a model load and decode, by default the bundled one."""
    return cast("AnswerFacts | Refused | Died", ask((*_CHILD, "answer", str(path or "")), _ANSWER_SECONDS))


def ask(command: Sequence[str], seconds: float) -> object:
    """The frame that the command writes; Died where it writes none within `seconds`."""
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
            return Died(f"did not answer within {seconds:.0f} s", _last(log.seek(0, 2), log))
        except OSError as error:
            return Died(f"could not be started ({error.strerror})")
        answer = read_frame(io.BytesIO(done.stdout))
        if answer is not None:
            return answer
        return Died(how_it_ended(done.returncode), _last(log.seek(0, 2), log))


def _last(length: int, log: IO[bytes]) -> str:
    """The last line that was written."""
    log.seek(max(0, length - _LAST_BYTES))
    lines = clean(log.read().decode("utf-8", "replace")).strip().splitlines()
    return lines[-1].strip() if lines else ""
