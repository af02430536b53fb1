"""The chat on this terminal with one question, which writes down how fast the reply was."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from app.chat.conversation import Question
from app.process.client import EngineClient
from app.process.messages import Done, Event, Loaded, Steps
from app.settings.values import LoadSettings, SamplingSettings, Settings, SpeculationSettings
from app.tui.app import SpecchatApp
from app.tui.options import ChatOptions
from app.tui.terminal_input import teach_input


class TimedClient(EngineClient):
    """The engine's client, with a clock on its events."""

    def __init__(self, loaded: Callable[[], None], done: Callable[[dict[str, float]], None]) -> None:
        super().__init__()
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

        super().start(timed)


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
    app = SpecchatApp(options, TimedClient(ask, note))
    app.run()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], Path(sys.argv[5]))
