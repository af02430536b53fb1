"""Why speculation is fast: sliders, rounds played with dice, and the speedup that theory expects of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widget import Widget
from textual.widgets import Footer, Static

from app.tui.dialogs.dialogue import Dialogue
from app.tui.explore.drawing import BEST, NOW, PLAIN_LINE, chart, closing_in, grey, legend, rounds
from app.tui.explore.scenarios import LONGEST, PRESETS, Curve, Situation, given, measured_curve
from app.tui.explore.simulation import ENOUGH, Simulation
from app.tui.explore.slider import Choice, Line, Slider
from app.tui.explore.words import SPEEDUP, TOKENS, arithmetic, sentence, speedup_line, tokens_line, width_note
from app.tui.textual_private import rename_binding

# Steps a second of the rounds that run. Once a step plays more rounds than can be followed, figures are
# redrawn at every second step and cells at every fourth: no eye sees more, and a model may want the CPU.
_RATE = 8
_FOLLOWED = 2
_EMPTY = "Space lets rounds run, n plays one."
_OWN = "your own"
# Columns of a figure's name.
_NAME = 13


class Picture(Widget):
    """What `draw` makes of the width and height there is, and the settings' name of the theme."""

    ALLOW_SELECT = False

    def __init__(self, draw: Callable[[int, int, str], Text], id: str, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._draw = draw

    def render(self) -> Text:
        width, height = self.content_size
        return self._draw(width, height, self.app.theme.removeprefix("specchat-"))


class ExploreScreen(Dialogue[None]):
    """Sliders for what makes speculation fast or slow, and what theory and dice say of it. Esc closes it.

    alpha: odds of acceptance. k: draft length. measured: seconds of a pass by width, on this machine.
    draft_cost: what it takes to draft one token, in plain passes. What of these is given is named
    `name`, is chosen at first, and again with a key. curves: more to choose from, before the examples.
    proposer: whose colour drafted tokens have; by the draft cost if None. running: rounds begin to run.
    """

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text("utf-8")
    HORIZONTAL_BREAKPOINTS = [(0, "-slim"), (78, "-narrow"), (124, "-wide")]  # noqa: RUF012 - Textual's
    VERTICAL_BREAKPOINTS = [(0, "-low"), (36, "-tall")]  # noqa: RUF012 - Textual's
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "run", "run/pause", key_display="Space"),
        Binding("n", "one", "one"),
        Binding("r", "restart", "again"),
        Binding("m", "given", "measured"),
        Binding("escape", "dismiss", "close", key_display="Esc"),
    ]

    def __init__(
        self,
        alpha: float | None = None,
        k: int | None = None,
        measured: Mapping[int, float] | None = None,
        draft_cost: float | None = None,
        *,
        curves: Sequence[Curve] = (),
        proposer: str | None = None,
        name: str = "measured here",
        running: bool = True,
    ) -> None:
        super().__init__()
        first = (*measured_curve(measured, name), *curves)
        self._given = given(alpha, k, draft_cost, first, proposer, name)
        own = () if self._given.preset in PRESETS else (self._given.preset,)
        self._presets = (*own, *PRESETS)
        rename_binding(self, "m", name.removesuffix(" here"))
        self._runs = running
        self._seed = self._steps = 0
        self._now = self._beginning()
        self._simulation = Simulation(self._now.alpha, self._now.k, self._seed)

    @property
    def now(self) -> Situation:
        """What is chosen."""
        return self._now

    @property
    def simulation(self) -> Simulation:
        """The rounds played since α or k was last changed."""
        return self._simulation

    def compose(self) -> ComposeResult:
        now, curves = self._now, self._given.curves
        with VerticalScroll(id="dialog", can_focus=False) as dialog:
            dialog.border_title = "Why speculation is fast"
            with Vertical(id="fields"):
                yield Choice("proposer", [each.name for each in self._presets], 0, _OWN, id="proposer")
                yield Slider(
                    "acceptance",
                    100,
                    _hundredths(now.alpha),
                    _said,
                    "odds that a drafted token stays",
                    "alpha",
                )
                yield Slider("k", LONGEST, now.k, str, "tokens drafted for each pass", id="k")
                yield Slider(
                    "draft cost",
                    100,
                    _hundredths(now.draft_cost),
                    _said,
                    "plain passes per drafted token",
                    "cost",
                )
                yield Choice("cost curve", [each.name for each in curves], self._given.curve, id="curve")
            with Horizontal(id="pictures"):
                with Vertical(id="over-k"):
                    yield Static(
                        f"speedup over k   {BEST} best  {NOW} now  {PLAIN_LINE} plain",
                        classes="heading",
                        markup=False,
                    )
                    yield Picture(self._draw_chart, id="chart")
                with Vertical(id="played"):
                    yield Picture(lambda _width, _height, theme: legend(self._now.origin, theme), id="legend")
                    yield Picture(self._draw_rounds, id="rounds")
            with Vertical(id="said"):
                yield Picture(self._draw_sums, id="sums", classes="tall")
                yield Picture(self._draw_closing, id="closing", classes="tall")
                yield Picture(self._draw_figures, id="figures")
                yield Static(id="sentence", markup=False)
            yield Footer(show_command_palette=False)

    def opened(self) -> None:
        self.set_interval(1 / _RATE, self._step)
        self.query_one("#alpha").focus()
        self._show()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There must be something to go back to."""
        return self._given.some if action == "given" else super().check_action(action, parameters)

    def action_run(self) -> None:
        """Let the rounds run, or pause them."""
        self._runs = not self._runs
        self._redraw_rounds()
        self._tell()

    def action_one(self) -> None:
        """Play one round, and pause."""
        self._runs = False
        self._simulation.play(1)
        self._redraw_rounds()
        self._tell()

    def action_restart(self) -> None:
        """Begin anew with other dice."""
        self._seed += 1
        self._simulation = Simulation(self._now.alpha, self._now.k, self._seed)
        self._redraw_rounds()
        self._tell()

    def action_given(self) -> None:
        """Back to what was given."""
        beginning = self._beginning()
        self._place("#proposer", 0)
        self._place("#k", beginning.k)
        self._place("#curve", self._given.curve)
        self._take(beginning)

    @on(Line.Changed)
    def _changed(self, message: Line.Changed) -> None:
        now, position = self._now, message.line.position
        if message.line.id == "proposer":
            preset = self._presets[position]
            now = replace(now, alpha=preset.alpha, draft_cost=preset.draft_cost, origin=preset.origin)
        elif message.line.id == "curve":
            now = replace(now, curve=self._given.curves[position])
        elif message.line.id == "k":
            now = replace(now, k=position)
        elif message.line.id == "alpha":
            self._place("#proposer", -1)
            now = replace(now, alpha=position / 100)
        else:
            self._place("#proposer", -1)
            now = replace(now, draft_cost=position / 100)
        self._take(now)

    def _take(self, now: Situation) -> None:
        """Explore this from now on; rounds stay where only their cost has changed."""
        before, self._now = self._now, now
        self._place("#alpha", _hundredths(now.alpha))
        self._place("#cost", _hundredths(now.draft_cost))
        if (before.alpha, before.k) != (now.alpha, now.k):
            self._simulation = Simulation(now.alpha, now.k, self._seed)
        self._show()

    def _beginning(self) -> Situation:
        preset = self._given.preset
        curve = self._given.curves[self._given.curve]
        return Situation(preset.alpha, self._given.k, preset.draft_cost, curve, preset.origin)

    def _place(self, selector: str, position: int) -> None:
        self.query_one(selector, Line).position = position

    def _step(self) -> None:
        if self._runs and self.stands and self.is_current and self._simulation.pace:
            pace = self._simulation.pace
            self._simulation.play(pace)
            self._steps += 1
            over = not self._simulation.pace
            if over or pace <= _FOLLOWED or self._steps % 4 == 0:
                self.query_one("#rounds").refresh()
            if over or pace <= _FOLLOWED or self._steps % 2 == 0:
                self._redraw_figures()
            if over:
                self._tell()

    def _show(self) -> None:
        proposer = self.query_one("#proposer", Line)
        proposer.note = "" if proposer.position < 0 else self._presets[proposer.position].note
        self.query_one("#curve", Line).note = width_note(self._now)
        self.query_one("#sentence", Static).update(sentence(self._now))
        for name in ("#chart", "#legend", "#sums"):
            self.query_one(name).refresh()
        self._redraw_rounds()
        self._tell()

    def _redraw_rounds(self) -> None:
        self.query_one("#rounds").refresh()
        self._redraw_figures()

    def _redraw_figures(self) -> None:
        for name in ("#figures", "#closing"):
            self.query_one(name).refresh()

    def _tell(self) -> None:
        """Whether rounds run, on the frame."""
        enough = not self._simulation.pace
        said = f"{ENOUGH:,} rounds are enough" if enough else "rounds run" if self._runs else "paused"
        self.query_one("#dialog").border_subtitle = said

    def _draw_chart(self, width: int, height: int, theme: str) -> Text:
        now = self._now
        return chart(now.speedups, now.k, now.best, width, height, now.origin, theme)

    def _draw_rounds(self, width: int, height: int, theme: str) -> Text:
        played = tuple(self._simulation.recent)
        if not played:
            return Text(_EMPTY, grey("muted", theme))
        return rounds(played, self._now.k, width, height, self._now.origin, theme)

    def _draw_figures(self, width: int, height: int, theme: str) -> Text:
        simulation, quiet = self._simulation, grey("muted", theme)
        estimate = simulation.tokens_per_pass
        drawn = Text(no_wrap=True).append(TOKENS.ljust(_NAME), quiet)
        drawn.append(tokens_line(self._now, estimate, simulation.rounds) + "\n")
        drawn.append(SPEEDUP.ljust(_NAME), quiet)
        return drawn.append(speedup_line(self._now, estimate))

    def _draw_sums(self, width: int, height: int, theme: str) -> Text:
        lines = (f"{name:{_NAME}}{computed}" for name, computed in arithmetic(self._now))
        return Text("\n".join(lines), grey("muted", theme), no_wrap=True)

    def _draw_closing(self, width: int, height: int, theme: str) -> Text:
        now = self._now
        return closing_in(now.expected, self._simulation.tokens_per_pass, now.k, width, theme)


def _hundredths(value: float) -> int:
    return round(value * 100)


def _said(position: int) -> str:
    return f"{position / 100:.2f}"
