"""Why speculation is fast: sliders, simulated rounds, and the speedup that theory expects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Footer, Static

from app.tui.dialogs.dialogue import Dialogue
from app.tui.dialogs.lines import Picture
from app.tui.explore.drawing import BEST, NOW, PLAIN_LINE, chart, closing_in, legend, rounds
from app.tui.explore.fields import LabelledField, NameField, Slider
from app.tui.explore.scenarios import LONGEST, Curve, Situation, measured_curve, start_from
from app.tui.explore.simulation import ENOUGH, Simulation
from app.tui.explore.words import SPEEDUP, TOKENS, arithmetic, sentence, speedup_line, tokens_line, width_note
from app.tui.textual_private import rename_binding
from app.tui.theme import grey

# Steps a second of the rounds that run. Once a step plays more rounds than an eye can follow, figures are
# redrawn at every second step and cells at every fourth: a model may want the CPU.
_RATE = 8
_FOLLOWED = 2
_EMPTY = "Space lets rounds run, n plays one."
# Pictures that change with each round.
_PLAYED = ("rounds", "figures", "closing")
# Columns of a figure's name.
_NAME = 13


class ExploreScreen(Dialogue[None]):
    """Sliders for what makes speculation fast or slow, beside what theory and simulation make of it.

    alpha: odds of acceptance. k: draft length. measured: seconds of a pass by width, on this machine.
    draft_cost: what it takes to draft one token, in plain passes. Those that are given are called `name`;
    they are chosen at first, and again with a key. curves: more to choose from, before the examples.
    proposer: whose colour drafted tokens have; by the draft cost if None. running: rounds run at once.
    """

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text("utf-8")
    HORIZONTAL_BREAKPOINTS = [(0, "-slim"), (78, "-narrow"), (124, "-wide")]  # noqa: RUF012 - Textual's
    VERTICAL_BREAKPOINTS = [(0, "-low"), (36, "-tall")]  # noqa: RUF012 - Textual's
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "run", "run/pause"),
        Binding("n", "one", "one"),
        Binding("r", "restart", "again"),
        Binding("m", "given", "measured"),
        Binding("escape", "dismiss", "close"),
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
        self._start = start_from(alpha, k, draft_cost, first, proposer, name)
        self._now = self._start.situation
        rename_binding(self, "m", name.removesuffix(" here"))
        self._runs = running
        self._seed = self._steps = 0
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
        with VerticalScroll(id="dialog", can_focus=False) as dialog:
            dialog.border_title = "Why speculation is fast"
            with Vertical(id="fields"):
                yield from self._fields()
            with Horizontal(id="pictures"):
                with Vertical(id="over-k"):
                    marks = f"speedup over k   {BEST} best  {NOW} now  {PLAIN_LINE} plain"
                    yield Static(marks, classes="heading", markup=False)
                    yield Picture(self._draw_chart, id="chart")
                with Vertical(id="played"):
                    yield Picture(lambda _width, _height, theme: legend(self._now.origin, theme), id="legend")
                    yield Picture(self._draw_rounds, id="rounds")
            with Vertical(id="told"):
                yield Picture(self._draw_sums, id="sums", classes="tall")
                yield Picture(self._draw_closing, id="closing", classes="tall")
                yield Picture(self._draw_figures, id="figures")
                yield Static(id="sentence", markup=False)
            yield Footer(show_command_palette=False)

    def _fields(self) -> Iterable[LabelledField]:
        now, start = self._now, self._start
        alpha, cost = round(100 * now.alpha), round(100 * now.draft_cost)
        yield NameField("proposer", [each.name for each in start.presets], 0, "proposer", "your own")
        yield Slider("acceptance", 100, alpha, _hundredth, "odds that a drafted token stays", "alpha")
        yield Slider("k", LONGEST, now.k, str, "tokens drafted for each pass", "k")
        yield Slider("draft cost", 100, cost, _hundredth, "plain passes per drafted token", "cost")
        names = [each.name for each in start.curves]
        yield NameField("cost curve", names, start.curves.index(now.curve), "curve")

    def opened(self) -> None:
        self.set_interval(1 / _RATE, self._step)
        self.query_one("#alpha").focus()
        self._show()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There must be something to go back to."""
        return self._start.given if action == "given" else super().check_action(action, parameters)

    def action_run(self) -> None:
        """Let the rounds run, or pause them."""
        self._runs = not self._runs
        self._redraw(*_PLAYED)

    def action_one(self) -> None:
        """Play one round, and pause."""
        self._runs = False
        self._simulation.play(1)
        self._redraw(*_PLAYED)

    def action_restart(self) -> None:
        """Begin again with other dice."""
        self._seed += 1
        self._simulation = Simulation(self._now.alpha, self._now.k, self._seed)
        self._redraw(*_PLAYED)

    def action_given(self) -> None:
        """Back to what was given."""
        first = self._start.situation
        self._place("#proposer", 0)
        self._place("#k", first.k)
        self._place("#curve", self._start.curves.index(first.curve))
        self._take(first)

    @on(LabelledField.Changed)
    def _changed(self, message: LabelledField.Changed) -> None:
        now, name, position = self._now, message.field.id, message.field.position
        if name == "proposer":
            preset = self._start.presets[position]
            now = replace(now, alpha=preset.alpha, draft_cost=preset.draft_cost, origin=preset.origin)
        elif name == "curve":
            now = replace(now, curve=self._start.curves[position])
        elif name == "k":
            now = replace(now, k=position)
        else:
            self._place("#proposer", -1)
            share = position / 100
            now = replace(now, alpha=share) if name == "alpha" else replace(now, draft_cost=share)
        self._take(now)

    def _take(self, now: Situation) -> None:
        """Explore this from now on; rounds stay where only their cost has changed."""
        before, self._now = self._now, now
        self._place("#alpha", round(100 * now.alpha))
        self._place("#cost", round(100 * now.draft_cost))
        if (before.alpha, before.k) != (now.alpha, now.k):
            self._simulation = Simulation(now.alpha, now.k, self._seed)
        self._show()

    def _place(self, selector: str, position: int) -> None:
        self.query_one(selector, LabelledField).position = position

    def _step(self) -> None:
        batch = self._simulation.batch
        if self._runs and self.stands and self.is_current and batch:
            self._simulation.play(batch)
            self._steps += 1
            each_round = batch <= _FOLLOWED or not self._simulation.batch
            if each_round or self._steps % 4 == 0:
                self._redraw("rounds")
            if each_round or self._steps % 2 == 0:
                self._redraw("figures", "closing")

    def _show(self) -> None:
        proposer = self.query_one("#proposer", LabelledField)
        proposer.note = "" if proposer.position < 0 else self._start.presets[proposer.position].note
        self.query_one("#curve", LabelledField).note = width_note(self._now)
        self.query_one("#sentence", Static).update(sentence(self._now))
        self._redraw("chart", "legend", "sums", *_PLAYED)

    def _redraw(self, *names: str) -> None:
        """Draw these pictures again, and say on the frame whether rounds run."""
        for name in names:
            self.query_one(f"#{name}").refresh()
        running = "rounds run" if self._runs else "paused"
        said = running if self._simulation.batch else f"{ENOUGH:,} rounds are enough"
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


def _hundredth(position: int) -> str:
    return f"{position / 100:.2f}"
