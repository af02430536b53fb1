"""Writing to a terminal that has gone: else the chat and its engine go on for ever where nobody sees them."""

from __future__ import annotations

import importlib
import io
import sys
import threading

from app.tui.terminal_output import LastingWriter, teach_output


class Gone(io.StringIO):
    """A terminal that takes a few writes, and then is closed."""

    def write(self, text: str, /) -> int:
        if len(self.getvalue()) >= 3:
            raise OSError(5, "Input/output error")
        return super().write(text)


def test_writing_goes_on_without_a_terminal() -> None:
    terminal = Gone()
    writer = LastingWriter(terminal)
    writer.start()

    def write() -> None:
        for _ in range(200):
            writer.write("x")
        writer.stop()

    writing = threading.Thread(target=write, daemon=True)
    writing.start()
    writing.join(30)
    assert not writing.is_alive() and not writer.is_alive()
    assert terminal.getvalue() == "xxx"


def test_what_was_written_last_is_there() -> None:
    terminal = io.StringIO()
    writer = LastingWriter(terminal)
    writer.start()
    for number in range(100):
        writer.write(f"{number} ")
    writer.stop()
    assert terminal.getvalue().split() == [str(number) for number in range(100)]


def test_the_driver_of_this_system_uses_it() -> None:
    teach_output()
    name = "windows_driver" if sys.platform == "win32" else "linux_driver"
    assert vars(importlib.import_module(f"textual.drivers.{name}"))["WriterThread"] is LastingWriter
