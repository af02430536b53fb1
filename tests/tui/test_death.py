"""llama.cpp really dies as it loads a model: the chat answers all the same, and says what happened."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

from app.config.values import LoadSettings, SamplingSettings, Settings
from app.process.client import EngineClient
from app.tui.app import SpecchatApp
from app.tui.options import ChatOptions
from tests.dying import dying
from tests.tui.chatting import WIDE, Chatting, run
from tests.tui.engine import ScriptedEngine

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no signals there")


def chat_of(folder: Path, model: Path) -> SpecchatApp:
    """The app over a real engine, with its files in `folder`."""
    settings = Settings(
        model=LoadSettings(name=str(model), threads=1), sampling=SamplingSettings(max_tokens=8)
    )
    options = ChatOptions(settings, None, (), (), folder / "settings.toml", folder)
    return SpecchatApp(options, EngineClient())


def answered(app: SpecchatApp) -> bool:
    last = app.chat.conversation.last
    return last is not None and last.answer is not None and not app.chat.busy


@pytest.mark.parametrize("signal", ["SIGILL", "SIGSEGV"])
def test_a_chat_whose_engine_was_killed_answers(
    signal: str, tiny_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost otherwise: the first hour, on every machine where one kernel of llama.cpp is broken."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", dying(tmp_path, "parameters.flash_attn_type != 0", signal))

    async def body() -> None:
        for first in (True, False):
            app = chat_of(tmp_path, tiny_path)
            async with app.run_test(size=WIDE) as pilot:
                chat = Chatting(app, ScriptedEngine(), pilot)
                await chat.ask("Hello")
                # A trial starts some processes, each of which loads llama.cpp.
                await chat.until(partial(answered, app), seconds=60.0)
                await chat.settle()
                sentence = f"llama.cpp was killed by {signal} as it loaded {tiny_path.name}."
                assert (sentence in chat.text) == first
                assert ("It works without flash attention" in chat.text) == first

    run(body)
