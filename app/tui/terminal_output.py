"""Writing to a terminal that may go away while the chat runs."""

from __future__ import annotations

import contextlib
from typing import IO, cast

from app.tui.textual_private import WriterThread, use_in_drivers


class _LastingFile:
    """A terminal whose loss is no error."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self.fileno = file.fileno

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._file.flush()


class LastingWriter(WriterThread):
    """Outlives its terminal. Textual's own ends with it, and the app waits forever for room in its queue."""

    def __init__(self, file: IO[str]) -> None:
        super().__init__(cast("IO[str]", _LastingFile(file)))


def teach_output() -> None:
    """Make this process write to terminals through `LastingWriter`."""
    use_in_drivers("WriterThread", LastingWriter)
