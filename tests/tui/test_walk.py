"""A random walk through the chat over the real engine: keys in bursts, commands, and deaths in between.

After each step the chat is not locked, shows what the engine does, has lost nothing that was typed, and has
changed no stored chat but its own. `pytest tests/tui/test_walk.py --steps 100000` walks further.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from app.chat.conversation import Question
from app.chat.store import Store
from app.config.values import LoadSettings, SamplingSettings, Settings
from app.process.client import EngineClient
from app.process.commands import SetDraft, SetProposer
from app.process.events import Crashed, Event
from app.session import state
from app.tui.app import SpecchatApp
from app.tui.options import ChatOptions
from tests.tiny import write_tiny
from tests.tui.chatting import NARROW, WIDE, type_ahead

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no signals there")

Job = tuple[Coroutine[Any, Any, None], asyncio.Future[None]]
STEPS_OF_ONE_WALK = 50
# So that several cores share the way.
PARTS = 4
# What acts on the chat, or opens what acts on it. Keys that write into a text, or take text out of it, are
# left to the words that are typed.
KEYS = (
    *("escape", "escape", "escape", "enter", "up", "down", "tab", "pageup", "pagedown"),
    *(f"f{number}" for number in range(1, 10)),
    *(f"ctrl+{key}" for key in ("n", "r", "t", "l", "p", "up", "down")),
    *("alt+p", "alt+n"),
)


class Walk(RuleBasedStateMachine):
    """One chat, its engine's process, and what was typed into it."""

    models: tuple[Path, Path, Path]

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        home = Path(self.folder.name)
        self.client = EngineClient()
        target = LoadSettings(
            name=str(self.models[0]), threads=1, draft_folders=(str(self.models[0].parent),)
        )
        chosen = Settings(model=target, sampling=SamplingSettings(max_tokens=12))
        self.app = SpecchatApp(ChatOptions(chosen, None, (), (), home / "settings.toml", home), self.client)
        self.deaths: list[Crashed] = []
        self.app.chat.handle = self.noting_deaths(self.app.chat.handle)  # type: ignore[assignment, method-assign]
        self.file = home / "sessions.db"
        self.stored: dict[str | None, str] = {}
        # The chats that were on the screen since the stored ones were looked at.
        self.meant: set[str | None] = set()
        self.words: list[str] = []
        self.loop = asyncio.new_event_loop()
        self.jobs: asyncio.Queue[tuple[Coroutine[Any, Any, None], asyncio.Future[None]] | None] = (
            asyncio.Queue()
        )
        self.living = self.loop.create_task(self.live())
        self.run(self.until(lambda: self.client.process_id is not None, "it does not start"))

    def noting_deaths(self, handle: Callable[[Event], None]) -> Callable[[Event], None]:
        def noted(event: Event) -> None:
            self.deaths += [event] if isinstance(event, Crashed) else []
            handle(event)

        return noted

    async def live(self) -> None:
        """The app, and in the same task all that is done to it between two steps of the loop."""
        async with self.app.run_test(size=WIDE) as self.pilot:
            while (job := await self.jobs.get()) is not None:
                coroutine, done = job
                try:
                    await coroutine
                    done.set_result(None)
                except BaseException as error:
                    done.set_exception(error)

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        done = self.loop.create_future()
        self.jobs.put_nowait((coroutine, done))
        self.loop.run_until_complete(asyncio.wait([done, self.living], return_when=asyncio.FIRST_COMPLETED))
        if not done.done():
            # The app has ended.
            self.living.result()
        done.result()

    async def until(self, condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
        for _ in range(int(seconds / 0.01)):
            await self.pilot.pause()
            if condition():
                return
            await asyncio.sleep(0.01)
        chat = self.app.chat
        raise AssertionError(
            f"locked: {what}, {chat.state}, {self.app.screen}, draft {self.app.prompt.draft}, queued "
            f"{chat.queued}, last {chat.conversation.last}, deaths {self.deaths}"
        )

    async def settle(self) -> None:
        for _ in range(2):
            await self.pilot.pause()

    # Steps --------------------------------------------------------------------------------------

    @rule(keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=6))
    def press(self, keys: list[str]) -> None:
        async def step() -> None:
            type_ahead(self.app, *keys)
            await self.settle()

        self.run(step())

    @rule(count=st.integers(1, 3), after=st.lists(st.sampled_from(KEYS), max_size=2))
    def ask(self, count: int, after: list[str]) -> None:
        """Several questions in one burst."""

        async def step() -> None:
            await self.to_the_chat()
            keys: list[str] = []
            for _ in range(count):
                self.words.append(f"word{len(self.words)}x")
                keys += [*self.words[-1], "enter"]
            type_ahead(self.app, *keys, *after)
            await self.settle()

        self.run(step())

    @rule(size=st.sampled_from([WIDE, NARROW, (120, 40), (48, 14)]))
    def resize(self, size: tuple[int, int]) -> None:
        self.run(self.pilot.resize_terminal(*size))

    @rule()
    def kill(self) -> None:
        """The engine is killed from outside."""
        self.tell(self.client.process_id, signal.SIGKILL)
        self.run(self.settle())

    @rule(keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=6))
    def press_while_the_engine_answers_nothing(self, keys: list[str]) -> None:
        process = self.client.process_id
        self.tell(process, signal.SIGSTOP)
        try:
            self.press(keys)
        finally:
            # Left frozen, it would hide what has failed behind a chat that gets no answer.
            self.tell(process, signal.SIGCONT)

    def tell(self, process: int | None, number: signal.Signals) -> None:
        """Send a signal to a process that may have ended by now."""
        if process:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)

    @rule(which=st.integers(0, 3))
    def load(self, which: int) -> None:
        """Another model is chosen; one of them is not there."""
        paths = [*map(str, self.models), "/nowhere/missing.gguf"]

        async def step() -> None:
            self.app.use_model(paths[which], None)
            await self.settle()

        self.run(step())

    @rule(which=st.integers(0, 2))
    def draft(self, which: int) -> None:
        """A draft is chosen, one that is there, one that is not, or none."""
        paths = [str(self.models[1]), "/nowhere/missing.gguf", None]

        async def step() -> None:
            self.app.chat.speculation.set_draft(paths[which])
            await self.settle()

        self.run(step())

    @rule(length=st.sampled_from([256, 512]))
    def settings(self, length: int) -> None:
        """A setting changes that the model is loaded again for."""

        async def step() -> None:
            now = self.app.settings
            self.app.apply(replace(now, model=replace(now.model, context_length=length)))
            await self.settle()

        self.run(step())

    @rule(seconds=st.sampled_from([0.0, 0.05, 0.3]))
    def wait(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))
        self.run(self.settle())

    @rule()
    def finish(self) -> None:
        """What is being done ends by itself; what was asked is where it belongs, no other chat changed."""

        async def step() -> None:
            await self.until(self.idle, "it does not end")
            await asyncio.wrap_future(self.app.autosave.ask(lambda store: None))
            self.meant.add(self.app.autosave.identity)

        self.run(step())
        before, self.stored = self.stored, self.chats()
        changed = {each for each in before if before[each] != self.stored.get(each)}
        assert changed <= self.meant, (changed, self.meant)
        self.meant = {self.app.autosave.identity}
        prompt, chat = self.app.prompt, self.app.chat
        here = f"{self.stored} {chat.queued} {chat.conversation} {prompt.draft} {prompt._draft._aside}"
        assert [word for word in self.words if word not in here] == []

    def chats(self) -> dict[str | None, str]:
        """Every stored chat, as another program reads it."""
        store = Store(self.file)
        try:
            return {each.identity: repr(store.load(each.identity).conversation) for each in store.summaries()}
        finally:
            store.close()

    # What holds ---------------------------------------------------------------------------------

    def idle(self) -> bool:
        return isinstance(self.app.chat.state, (state.Ready, state.Stopped))

    async def to_the_chat(self) -> None:
        for _ in range(8):
            if self.app.screen is self.app.chat_screen:
                break
            type_ahead(self.app, "escape")
            await self.settle()
        assert self.app.screen is self.app.chat_screen, self.app.screen
        self.app.prompt.focus_editor()
        await self.settle()

    @invariant()
    def an_engine_dies_by_nothing_but_this_walk(self) -> None:
        """Else: a fault in the engine's process, which its restart would hide."""
        assert [death for death in self.deaths if "SIGKILL" not in death.reason] == []

    @invariant()
    def a_state_waits_only_for_what_will_end(self) -> None:
        """Else: a chat that is locked."""
        current = self.app.chat.state
        if isinstance(current, (state.LoadingModel, state.Replying, state.ComparingReplies)):
            assert current.identity in self.app.chat._commands.open, current

    @invariant()
    def the_screen_shows_what_is_done(self) -> None:
        chat = self.app.chat
        assert self.app.prompt._busy == chat.making
        without = isinstance(chat.state, (state.LoadingModel, state.Stopped))
        assert (chat.loaded is None) == without
        if without or not any(
            isinstance(each, (SetDraft, SetProposer)) for each in chat._commands.open.values()
        ):
            name = {state.LoadingModel: "loading", state.Stopped: "stopped"}.get(type(chat.state), "ready")
            assert chat.engine.name == name, (chat.state, chat.engine)

    @invariant()
    def what_is_on_the_screen_may_change(self) -> None:
        self.meant.add(self.app.autosave.identity)

    def teardown(self) -> None:
        try:
            self.run(self.answers())
        finally:
            self.jobs.put_nowait(None)
            self.loop.run_until_complete(self.living)
            self.loop.close()
            self.folder.cleanup()

    async def answers(self) -> None:
        """Whatever happened: with a model that is there, a question is answered, stored and shown."""
        await self.until(self.idle, "it does not end")
        await self.to_the_chat()
        self.app.use_model(str(self.models[0]), None)
        type_ahead(self.app, "ctrl+n")
        await self.until(lambda: isinstance(self.app.chat.state, state.Ready), "it does not load")
        await self.to_the_chat()
        self.app.prompt.take_back((Question("Are you there?"),))
        type_ahead(self.app, "enter")

        def answered() -> bool:
            last = self.app.chat.conversation.last
            return last is not None and last.answer is not None and self.idle()

        await self.until(answered, "no answer")
        assert self.app.autosave.identity is not None


@pytest.mark.parametrize("part", range(PARTS))
def test_walk(part: int, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> None:
    folder = tmp_path_factory.mktemp("models")
    Walk.models = (
        write_tiny(folder / "one.gguf", end_scale=0.0),
        write_tiny(folder / "two.gguf", end_scale=0.0, noise=0.1),
        write_tiny(folder / "three.gguf", end_scale=0.0, vocabulary=700),
    )
    steps: int = request.config.getoption("--steps")
    walks = max(1, steps // STEPS_OF_ONE_WALK // PARTS)
    run_state_machine_as_test(
        Walk,
        settings=settings(
            max_examples=walks,
            stateful_step_count=STEPS_OF_ONE_WALK,
            deadline=None,
            # A walk that fails is told whole: to walk it again and again would take an hour.
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
