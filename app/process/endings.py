"""Makes sure that every command ends in exactly one event, whoever answers it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from app.process.commands import Cancel, Command, Quit
from app.process.events import Event, Failed, ended_by


class Endings:
    """The commands that have not ended yet. Safe to use from any thread."""

    def __init__(self, deliver: Callable[[Event], None]) -> None:
        self._deliver = deliver
        self._open: set[int] = set()
        self._lock = threading.Lock()

    def sent(self, command: Command) -> None:
        """A command is on its way."""
        if not isinstance(command, (Cancel, Quit)) and command.identity:
            with self._lock:
                self._open.add(command.identity)

    def tell(self, event: Event) -> None:
        """Deliver an event, unless it ends a command a second time."""
        ended = ended_by(event)
        if ended:
            with self._lock:
                if ended not in self._open:
                    return
                self._open.remove(ended)
        self._deliver(event)

    def end_all(self, why: str) -> None:
        """Nobody will answer any more: fail what is open."""
        with self._lock:
            left, self._open = sorted(self._open), set()
        for identity in left:
            self._deliver(Failed(identity, f"It was not done: {why}."))
