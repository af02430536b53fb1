"""The screen's end of the engine's process: starts it, sends commands, delivers its events.

Where the process has died, the client itself ends the commands that were sent, each in exactly one event; see
commands.py.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from typing import IO, BinaryIO, Protocol, cast

from app.children import how_it_ended, python_command
from app.process.commands import Command, Quit
from app.process.endings import Endings
from app.process.events import Crashed, Event
from app.process.frames import read_frame, write_frame
from app.text import clean

CHILD = python_command("app.process.child")
_LAST_BYTES = 4000


class Link(Protocol):
    """What the screen needs of an engine, wherever it runs."""

    def start(self, deliver: Callable[[Event], None]) -> None:
        """Start, or start again; commands that an engine before had not answered end as Failed. `deliver` is
        called from another thread, or from within `start` and `send`."""

    def send(self, command: Command) -> None:
        """Send a command. It ends in one event of `Ending`, whatever happens to the engine."""

    def close(self) -> None:
        """End the engine now."""


class EngineClient:
    """The engine in a process of its own, so that nothing there can hurt the screen."""

    def __init__(self, command: Sequence[str] = CHILD) -> None:
        self._command = tuple(command)
        self._process: subprocess.Popen[bytes] | None = None
        self._sending = threading.Lock()
        self._endings = Endings(lambda event: None)

    @property
    def process_id(self) -> int | None:
        """The process that serves now."""
        return self._process.pid if self._process else None

    def start(self, deliver: Callable[[Event], None]) -> None:
        """Start a process in place of the one that may be there."""
        self.close()
        log = tempfile.TemporaryFile()  # noqa: SIM115 - the thread closes it
        process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, bufsize=-1
        )
        self._process, self._endings = process, Endings(deliver)
        threading.Thread(
            target=self._listen, args=(process, log, self._endings), name="engine", daemon=True
        ).start()

    def send(self, command: Command) -> None:
        """Send a command. Without a process it is ended here."""
        process, endings = self._process, self._endings
        endings.sent(command)
        if process is not None:
            with self._sending, contextlib.suppress(OSError):
                write_frame(cast(BinaryIO, process.stdin), command)
        # Nobody reads what was written as the process died: the listening thread ends it, after the news, if
        # it has not noticed the death yet.
        if process is None or process is not self._process:
            endings.end_all("the engine has ended")

    def close(self) -> None:
        """End the process, which has nothing to lose."""
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
        self._endings.end_all("the engine was ended")

    def _listen(self, process: subprocess.Popen[bytes], log: IO[bytes], endings: Endings) -> None:
        """Deliver events until the process ends."""
        with log:
            while (event := read_frame(cast(BinaryIO, process.stdout))) is not None:
                if process is self._process:
                    endings.tell(cast(Event, event))
            reason = how_it_ended(process.wait())
            if process is self._process:
                self._process = None
                size = log.seek(0, 2)
                log.seek(max(0, size - _LAST_BYTES))
                details = clean(log.read().decode("utf-8", "replace")).strip()
                endings.tell(Crashed(reason, details))
                endings.end_all(f"the engine {reason}")
