"""The whole screen over a scripted engine, and ways to look at it."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from textual.app import App
from textual.events import Key
from textual.keys import KEY_NAME_REPLACEMENTS
from textual.pilot import Pilot

from app.config.values import Settings
from app.process.events import Loaded
from app.tui.app import SpecchatApp
from app.tui.options import ChatOptions
from tests.tui.engine import LOADED, ScriptedEngine

WIDE, NARROW = (160, 50), (80, 24)
CHARACTERS = {"space": " ", "enter": "\r", "tab": "\t", "escape": "\x1b"}


AnyApp = TypeVar("AnyApp", bound=App[None])


def type_ahead(app: App[None], *keys: str) -> None:
    """Press keys without waiting for what they do, as a terminal does.

    Textual's pilot sleeps 40 ms for each key, which would be a minute of the suite.
    """
    for key in keys:
        if len(key) == 1 and not key.isalnum():
            name = unicodedata.name(key).lower().replace("-", "_").replace(" ", "_")
            app.post_message(Key(KEY_NAME_REPLACEMENTS.get(name, name), key))
        else:
            app.post_message(Key(key, CHARACTERS.get(key, key if len(key) == 1 else None)))


@dataclass(frozen=True, slots=True)
class Chatting:
    """A chat that runs without a terminal."""

    app: SpecchatApp
    engine: ScriptedEngine
    pilot: Pilot[None]

    async def press(self, *keys: str) -> None:
        """Press keys one after the other, as a person does who looks at the screen."""
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def type(self, text: str) -> None:
        """Type into what has the focus."""
        type_ahead(self.app, *text)
        await self.settle()

    async def ask(self, text: str) -> None:
        await self.type(text)
        await self.press("enter")

    async def settle(self) -> None:
        """Let what was told reach the screen."""
        for _ in range(3):
            await self.pilot.pause()

    async def stored(self) -> None:
        """Let what was asked of the store be done, and reach the screen."""
        await asyncio.wrap_future(self.app.autosave.ask(lambda store: None))
        await self.settle()

    async def until(self, condition: Callable[[], bool], seconds: float = 10.0) -> None:
        await until(self.pilot, condition, seconds)

    @property
    def text(self) -> str:
        """What the screen shows, line by line."""
        return "\n".join(strip.text.rstrip() for strip in self.app.screen._compositor.render_strips())


@asynccontextmanager
async def chatting(
    folder: Path,
    settings: Settings | None = None,
    size: tuple[int, int] = WIDE,
    resume: str | None = None,
    loaded: Loaded | None = LOADED,
) -> AsyncIterator[Chatting]:
    """A chat with its files in `folder`; the model is loaded unless `loaded` is None."""
    engine = ScriptedEngine()
    options = ChatOptions(settings or Settings(), resume, (), (), folder / "settings.toml", folder)
    app = SpecchatApp(options, engine)
    async with app.run_test(size=size, notifications=True) as pilot:
        chat = Chatting(app, engine, pilot)
        await chat.until(lambda: engine.starts == 1)
        if loaded is not None:
            engine.tell(loaded)
        await chat.settle()
        yield chat


def run(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run an asynchronous test."""
    asyncio.run(body())


def hosted(
    app: AnyApp, body: Callable[[AnyApp, Pilot[None]], Awaitable[None]], size: tuple[int, int] = NARROW
) -> AnyApp:
    """The app, after `body` has used it without a terminal."""

    async def whole() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await body(app, pilot)
            await pilot.pause()

    asyncio.run(whole())
    return app


async def until(pilot: Pilot[None], condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait for it, not for ever."""
    for _ in range(int(seconds / 0.02)):
        if condition():
            return
        await asyncio.sleep(0.02)
        await pilot.pause()
    raise AssertionError("that never came")
