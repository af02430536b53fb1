"""What Textual does not reckon with as it writes: a terminal that has gone."""

from __future__ import annotations

import contextlib
import importlib

from textual.drivers._writer_thread import WriterThread

# The modules that make a writer, each on its own systems.
_DRIVERS = ("textual.drivers.linux_driver", "textual.drivers.windows_driver")


class LastingWriter(WriterThread):
    """Textual's, but it outlives its terminal: else the app waits for room in its queue, and never ends."""

    def run(self) -> None:
        gone = False
        while (text := self._queue.get()) is not None:
            if not gone:
                try:
                    self._file.write(text)
                    if self._queue.empty():
                        self._file.flush()
                except OSError:
                    gone = True
        if not gone:
            with contextlib.suppress(OSError):
                self._file.flush()


def teach_output() -> None:
    """Have this process write to terminals so."""
    for name in _DRIVERS:
        # Each exists on its own system only.
        with contextlib.suppress(ImportError):
            importlib.import_module(name).WriterThread = LastingWriter  # type: ignore[attr-defined]
