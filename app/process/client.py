"""The screen's end of the engine's process: starts it, sends commands, tells its events and its death."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from typing import IO, BinaryIO, Protocol, cast

from app.chat.gate import clean
from app.children import how_it_ended, python_command
from app.process.frames import read_frame, write_frame
from app.process.messages import Command, Crashed, Event, Quit

CHILD = python_command("app.process.child")
_LAST_BYTES = 4000


class Link(Protocol):
    """What the screen needs of an engine, wherever it runs."""

    def start(self, deliver: Callable[[Event], None]) -> None:
        """Start, or start again after a crash. `deliver` is called from another thread."""

    def send(self, command: Command) -> None:
        """Hand over a command; it is answered by events."""

    def close(self) -> None:
        """End the engine now."""


class EngineClient:
    """The engine in a process of its own, so that nothing that happens there can hurt the screen."""

    def __init__(self, command: Sequence[str] = CHILD) -> None:
        self._command = tuple(command)
        self._process: subprocess.Popen[bytes] | None = None
        self._sending = threading.Lock()

    @property
    def process_id(self) -> int | None:
        """The process that serves now."""
        return self._process.pid if self._process else None

    def start(self, deliver: Callable[[Event], None]) -> None:
        """Start a process. One that was started before, and its events, are forgotten."""
        self.close()
        log = tempfile.TemporaryFile()  # noqa: SIM115 - the thread closes it
        process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, bufsize=-1
        )
        self._process = process
        threading.Thread(
            target=self._listen, args=(process, log, deliver), name="engine", daemon=True
        ).start()

    def send(self, command: Command) -> None:
        """Send a command. To a process that has died nothing is sent: its death is told as an event."""
        process = self._process
        if process is None or process.stdin is None:
            return
        with self._sending, contextlib.suppress(OSError):
            write_frame(cast(BinaryIO, process.stdin), command)

    def close(self) -> None:
        """End the process. It keeps nothing that an end without delay could lose."""
        process, self._process = self._process, None
        if process is None:
            return
        # It may have gone already.
        with self._sending, contextlib.suppress(OSError):
            write_frame(cast(BinaryIO, process.stdin), Quit())
        try:
            process.wait(0.3)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _listen(
        self, process: subprocess.Popen[bytes], log: IO[bytes], deliver: Callable[[Event], None]
    ) -> None:
        """Tell events until the process ends; the thread ends with it."""
        with log:
            while (event := read_frame(cast(BinaryIO, process.stdout))) is not None:
                if process is self._process:
                    deliver(cast(Event, event))
            status = process.wait()
            if process is self._process:
                size = log.seek(0, 2)
                log.seek(max(0, size - _LAST_BYTES))
                details = clean(log.read().decode("utf-8", "replace")).strip()
                deliver(Crashed(how_it_ended(status), details))
