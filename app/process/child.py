"""The engine's process: commands on stdin, events on stdout.

Native code may print what it likes: before any is loaded, the events get a file descriptor of their own, and
descriptor 1 goes where 2 does, to a file of the parent's.
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
    # The screen decides what Ctrl+C means.
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
                # Nothing here needs a clean end: files are written whole or not at all.
                os._exit(0)
            if isinstance(command, Cancel):
                service.cancel(command.identity)
            else:
                waiting.put(command)  # type: ignore[arg-type]

    threading.Thread(target=listen, name="commands", daemon=True).start()
    service.run()
