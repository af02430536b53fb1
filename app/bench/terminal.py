"""A command on a pseudo-terminal: what a person's terminal would see, and when."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.errors import SpecchatError


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes that arrived, and when (time.monotonic)."""

    at: float
    data: bytes


class Terminal:
    """Starts a command on a terminal of this size and reads all that it writes, as fast as it comes."""

    def __init__(
        self, command: Sequence[str], columns: int = 100, rows: int = 30, environment: Mapping[str, str] = {}
    ) -> None:
        """Raises SpecchatError where the system has no pseudo-terminals."""
        if sys.platform == "win32":
            raise SpecchatError("This benchmark needs a pseudo-terminal: run it on Linux or macOS.")
        import fcntl
        import pty
        import termios

        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.started = time.monotonic()
        self._process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**_inherited(), "TERM": "xterm-256color", "COLORTERM": "truecolor", **environment},
            start_new_session=True,
        )
        os.close(slave)
        self._chunks: list[Chunk] = []
        self._news = threading.Condition()
        self._ended = False
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:
                data = b""
            with self._news:
                if data:
                    self._chunks.append(Chunk(time.monotonic(), data))
                else:
                    self._ended = True
                self._news.notify_all()
            if not data:
                return

    @property
    def mark(self) -> int:
        """A place in the output, to look for what comes after it."""
        with self._news:
            return len(self._chunks)

    def write(self, data: bytes) -> None:
        """Type, or paste."""
        while data:
            data = data[os.write(self._master, data) :]

    def wait_for(self, text: bytes, after: int = 0, seconds: float = 60.0) -> float:
        """When `text` had arrived, looked for behind a mark.

        Raises SpecchatError where it does not come in time, or the command ends before.
        """
        deadline = time.monotonic() + seconds
        seen, tail = after, b""
        with self._news:
            while True:
                for chunk in self._chunks[seen:]:
                    tail = tail[-len(text) :] + chunk.data
                    if text in tail:
                        return chunk.at
                seen = len(self._chunks)
                left = deadline - time.monotonic()
                if self._ended or left <= 0:
                    raise SpecchatError(f"The terminal never showed {text.decode('utf-8', 'replace')!r}.")
                self._news.wait(left)

    def end(self, seconds: float = 60.0) -> bytes:
        """Wait for the command to end; all that it wrote."""
        deadline = time.monotonic() + seconds
        with self._news:
            while not self._ended and (left := deadline - time.monotonic()) > 0:
                self._news.wait(left)
            return b"".join(chunk.data for chunk in self._chunks)

    def close(self) -> None:
        """End the command, and what it started."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)
            try:
                self._process.wait(2)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        os.close(self._master)


def _inherited() -> dict[str, str]:
    """The environment, but as a person has it: with compiled modules, which an installation writes."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
