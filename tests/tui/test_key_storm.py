"""Keys faster than the screen: without these a person who types ahead loses the chat to a traceback."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.events import Paste, Resize
from textual.geometry import Size
from textual.screen import Screen

from app.config.values import Settings
from app.engine.events import Prefill
from app.process.commands import (
    Cancel,
    Command,
    Compare,
    Count,
    FindDrafts,
    Generate,
    Load,
    SetDraft,
    SetProposer,
)
from app.process.events import (
    Asked,
    Cancelled,
    Candidate,
    Compared,
    ComparisonEnded,
    ComparisonProgress,
    Counted,
    Done,
    Drafts,
    Event,
    Failed,
    PromptProgress,
    Step,
    Steps,
    Switched,
    TooLong,
)
from app.tui.actions import ACTIONS
from app.tui.app import SpecchatApp
from app.tui.dialogs.choice import ChoiceScreen
from app.tui.dialogs.palette import ActionPalette
from app.tui.drafts.screen import DraftScreen
from app.tui.options import ChatOptions
from tests.tui.chatting import NARROW, WIDE, Chatting, chatting, run, type_ahead
from tests.tui.engine import LOADED, OPTIONS, ScriptedEngine, finished, step

SIZES = (NARROW, WIDE, (120, 40), (60, 16), (40, 10))
# Those that end or suspend the chat are left out.
KEYS = [
    key
    for action in ACTIONS
    if action.name not in ("leave", "quit", "suspend_process")
    for key in action.keys.split(",")
    if key
]
OTHERS = [
    *("escape", "enter", "shift+f5", "f5", "f2", "f7", "f8", "f9", "up", "down", "left", "right", "tab"),
    *("shift+tab", "space", "delete", "backspace", "home", "end", "ctrl+s", "ctrl+c", "ctrl+d", "ctrl+e"),
    *"adhjmnqsuy12/",
]
OFTEN = ["escape", "enter", "backspace"]


def front(app: SpecchatApp) -> Screen[object]:
    """The screen that has the keys."""
    return app.screen


class Answering(ScriptedEngine):
    """Answers each command after a while, in one of the ways in which it can be."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__()
        self._dice = dice
        self._cancelled: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, command: Command) -> None:
        super().send(command)
        if isinstance(command, Cancel):
            self._cancelled.add(command.identity)
        task = asyncio.get_running_loop().create_task(self._answer(command))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, command: Command) -> None:
        for event in self._events(command):
            await asyncio.sleep(self._dice.choice((0, 0, 0, 0.002, 0.01)))
            if not self.closed:
                self.tell(event)

    def _events(self, command: Command) -> Iterable[Event]:
        if isinstance(command, Load):
            yield LOADED
        elif isinstance(command, Generate):
            yield from self._reply(command.identity)
        elif isinstance(command, Compare):
            yield from self._comparison(command)
        elif isinstance(command, SetProposer):
            if command.agreed or self._dice.random() < 0.8:
                yield Switched(command.name, OPTIONS, None, None)
            else:
                yield Asked(command.name, "May a copy be written?")
        elif isinstance(command, SetDraft):
            yield Switched("draft", OPTIONS, command.draft, None)
        elif isinstance(command, FindDrafts):
            yield Drafts((Candidate("/a.gguf", "a.gguf", 10, None, False),) * 2)
        elif isinstance(command, Count):
            yield Counted(command.identity, 5)

    def _reply(self, identity: int) -> Iterable[Event]:
        fate = self._dice.random()
        if fate < 0.1:
            yield TooLong(identity, 9000, 8192, 32768)
            return
        if fate < 0.15:
            yield Failed(identity, "It failed.")
            return
        yield PromptProgress(identity, Prefill(12, 12, 0))
        steps: list[Step] = []
        for number in range(self._dice.choice((0, 1, 8))):
            if identity in self._cancelled:
                yield Done(identity, finished(steps, "cancelled"))
                return
            steps.append(step(" word", number))
            yield Steps(identity, (steps[-1],))
        yield Done(identity, finished(steps, self._dice.choice(("stop", "length", "context"))))

    def _comparison(self, command: Compare) -> Iterable[Event]:
        for name in command.proposers:
            yield ComparisonProgress(command.identity, name, "word", 1, 0, 0.1, None)
            yield Compared(command.identity, name, finished([step("word")]), None, None)
            if command.identity in self._cancelled:
                yield Cancelled(command.identity)
                return
        yield ComparisonEnded(command.identity)


