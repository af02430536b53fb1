"""The chat as it is, on the terminal it is run on, asked one thing: writes down how long the reply took."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from app.chat.conversation import Question
from app.config.values import LoadSettings, SamplingSettings, Settings, SpeculationSettings
from app.process.client import EngineClient
from app.process.commands import Command
from app.process.events import Done, Event, Loaded, Steps
from app.tui.app import SpecchatApp
from app.tui.options import ChatOptions
from app.tui.terminal_input import teach_input


class Timed:
    """The engine's client, with a clock on its events."""

    def __init__(self, loaded: Callable[[], None], done: Callable[[dict[str, float]], None]) -> None:
        self._client = EngineClient()
        self._loaded, self._done = loaded, done
        self._first: float | None = None

    def start(self, deliver: Callable[[Event], None]) -> None:
        def timed(event: Event) -> None:
            deliver(event)
            if isinstance(event, Loaded):
                self._loaded()
            elif isinstance(event, Steps) and self._first is None:
                # What the first batch holds was not timed.
                self._first = time.monotonic()
                self._untimed = sum(len(step.entry.tokens) for step in event.steps)
            elif isinstance(event, Done):
                seconds = time.monotonic() - (self._first or time.monotonic())
                tokens = len(event.finished.token_ids) - self._untimed
                shown = event.finished.tokens_per_second or 0.0
                self._done({"received": tokens / seconds, "shown": shown})

        self._client.start(timed)

    def send(self, command: Command) -> None:
        self._client.send(command)

    def close(self) -> None:
        self._client.close()


def main(model: str, proposer: str, tokens: int, prompt: str, folder: Path) -> None:
    """Run the chat until the reply is done; its figures are then in folder/result.json."""
    settings = replace(
        Settings(),
        model=LoadSettings(name=model),
        sampling=SamplingSettings(temperature=0.0, seed=1, max_tokens=tokens),
        speculation=SpeculationSettings(proposer=proposer),
    )
    options = ChatOptions(settings, settings_file=folder / "settings.toml", folder=folder)

    def ask() -> None:
        app.call_from_thread(app.chat.send, Question(prompt))

    def note(figures: dict[str, float]) -> None:
        (folder / "result.json").write_text(json.dumps(figures), encoding="utf-8")
        app.call_from_thread(app.exit)

    teach_input()
    app = SpecchatApp(options, Timed(ask, note))
    app.run()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], Path(sys.argv[5]))
