"""README's picture: the chat with a real model's reply to the first question that it offers, as an SVG."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args

from textual.pilot import Pilot

from app.arguments import Parser
from app.config.values import LoadSettings, LookSettings, Marked, Settings, ThemeName
from app.errors import SpecchatError
from app.models.locate import find_model
from app.process.client import EngineClient
from app.tui.app import SpecchatApp
from app.tui.options import ChatOptions
from app.tui.starters.starters import STARTERS, Starters

_PATIENCE = 300.0


def take(model: Path, size: tuple[int, int], look: LookSettings) -> str:
    """The screen after the reply, as SVG."""
    settings = Settings(model=LoadSettings(name=str(model)), look=look)
    first = STARTERS[0]
    pictures: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        app = SpecchatApp(
            ChatOptions(settings, settings_file=place / "settings.toml", folder=place), EngineClient()
        )

        async def play(pilot: Pilot[object]) -> None:
            await _until(lambda: app.chat.loaded is not None)
            app.post_message(Starters.Chosen(first.question, first.copies))
            await _until(lambda: bool(app.chat.conversation.exchanges) and not app.chat.busy)
            await pilot.pause(0.3)
            pictures.append(app.export_screenshot(title="specchat"))
            app.exit()

        app.run(headless=True, size=size, auto_pilot=play)
    if not pictures:
        raise SpecchatError("The chat ended before the reply: run specchat with this model to see why.")
    return pictures[0]


async def _until(condition: Callable[[], bool]) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _PATIENCE
    while not condition():
        if loop.time() > deadline:
            raise SpecchatError("The model took too long: choose a smaller one for the picture.")
        await asyncio.sleep(0.05)


def main(arguments: Sequence[str]) -> int:
    """Write the picture."""
    parser = Parser(prog="specchat bench picture", description=__doc__)
    parser.add_argument("output", type=Path, help="the .svg to write")
    parser.add_argument("--model", help="a .gguf (default: the bundled model)")
    parser.add_argument("--columns", type=int, default=120)
    parser.add_argument("--rows", type=int, default=44)
    parser.add_argument("--theme", choices=get_args(ThemeName), default="dark")
    parser.add_argument("--drafts", choices=get_args(Marked), default="accepted", help="which are marked")
    options = parser.parse_args(arguments)
    size = (options.columns, options.rows)
    look = LookSettings(theme=options.theme, drafts=options.drafts)
    model = find_model(options.model)
    picture = take(model, size, look)
    options.output.write_text(picture, encoding="utf-8")
    print(f"Written: {options.output}")
    return 0
