"""What every engine owes the chat, the real one and the scripted one of the tests alike: each command ends in
exactly one event. Without it the chat waits for ever, or takes one answer for another."""

from __future__ import annotations

import os
import queue
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.config.values import LoadSettings
from app.models.row import Listing
from app.process.client import CHILD, EngineClient, Link
from app.process.commands import (
    Cancel,
    Command,
    Compare,
    Count,
    FindDrafts,
    FindModels,
    Generate,
    Load,
    Quit,
    SetDraft,
    SetK,
    SetProposer,
    Task,
)
from app.process.events import (
    Asked,
    Cancelled,
    Compared,
    ComparisonEnded,
    ComparisonProgress,
    Counted,
    Crashed,
    Done,
    Drafts,
    Event,
    Failed,
    Loaded,
    LoadProgress,
    Models,
    Steps,
    Switched,
    TooLong,
    ended_by,
)
from tests.process.engine import ASK, GREEDY, generate
from tests.process.trace import RECORDED, played
from tests.tui.engine import LOADED, OPTIONS, ScriptedEngine, finished, step

# Which events may end which command.
ENDINGS: dict[type[Task], tuple[type[Event], ...]] = {
    Load: (Loaded,),
    Generate: (Done, TooLong),
    Compare: (ComparisonEnded,),
    SetProposer: (Switched, Asked),
    SetK: (Switched,),
    SetDraft: (Switched,),
    FindDrafts: (Drafts,),
    FindModels: (Models,),
    Count: (Counted,),
}


class Engine:
    """A link under test: numbers commands, and counts how each has ended."""

    def __init__(self, link: Link, die: Callable[[], None]) -> None:
        self.link, self.die = link, die
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.sent: dict[int, Task] = {}
        self.ended: Counter[int] = Counter()
        self.link.start(self.events.put)

    def send(self, command: Task) -> int:
        number = len(self.sent) + 1
        numbered = replace(command, identity=number)
        self.sent[number] = numbered
        self.link.send(numbered)
        return number

    def until(self, condition: Callable[[Event], bool]) -> Event:
        while True:
            event = self.events.get(timeout=60)
            number = ended_by(event)
            if number:
                self.ended[number] += 1
                allowed = (*ENDINGS[type(self.sent[number])], Failed, Cancelled)
                assert isinstance(event, allowed), (self.sent[number], event)
            if condition(event):
                return event

    def all_end(self) -> None:
        """Every command has ended once; one more that is sent now shows that nothing follows."""
        last = self.send(Count(text="the end"))
        self.until(lambda _: len(self.ended) == len(self.sent))
        assert last in self.ended and set(self.ended.values()) == {1}


class Obedient(ScriptedEngine):
    """A scripted engine that answers by itself, but leaves what takes long to the test."""

    def start(self, deliver: Callable[[Event], None]) -> None:
        super().start(deliver)
        self.loaded = False

    def send(self, command: Command) -> None:
        super().send(command)
        if isinstance(command, Cancel):
            self.tell(Done(command.identity, finished([step("word")], "cancelled")))
            self.tell(Cancelled(command.identity))
        elif self.runs and not isinstance(command, Quit):
            self._answer(command)

    def _answer(self, command: Task) -> None:
        number = command.identity
        match command:
            case Load():
                self.loaded = not is_missing(command.settings.name)
                self.ends = "ending" in (command.settings.name or "")
                if self.loaded:
                    self.tell(LoadProgress("test.gguf", 1.0), LOADED)
                else:
                    self.tell(Failed(number, "There is no such file."))
            case FindModels():
                self.tell(Models(Listing(()), number))
            case _ if not self.loaded:
                self.tell(Failed(number, "No model is loaded: choose one first."))
            case SetProposer("nonsense"):
                self.tell(Failed(number, "There is no such proposer."))
            case SetProposer("draft") | SetDraft():
                self.tell(Switched("lookup", OPTIONS, None, "There is no such draft.", number))
            case SetProposer() | SetK():
                self.tell(Switched("lookup", OPTIONS, None, None, number))
            case FindDrafts():
                self.tell(Drafts((), number))
            case Count():
                self.tell(Counted(number, 3))
            case Generate() if len(command.messages[-1].content) > 50_000:
                self.tell(TooLong(number, 20_000, 8192, 8192))
            case Generate() if command.max_tokens is not None:
                self.reply("word", reason="length")
            case Generate():
                self.reply("word", reason="stop" if self.ends else None)
            case Compare():
                self.tell(Compared(number, "draft", None, None, "No draft model is loaded."))
                for name in ("off", "lookup"):
                    self.tell(ComparisonProgress(number, name, "word", 1, 0, 0.01, None))
                    self.tell(Compared(number, name, finished([step("word")], "length"), None, None))
                self.tell(ComparisonEnded(number))


