"""The whole screen over a scripted engine, and ways to look at it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from app.process.messages import Loaded
from app.settings.values import Settings
from app.tui.app import SpecchatApp
from app.tui.options import ChatOptions
from tests.tui.engine import LOADED, ScriptedEngine

WIDE, NARROW = (160, 50), (80, 24)


@dataclass(frozen=True, slots=True)
class Chatting:
    """A chat that runs without a terminal."""

    app: SpecchatApp
    engine: ScriptedEngine
    pilot: Pilot[None]

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def type(self, text: str) -> None:
        """Type into what has the focus."""
        await self.press(*("space" if letter == " " else letter for letter in text))

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

    async def until(self, condition: Callable[[], bool], seconds: float = 4.0) -> None:
        """Wait for it, not for ever."""
        for _ in range(int(seconds / 0.02)):
            if condition():
                return
            await asyncio.sleep(0.02)
            await self.pilot.pause()
        raise AssertionError("that never came")

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
