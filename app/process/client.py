"""The screen's end of the engine's process: starts it, sends commands, tells its events and its death.

Where the process dies, or was dead already, the client ends the commands that were sent to it: each ends in
exactly one event, see messages.py.
"""

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
from app.process.messages import Cancel, Command, Crashed, Event, Failed, Quit, ended_by

CHILD = python_command("app.process.child")
_LAST_BYTES = 4000


class Link(Protocol):
    """What the screen needs of an engine, wherever it runs."""

    def start(self, deliver: Callable[[Event], None]) -> None:
        """Start, or start again; what an engine that was there had to answer ends as Failed. `deliver` is
        called from another thread, or from within `start` and `send`."""

    def send(self, command: Command) -> None:
        """Hand over a command. It ends in one event of `Ending`, whatever happens to the engine."""

    def close(self) -> None:
        """End the engine now."""


class EngineClient:
    """The engine in a process of its own, so that nothing that happens there can hurt the screen."""

    def __init__(self, command: Sequence[str] = CHILD) -> None:
        self._command = tuple(command)
        self._process: subprocess.Popen[bytes] | None = None
        self._sending = threading.Lock()
        # Commands that have not ended, and whom to tell.
        self._open: set[int] = set()
        # The process was seen to have ended.
        self._gone = False
        self._deliver: Callable[[Event], None] = lambda event: None

    @property
    def process_id(self) -> int | None:
        """The process that serves now."""
        return self._process.pid if self._process else None

    def start(self, deliver: Callable[[Event], None]) -> None:
        """Start a process in place of the one that may be there."""
        self.close()
        self._deliver = deliver
        self._end_all("the engine was started again")
        log = tempfile.TemporaryFile()  # noqa: SIM115 - the thread closes it
        process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, bufsize=-1
        )
        self._process, self._gone = process, False
        threading.Thread(target=self._listen, args=(process, log), name="engine", daemon=True).start()

    def send(self, command: Command) -> None:
        """Send a command, or end it where there is no process to send it to."""
        process = self._process
        identity = 0 if isinstance(command, (Cancel, Quit)) else command.identity
        with self._sending:
            if identity:
                self._open.add(identity)
            # A process that dies now ends it when its death is noticed.
            if process is not None and not self._gone:
                with contextlib.suppress(OSError):
                    write_frame(cast(BinaryIO, process.stdin), command)
                return
        self._end_all("the engine has ended")

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

    def _listen(self, process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
        """Tell events until the process ends; the thread ends with it."""
        with log:
            while (event := read_frame(cast(BinaryIO, process.stdout))) is not None:
                if process is self._process:
                    self._tell(cast(Event, event))
            status = process.wait()
            if process is self._process:
                size = log.seek(0, 2)
                log.seek(max(0, size - _LAST_BYTES))
                details = clean(log.read().decode("utf-8", "replace")).strip()
                with self._sending:
                    self._gone = True
                self._deliver(Crashed(how_it_ended(status), details))
                self._end_all(f"the engine {how_it_ended(status)}")

    def _tell(self, event: Event) -> None:
        with self._sending:
            self._open.discard(ended_by(event))
        self._deliver(event)

    def _end_all(self, why: str) -> None:
        """End what nobody will answer any more."""
        with self._sending:
            left, self._open = self._open, set()
        for identity in sorted(left):
            self._deliver(Failed(identity, f"It was not done: {why}."))