@asynccontextmanager
async def running(folder: Path, engine: ScriptedEngine, size: tuple[int, int]) -> AsyncIterator[SpecchatApp]:
    """The chat as `specchat` runs it; afterwards it is left, and what was a fault of it is raised."""
    app = SpecchatApp(ChatOptions(Settings(), None, (), (), folder / "settings.toml", folder), engine)
    ended = asyncio.create_task(app.run_async(headless=True, size=size))
    while not engine.starts and not ended.done():
        await asyncio.sleep(0.005)
    yield app
    await asyncio.wait_for(ended, 30)
    if app._exception is not None:
        raise app._exception
    assert app.return_code == 0


async def answered(chat: Chatting) -> None:
    """Have one answer to compare."""
    await chat.ask("Go")
    chat.engine.reply("Gone.")
    await chat.settle()


@pytest.mark.parametrize("seed", [2, 13, 14])
def test_keys_that_come_all_at_once_leave_the_chat(tmp_path: Path, seed: int) -> None:
    """Lost otherwise: the exit code, to a traceback, as the engine opens a dialogue just then."""

    async def body() -> None:
        async with running(tmp_path, Answering(random.Random(seed)), NARROW) as app:
            type_ahead(app, "h", "i", "enter", "f2", "f5", "escape", "shift+f5", "escape", "ctrl+q")
            for _ in range(100):
                if app.return_code is not None:
                    break
                await asyncio.sleep(0.05)
                # A dialogue of the engine's may be in front.
                if app.return_code is None and app.screen_stack and front(app) is not app.chat_screen:
                    type_ahead(app, "escape", "ctrl+q")

    run(body)


@pytest.mark.parametrize("opening", ["f1", "f5", "shift+f5", "shift+f6", "f7", "f8", "f9", "ctrl+p"])
def test_escape_closes_a_dialogue_that_is_not_drawn_yet(tmp_path: Path, opening: str) -> None:
    async def body() -> None:
        async with chatting(tmp_path) as chat:
            await answered(chat)
            opened: list[Screen[object]] = []
            chat.app.screen_change_signal.subscribe(chat.app, opened.append, immediate=True)
            # The first one stops a comparison.
            type_ahead(chat.app, opening, *["escape"] * (2 if opening == "f5" else 1))
            await chat.until(lambda: len(opened) == 2)
            assert opened[1] is front(chat.app) is chat.app.chat_screen

    run(body)


@pytest.mark.parametrize("keys", [("1", "1", "2"), ("enter", "enter"), ("escape", "escape", "1")])
def test_a_choice_is_taken_once(tmp_path: Path, keys: tuple[str, ...]) -> None:
    """Lost otherwise: the chat, when a key bounces; or two answers to one question."""

    async def body() -> None:
        async with chatting(tmp_path) as chat:
            await answered(chat)
            chat.engine.tell(Asked("skip", "May a copy be written?"))
            await chat.settle()
            assert isinstance(front(chat.app), ChoiceScreen)
            before = len(chat.engine.sent)
            type_ahead(chat.app, *keys)
            await chat.settle()
            assert front(chat.app) is chat.app.chat_screen
            assert len([each for each in chat.engine.sent[before:] if isinstance(each, SetProposer)]) == 1

    run(body)


