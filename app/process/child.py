"""The engine's process: commands on stdin, events on stdout.

Native code may print what it likes: before any of it is loaded, file descriptor 1 is moved out of its
reach and points to where 2 does, a file of the parent's.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
from typing import TYPE_CHECKING

from app.process.frames import read_frame, write_frame

if TYPE_CHECKING:
    from app.process.events import Event


def main() -> None:
    """Serve until Quit, or until the parent has gone."""
    # The keyboard is the screen's: it decides what Ctrl+C means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    commands = os.fdopen(os.dup(0), "rb")
    events = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)

    from app.process.commands import Cancel, Quit, Task
    from app.process.service import Service

    waiting: queue.SimpleQueue[Task] = queue.SimpleQueue()

    writing = threading.Lock()

    def deliver(event: Event) -> None:
        try:
            with writing:
                write_frame(events, event)
        except OSError:
            os._exit(0)  # nobody is left to tell

    service = Service(waiting, deliver)

    def listen() -> None:
        while True:
            command = read_frame(commands)
            if command is None or isinstance(command, Quit):
                # Nothing here is worth more than an end without delay: files are written whole or not.
                os._exit(0)
            if isinstance(command, Cancel):
                service.cancel(command.identity)
            else:
                waiting.put(command)  # type: ignore[arg-type]

    threading.Thread(target=listen, name="commands", daemon=True).start()
    service.run()
