"""The chat's end of the engine: numbers what is sent, and knows what has not ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from app.process.client import Link
from app.process.commands import Cancel, Task
from app.process.events import Crashed, Event, ended_by


class Commands:
    """Commands to one engine, which may be started several times."""

    def __init__(self, link: Link, deliver: Callable[[Event], None]) -> None:
        """deliver: brings an event from the link's thread to the chat's."""
        self._link = link
        self._deliver = deliver
        self._number = self._run = 0
        # What has not ended yet, by its number.
        self.open: dict[int, Task] = {}

    def start(self) -> None:
        """Start the engine, or another in its place."""
        self._run += 1
        self._link.start(partial(self._hear, self._run))

    def send(self, command: Task) -> int:
        """Send a command; its number, which the event that ends it will carry."""
        self._number += 1
        numbered = replace(command, identity=self._number)
        self.open[self._number] = numbered
        self._link.send(numbered)
        return numbered.identity

    def cancel(self, number: int) -> None:
        """Have what has this number stopped."""
        self._link.send(Cancel(number))

    def ended(self, event: Event) -> Task | None:
        """The command that this event ends, which is open no longer."""
        return self.open.pop(ended_by(event), None)

    def is_of_this_run(self, event: Crashed) -> bool:
        """Whether it is this engine that has died. News of a death may come when another has begun."""
        return event.run == self._run

    def _hear(self, run: int, event: Event) -> None:
        self._deliver(replace(event, run=run) if isinstance(event, Crashed) else event)
