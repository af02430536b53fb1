"""The chat's end of the engine: starts it, numbers what is sent, and knows what has not ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from app.process.client import Link
from app.process.commands import Cancel, Task
from app.process.events import Crashed, Event, ended_by


class Commands:
    """Commands to an engine, which is started by the first one, and by the first one after its death."""

    def __init__(self, link: Link, deliver: Callable[[Event], None]) -> None:
        """deliver: brings an event from the link's thread to the chat's."""
        self._link = link
        self._deliver = deliver
        self._number = self._run = 0
        # Whether an engine is there, as far as is known.
        self.running = False
        # What has not ended yet, by its number.
        self.open: dict[int, Task] = {}

    def send(self, command: Task) -> int:
        """Send a command; its number, which the event that ends it will carry."""
        if not self.running:
            self.running = True
            self._run += 1
            self._link.start(partial(self._hear, self._run))
        self._number += 1
        numbered = replace(command, identity=self._number)
        self.open[self._number] = numbered
        self._link.send(numbered)
        return numbered.identity

    def cancel(self, number: int) -> None:
        """Stop the command that has this number."""
        self._link.send(Cancel(number))

    def give_up(self) -> None:
        """Start another engine for the next command."""
        self.running = False

    def ended(self, event: Event) -> Task | None:
        """The command that this event ends, which is open no longer."""
        return self.open.pop(ended_by(event), None)

    def died(self, event: Crashed) -> bool:
        """Whether it is this engine that died: the news may come after another was started."""
        if event.run == self._run:
            self.running = False
        return event.run == self._run

    def _hear(self, run: int, event: Event) -> None:
        self._deliver(replace(event, run=run) if isinstance(event, Crashed) else event)