def is_missing(name: str | None) -> bool:
    return name is not None and "missing" in name


@pytest.fixture(params=["real", "scripted"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    if request.param == "real":
        client = EngineClient(CHILD)
        engine = Engine(client, lambda: os.kill(client.process_id or 0, signal.SIGKILL))
    else:
        scripted = Obedient()
        engine = Engine(scripted, lambda: scripted.tell(Crashed("was killed by SIGKILL", "")))
    yield engine
    engine.link.close()


def test_commands_are_answered_as_recorded(engine: Engine, tmp_path: Path) -> None:
    """Else: the screen is tested against an engine that there is not."""
    assert list(played(engine.link, engine.die, tmp_path)) == RECORDED.read_text().splitlines()


def every(path: Path) -> list[Task]:
    """One command of each kind, some that fail among them."""
    missing = str(path.with_name("missing.gguf"))
    return [
        generate(max_tokens=6),
        SetProposer("lookup"),
        SetProposer("draft"),
        SetProposer("nonsense"),
        SetK(3),
        SetDraft(missing),
        FindDrafts((missing,)),
        FindModels((missing,)),
        Count(text="some words"),
        Count(messages=ASK),
        Compare(0, ASK, GREEDY, 1, ("off", "lookup"), None, 6),
        Load(LoadSettings(missing)),
        generate(max_tokens=6),
        Load(LoadSettings(str(path), threads=1)),
        generate(max_tokens=6),
        Compare(0, ASK, GREEDY, 1, ("off", "lookup"), None, 6),
    ]


def test_every_command_ends_once(engine: Engine, tiny_path: Path) -> None:
    for command in every(tiny_path):
        engine.send(command)
    engine.all_end()
    assert engine.ended.total() == len(every(tiny_path)) + 1


def test_what_comes_during_a_reply_ends_once_and_not_the_reply(engine: Engine, tiny_path: Path) -> None:
    engine.send(Load(LoadSettings(str(tiny_path), threads=1)))
    reply = engine.send(generate(max_tokens=None))
    engine.until(lambda event: isinstance(event, Steps))
    small = [command for command in every(tiny_path) if not isinstance(command, (Load, Generate, Compare))]
    numbers = {engine.send(command) for command in small}
    engine.until(lambda _: numbers <= set(engine.ended))
    # The tiny model may have filled its context meanwhile; the scripted one waits to be stopped.
    engine.link.send(Cancel(reply))
    engine.all_end()


@pytest.mark.parametrize("long", [generate(max_tokens=None), Compare(0, ASK, GREEDY, 1, ("off",), 1, 400)])
def test_what_is_stopped_ends_once(engine: Engine, long: Task, tiny_path: Path) -> None:
    """Else: Esc during a comparison locks the chat."""
    engine.send(Load(LoadSettings(str(tiny_path), threads=1)))
    for moment in range(4):
        number = engine.send(long)
        # In the first rounds before it has begun.
        if moment > 1:
            engine.until(lambda event: getattr(event, "identity", 0) == number)  # noqa: B023
        engine.link.send(Cancel(number))
    engine.link.send(Cancel(engine.send(Load(LoadSettings(str(tiny_path), threads=1)))))
    engine.all_end()


def test_death_ends_what_is_open_and_what_comes_after_it(engine: Engine, tiny_path: Path) -> None:
    engine.send(Load(LoadSettings(str(tiny_path), threads=1)))
    engine.send(generate(max_tokens=None))
    engine.until(lambda event: isinstance(event, Steps))
    for command in every(tiny_path):
        if isinstance(command, (Generate, Compare)):
            engine.send(command)
    engine.die()
    engine.until(lambda event: isinstance(event, Crashed))
    for command in every(tiny_path):
        engine.send(command)
    engine.all_end()
    engine.link.start(engine.events.put)
    engine.send(Load(LoadSettings(str(tiny_path), threads=1)))
    engine.all_end()


def test_an_engine_that_is_started_again_ends_what_was_open(engine: Engine, tiny_path: Path) -> None:
    engine.send(Load(LoadSettings(str(tiny_path), threads=1)))
    engine.send(generate(max_tokens=None))
    engine.until(lambda event: isinstance(event, Steps))
    engine.link.start(engine.events.put)
    engine.send(Load(LoadSettings(str(tiny_path), threads=1)))
    engine.all_end()