def test_a_dialogue_that_is_behind_another_closes_neither(tmp_path: Path) -> None:
    """Lost otherwise: the engine's question, closed unseen by a key that was meant for the list of drafts."""

    async def body() -> None:
        async with chatting(tmp_path) as chat:
            type_ahead(chat.app, "f7")
            await chat.settle()
            drafts = front(chat.app)
            assert isinstance(drafts, DraftScreen)
            chat.engine.tell(Asked("skip", "May a copy be written?"))
            await chat.settle()
            drafts.dismiss(None)
            await chat.settle()
            assert isinstance(front(chat.app), ChoiceScreen)
            await chat.press("escape", "escape")
            assert front(chat.app) is chat.app.chat_screen

    run(body)


def test_an_attachment_is_removed_once(tmp_path: Path) -> None:
    async def body() -> None:
        async with chatting(tmp_path) as chat:
            chat.app.post_message(Paste("word " * 2000))
            await chat.settle()
            assert chat.app.prompt.draft.documents
            await chat.press("up")
            type_ahead(chat.app, "delete", "delete", "enter", "left")
            await chat.settle()
            assert not chat.app.prompt.draft.documents

    run(body)


def test_the_palette_runs_one_command_and_takes_no_key_afterwards(tmp_path: Path) -> None:
    async def body() -> None:
        async with chatting(tmp_path) as chat:
            type_ahead(chat.app, "ctrl+p", "pagedown", "up")
            await chat.settle()
            assert isinstance(front(chat.app), ActionPalette)
            await chat.until(lambda: "/explain" in chat.text)
            type_ahead(chat.app, "enter", "enter", "escape", "x", "y")
            await chat.settle()
            assert not isinstance(front(chat.app), ActionPalette)

    run(body)


@pytest.mark.parametrize("opening", ["f5", "shift+f5", "f7", "f8", "f9", "ctrl+p", "ctrl+o", "ctrl+t"])
def test_the_chat_can_be_left_in_the_middle_of_anything(tmp_path: Path, opening: str) -> None:
    """Lost otherwise: the exit code, and a traceback as the last thing that is seen of the chat."""

    async def body() -> None:
        engine = ScriptedEngine()
        async with running(tmp_path, engine, NARROW) as app:
            engine.tell(LOADED)
            type_ahead(app, "h", "i", "enter")
            while not any(isinstance(command, Generate) for command in engine.sent):
                await asyncio.sleep(0.005)
            engine.reply("Hi.")
            for _ in range(5):
                await asyncio.sleep(0)
            type_ahead(app, opening)
            for _ in range(3):
                await asyncio.sleep(0)
            engine.tell(Asked("skip", "May a copy be written?"))
            app.exit()
            type_ahead(app, opening, "escape", "1")
            app.post_message(Paste("word " * 2000))

    run(body)


@pytest.mark.parametrize("seed", range(6))
def test_no_order_of_keys_ends_the_chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    # Exports and pictures go into the folder that one is in.
    monkeypatch.chdir(tmp_path)
    dice = random.Random(seed)

    async def body() -> None:
        async with running(tmp_path, Answering(dice), dice.choice(SIZES[:2])) as app:
            for _ in range(50):
                kind = dice.random()
                if kind < 0.3:
                    type_ahead(app, dice.choice(KEYS))
                elif kind < 0.75:
                    type_ahead(app, dice.choice([*OTHERS, *OFTEN * 5]))
                elif kind < 0.85:
                    type_ahead(app, "h", "i", "enter")
                elif kind < 0.95:
                    app.post_message(Paste("word " * dice.choice((3, 1000))))
                else:
                    size = Size(*dice.choice(SIZES))
                    app.post_message(Resize(size, size))
                if dice.random() < 0.3:
                    await asyncio.sleep(dice.choice((0, 0, 0.002, 0.02, 0.1)))
            app.exit()
            type_ahead(app, dice.choice(KEYS), dice.choice(OTHERS))

    run(body)
