"""A command on a pseudo-terminal: bytes go in as from a keyboard, and what it writes is kept."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TypeVar

from app.errors import SpecchatError

# They would decide about size and colours in place of the terminal, or leave modules without compiled code.
_LEFT_OUT = ("COLUMNS", "LINES", "NO_COLOR", "PYTHONDONTWRITEBYTECODE")
_Terminal = TypeVar("_Terminal", bound="PseudoTerminal")


class PseudoTerminal:
    """A command that runs on a terminal. Its output is read while something is waited for or written."""

    def __init__(
        self,
        command: Sequence[str],
        size: tuple[int, int] = (100, 30),
        environment: Mapping[str, str] | None = None,
        folder: str | None = None,
    ) -> None:
        """size: columns and rows. environment: beside this process's own. folder: where the command runs.

        Raises SpecchatError where the system has no pseudo-terminals.
        """
        if sys.platform == "win32":
            raise SpecchatError("This needs a pseudo-terminal: run it on Linux or macOS.")
        import fcntl
        import pty
        import termios

        self.output = bytearray()
        self.fd, other_end = pty.openpty()
        self.set_size(*size)
        os.set_blocking(self.fd, False)
        inherited = {name: value for name, value in os.environ.items() if name not in _LEFT_OUT}
        terminal = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
        self.started = time.monotonic()
        self._process = subprocess.Popen(
            command,
            stdin=other_end,
            stdout=other_end,
            stderr=other_end,
            env={**inherited, **terminal, **(environment or {})},
            cwd=folder,
            start_new_session=True,
            # Makes it the controlling terminal, which Ctrl+C, Ctrl+Z and /dev/tty need.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(other_end)

    def __enter__(self: _Terminal) -> _Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the command, and what it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process, signal.SIGKILL)
        self._process.wait()
        os.close(self.fd)

    @property
    def process(self) -> int:
        """The number of the command's process."""
        return self._process.pid

    def set_size(self, columns: int, rows: int) -> None:
        """Resize the terminal."""
        import fcntl
        import termios

        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds: float) -> bool:
        """Take what the command wrote, waiting for it at most so long; False once nothing more can come."""
        if not select.select([self.fd], [], [], max(0.0, seconds))[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            # Linux says so, where other systems read nothing.
            return False
        self.output += data
        return bool(data)

    def read_for(self, seconds: float) -> None:
        """Let so much time pass."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and self.read(left):
            pass

    def write(self, data: bytes) -> None:
        """Type, or paste. The output is read meanwhile: a command that cannot write does not read either."""
        while data:
            readable, writable, _ = select.select([self.fd], [self.fd], [])
            if readable and not self.read(0.0):
                return
            if writable:
                with contextlib.suppress(BlockingIOError):
                    data = data[os.write(self.fd, data) :]

    def time_of(self, pattern: bytes, after: int = 0, seconds: float = 60.0) -> float:
        """Wait until the output after so many bytes matches; the time when it did (time.monotonic).

        Raises SpecchatError where it does not come in time, or the command ends before.
        """
        deadline = time.monotonic() + seconds
        while not re.search(pattern, self.output[after:]):
            left = deadline - time.monotonic()
            if left <= 0 or not self.read(left):
                raise SpecchatError(f"The terminal never showed {pattern.decode('utf-8', 'replace')}.")
        return time.monotonic()

    def end(self, seconds: float = 60.0) -> int:
        """Wait for the command's end: its exit code, or less than 0 for the signal that killed it.

        Raises SpecchatError where it does not end in time.
        """
        deadline = time.monotonic() + seconds
        while self.read(0.1):
            if time.monotonic() > deadline:
                raise SpecchatError(f"The command did not end within {seconds:.0f} s.")
        return self._process.wait()
