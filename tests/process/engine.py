"""An engine's process under test: commands in, events out, with a limit to every wait."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from app.chat.message import Message
from app.config.values import LoadSettings
from app.engine.settings import Sampling
from app.process.client import CHILD, EngineClient
from app.process.commands import Command, Generate, Load
from app.process.events import Done, Event, Loaded, Steps

Kind = TypeVar("Kind")
GREEDY = Sampling(temperature=0.0)
ASK = (Message("user", "Say hello to the lighthouse."),)


class Session:
    """A client whose events can be waited for."""

    def __init__(self, command: tuple[str, ...] = CHILD) -> None:
        self.client = EngineClient(command)
        self.seen: list[Event] = []
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def start(self) -> None:
        self.client.start(self._events.put)

    def send(self, command: Command) -> None:
        self.client.send(command)

    def until(self, kind: type[Kind]) -> Kind:
        """The next event of this kind; those before it are in `seen`."""
        while True:
            event = self._events.get(timeout=60)
            self.seen.append(event)
            if isinstance(event, kind):
                return event

    def load(self, path: Path, **settings: object) -> Loaded:
        self.send(Load(LoadSettings(name=str(path), threads=1, **settings)))  # type: ignore[arg-type]
        return self.until(Loaded)

    def reply(self, command: Generate) -> tuple[list[Steps], Done]:
        self.send(command)
        self.seen.clear()
        done = self.until(Done)
        return [event for event in self.seen if isinstance(event, Steps)], done


@contextmanager
def serving(path: Path | None = None, command: tuple[str, ...] = CHILD) -> Iterator[Session]:
    session = Session(command)
    session.start()
    try:
        if path is not None:
            session.load(path)
        yield session
    finally:
        session.client.close()


def generate(identity: int = 1, proposer: str = "lookup", **fields: object) -> Generate:
    """A request for a short greedy reply."""
    given: dict[str, object] = {"messages": ASK, "sampling": GREEDY, "seed": 1, "max_tokens": 24, **fields}
    return Generate(identity=identity, proposer=proposer, **given)  # type: ignore[arg-type]
