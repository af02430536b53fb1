"""`specchat explore`: the exploring screen on its own, without a model."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType

from app.arguments import Parser, whole
from app.config.file import read_settings, settings_path
from app.errors import UsageError
from app.tui.explore.scenarios import LONGEST, read_curves
from app.tui.explore.screen import ExploreScreen
from app.tui.keys import footer_key
from app.tui.theme import THEMES


class ExploreApp(App[None]):
    """Shows the one screen, and ends with it. theme: the settings' name of one of ours."""

    TITLE = "specchat explore"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "quit", show=False, priority=True)]

    def __init__(self, screen: ExploreScreen, theme: str) -> None:
        super().__init__()
        for each in THEMES.values():
            self.register_theme(each)
        # The screen's styles name variables that only these themes have.
        self.theme = THEMES[theme].name
        self._only = screen

    def get_key_display(self, binding: Binding) -> str:
        return footer_key(binding)

    async def on_mount(self) -> None:
        # Keys come only when it stands.
        await self.push_screen(self._only, lambda _: self.exit())


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code. Raises SpecchatError before the screen is taken."""
    parser = Parser(
        prog="specchat explore",
        description="Shows when speculation is fast, with sliders and simulated rounds.",
    )
    add = parser.add_argument
    add("--alpha", type=_share, metavar="A", help="odds that a drafted token is accepted, 0 to 1")
    add("--k", type=whole(0, LONGEST), metavar="K", help=f"tokens drafted for each pass, 0 to {LONGEST}")
    add("--draft-cost", type=_share, metavar="C", help="plain passes that one drafted token takes, 0 to 1")
    add("--curve", type=Path, metavar="FILE.json", help="cost curves: times of a pass by width, by name")
    options = parser.parse_args(arguments)
    curves = read_curves(options.curve) if options.curve else ()
    theme = read_settings(settings_path()).look.theme
    # The screen is drawn on standard error, as Textual does, so that it must be a terminal too.
    if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
        raise UsageError("Exploring needs a terminal: run it in one, without a pipe.")
    screen = ExploreScreen(options.alpha, options.k, None, options.draft_cost, curves=curves, name="as given")
    app = ExploreApp(screen, theme)
    app.run()
    return app.return_code or 0


def _share(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not isfinite(number) or not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return number
