"""Exploring speculation: without these the dice, the chart or the sentence teach what is not so."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from statistics import fmean, stdev

import pytest
from rich.text import Text
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Static

from app.engine.expectation import expected_tokens
from app.errors import SpecchatError, UsageError
from app.tui.dialogs.lines import Picture
from app.tui.explore.drawing import BEST, NOW, chart, closing_in, rounds
from app.tui.explore.fields import LabelledField, NameField, Slider
from app.tui.explore.run import ExploreApp, main
from app.tui.explore.scenarios import CURVES, LONGEST, PRESETS, Curve, Preset, Situation, read_curves
from app.tui.explore.screen import ExploreScreen
from app.tui.explore.simulation import ENOUGH, Estimate, Round, Simulation, play
from app.tui.explore.words import arithmetic, sentence, speedup_line, tokens_line
from app.tui.theme import THEMES, origin_style
from tests.enumeration import law
from tests.tui.chatting import hosted

MEASURED = {1: 0.005, 2: 0.009, 4: 0.012, 8: 0.0186, 12: 0.0255, 17: 0.031}
CPU = Curve("CPU", MEASURED)
IDEAL = CURVES[0]


class Host(App[None]):
    def __init__(self, screen: ExploreScreen, theme: str = "dark") -> None:
        super().__init__()
        for each in THEMES.values():
            self.register_theme(each)
        self.theme = THEMES[theme].name
        self._screen = screen

    def on_mount(self) -> None:
        self.push_screen(self._screen)


def run(
    screen: ExploreScreen,
    body: Callable[[Pilot[None]], Awaitable[None]],
    size: tuple[int, int] = (80, 24),
    theme: str = "dark",
) -> None:
    hosted(Host(screen, theme), lambda _, pilot: body(pilot), size)


def paused(
    alpha: float | None = None,
    k: int | None = None,
    measured: dict[int, float] | None = None,
    draft_cost: float | None = None,
) -> ExploreScreen:
    return ExploreScreen(alpha, k, measured, draft_cost, running=False)


def shown(screen: ExploreScreen, name: str) -> str:
    widget = screen.query_one(name)
    drawn = widget.render()
    return drawn.plain if isinstance(drawn, Text) else str(drawn)


def line(screen: ExploreScreen, name: str) -> LabelledField:
    return screen.query_one(name, LabelledField)


@pytest.mark.parametrize("k", [0, 1, 4])
@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.8, 1.0])
def test_accepted_tokens_have_exactly_the_law_of_the_theory(alpha: float, k: int) -> None:
    """Else: the simulation converges to something else than what it stands beside."""
    found = law(lambda dice: (play(alpha, k, dice).accepted,))
    for accepted in range(k + 1):
        odds = alpha**accepted * (1 if accepted == k else 1 - alpha)
        assert found.get((accepted,), 0.0) == pytest.approx(odds, abs=1e-12)
    mean = sum((accepted + 1) * odds for (accepted,), odds in found.items())
    assert mean == pytest.approx(expected_tokens(alpha, k), abs=1e-12)


def test_a_round_tells_what_became_of_each_token() -> None:
    """Else: a token that was never judged is shown as rejected, or the pass's own one is missing."""
    assert Round(4, 2).states == ("accepted", "accepted", "rejected", "discarded", "correction")
    assert Round(2, 2).states == ("accepted", "accepted", "bonus")
    assert Round(2, 0).states == ("rejected", "discarded", "correction")
    assert Round(0, 0).states == ("plain",)
    for accepted in range(4):
        states = Counter(Round(3, accepted).states)
        committed = sum(states[each] for each in ("accepted", "correction", "bonus"))
        assert Round(3, accepted).tokens == committed


def test_the_running_mean_and_its_error_are_those_of_all_rounds() -> None:
    simulation = Simulation(0.7, 5, seed=3)
    assert simulation.tokens_per_pass is None
    simulation.play(1)
    assert simulation.tokens_per_pass == Estimate(float(simulation.recent[0].tokens), None)
    simulation.play(99)
    tokens = [each.tokens for each in simulation.recent]
    estimate = simulation.tokens_per_pass
    assert estimate is not None and estimate.error is not None
    assert estimate.mean == pytest.approx(fmean(tokens))
    assert estimate.error == pytest.approx(stdev(tokens) / 10)


def test_the_mean_closes_in_on_what_is_expected() -> None:
    """Else: the two figures that stand side by side never meet."""
    simulation = Simulation(0.8, 6, seed=1)
    steps = 0
    while simulation.batch:
        simulation.play(simulation.batch)
        steps += 1
    assert simulation.rounds == ENOUGH
    assert steps < 600
    estimate = simulation.tokens_per_pass
    assert estimate is not None and estimate.error is not None
    assert abs(estimate.mean - expected_tokens(0.8, 6)) < 4 * estimate.error < 0.1


def test_the_same_seed_gives_the_same_rounds() -> None:
    one, other = Simulation(0.5, 3, 7), Simulation(0.5, 3, 7)
    one.play(40)
    other.play(15)
    other.play(25)
    assert list(one.recent) == list(other.recent)


@pytest.mark.parametrize("theme", THEMES)
def test_rounds_are_drawn_token_by_token(theme: str) -> None:
    """Else: a rejected token looks kept, or a line runs into the next column."""
    drawn = rounds([Round(3, 1), Round(3, 3)], 3, 30, 5, "draft", theme)
    first, second = drawn.plain.split("\n")
    assert first.split() == ["1", "2", "3", "c", "+2"]
    assert second.split() == ["1", "2", "3", "b", "+4"]

    def style_at(position: int) -> object:
        return [span.style for span in drawn.spans if span.start <= position < span.end][-1]

    accepted, rejected = (style_at(first.index(label)) for label in "12")
    colour = origin_style("draft", theme).color
    assert getattr(accepted, "color", None) == colour and getattr(accepted, "reverse", False)
    assert getattr(rejected, "color", None) == colour and getattr(rejected, "strike", False)
    assert getattr(style_at(first.index("c")), "color", None) == origin_style("correction", theme).color
    bonus = len(first) + 1 + second.index("b")
    assert getattr(style_at(bonus), "color", None) == origin_style("bonus", theme).color


def test_rounds_fit_and_the_newest_is_last() -> None:
    dice = Random(1)
    for width in (34, 60, 90):
        for k in range(LONGEST + 1):
            played = [play(0.7, k, dice) for _ in range(30)]
            lines = rounds(played, k, width, 6, "lookup", "dark").plain.split("\n")
            assert len(lines) == 6 and max(map(len, lines)) <= width
            if k <= 13:
                assert [f"+{each.tokens}" for each in played[-6:]] == [row.split()[-1] for row in lines]


@pytest.mark.parametrize(("width", "height"), [(40, 10), (74, 24), (40, 6)])
@pytest.mark.parametrize("alpha", [0.0, 0.4, 0.8, 1.0])
@pytest.mark.parametrize("curve", CURVES)
def test_the_chart_marks_the_best_and_the_present_k_and_plain(
    curve: Curve, alpha: float, width: int, height: int
) -> None:
    """Else: the mark stands over another bar than the one that is fastest."""
    now = Situation(alpha, 5, 0.05, curve, "lookup")
    drawn = chart(now.speedups, now.k, now.best, width, height, "lookup", "dark").plain
    lines = drawn.split("\n")
    assert len(lines) == height and max(map(len, lines)) <= width
    assert sum(text.startswith("plain") for text in lines) == 1
    # Where a bar stands is where its k stands in the line of numbers, two columns or more apart.
    room = max(2, min(4, (width - 6) // 17))
    assert drawn.count(BEST) == drawn.count(NOW) == 1
    star = next(text for text in lines if BEST in text).index(BEST)
    assert (star - 6) // room == now.best
    assert (lines[-1].index(NOW) - 6) // room == now.k
    bars = [6 + k * room for k in range(17)]
    heights = [
        sum(text[x : x + 1] not in ("", " ", "─", "▁", "▔", BEST) for text in lines[:-2]) for x in bars
    ]
    assert heights[now.best] == max(heights) or curve is IDEAL


def test_what_is_expected_and_simulated_stand_on_one_scale() -> None:
    mark, scale, ends = closing_in(3.0, Estimate(3.0, 0.1), 4, 81, "dark").plain.split("\n")
    assert mark.index("▼") == scale.index("●") == 40
    assert scale.count("━") == 8
    assert ends.startswith("1 token") and ends.endswith("5 tokens") and len(ends) == 81
    assert "●" not in closing_in(1.0, None, 0, 81, "dark").plain.split("\n")[1]


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (
            Situation(0.8, 4, 0.0, CURVES[1], "lookup"),
            "At 80 % acceptance, 4 drafted tokens give 3.4 tokens a pass (2.2×); with this curve the best is "
            "k = 3 (2.2×).",
        ),
        (
            Situation(0.73, 1, 0.9, IDEAL, "skip"),
            "Here speculation does not pay: every k is slower than plain.",
        ),
        (
            Situation(0.0, 4, 0.0, IDEAL, "lookup"),
            "Here speculation neither gains nor loses: no k is faster than plain.",
        ),
        (
            Situation(0.8, 0, 0.0, CURVES[1], "lookup"),
            "With k = 0 nothing is drafted: plain decoding, one token a pass. The best here is k = 3 (2.2×).",
        ),
        (
            Situation(0.5, 1, 0.0, CURVES[1], "lookup"),
            "At 50 % acceptance, 1 drafted token gives 1.5 tokens a pass (1.4×); with this curve the best is "
            "k = 2 (1.4×).",
        ),
        (
            Situation(0.6, 1, 0.5, IDEAL, "draft"),
            "At 60 % acceptance, 1 drafted token gives 1.6 tokens a pass; with this curve no k is better "
            "(1.1×).",
        ),
        (
            Situation(0.8, 16, 0.0, IDEAL, "lookup"),
            "At 80 % acceptance, 16 drafted tokens give 4.9 tokens a pass; with this curve no k is better "
            "(4.9×), and longer might be better still.",
        ),
        (
            Situation(0.6, 8, 0.3, IDEAL, "draft"),
            "At 60 % acceptance, 8 drafted tokens give 2.5 tokens a pass in the time of 3.4 "
            "plain ones: a loss. The best is k = 1 (1.2×).",
        ),
    ],
)
def test_the_sentence_says_what_is_seen(now: Situation, said: str) -> None:
    """Else: the one line that most people read is false."""
    assert sentence(now) == said


@pytest.mark.parametrize("curve", (*CURVES, CPU))
def test_every_line_fits_80_columns_for_every_example(curve: Curve) -> None:
    """Else: figures lose their end."""
    for each in (*PRESETS, Preset("all", 1.0, 0.0, "draft", ""), Preset("none", 0.0, 1.0, "draft", "")):
        for k in range(LONGEST + 1):
            now = Situation(each.alpha, k, each.draft_cost, curve, each.origin)
            assert len(sentence(now)) <= 2 * 70
            estimate = Estimate(now.expected, 0.05)
            assert len(tokens_line(now, estimate, 10_000)) <= 64
            assert len(speedup_line(now, estimate)) <= 64
            assert len(tokens_line(now, None, 0)) == len(tokens_line(now, estimate, 10_000))
            assert arithmetic(now)[-1][1].endswith(f"= {now.speedup:.2f}×")


def test_theory_and_simulation_stand_side_by_side() -> None:
    now = Situation(0.8, 4, 0.0, CURVES[1], "lookup")
    estimate = Estimate(3.41, 0.05)
    tokens = " ".join(tokens_line(now, estimate, 512).split())
    assert tokens == "expected 3.36 · simulated 3.41 ± 0.05 after 512 rounds"
    speedup = " ".join(speedup_line(now, estimate).split())
    assert speedup == "expected 2.17× · simulated 2.20× ± 0.03 · best k = 3 (2.19×)"
    assert "– ± –" in " ".join(tokens_line(now, None, 0).split())


def test_a_curve_goes_through_what_was_measured_and_never_falls_at_its_end() -> None:
    """Else: k is judged by costs that nobody measured."""
    curve = Curve("falls", {1: 1.0, 4: 4.0, 8: 3.0})
    assert [curve.cost(width) for width in (1, 2, 3, 4, 6, 8)] == pytest.approx(
        [1.0, 2.0, 3.0, 4.0, 3.5, 3.0]
    )
    assert curve.cost(LONGEST + 1) == 3.0
    assert Curve("rises", {1: 1.0, 4: 2.0, 8: 4.0}).cost(12) == pytest.approx(6.0)
    assert Curve("long", {1: 1.0, 101: 101.0}).cost(LONGEST + 1) == pytest.approx(LONGEST + 1)


@pytest.mark.parametrize("points", [{}, {1: 1.0}, {2: 1.0, 3: 2.0}, {1: 0.0, 2: 1.0}, {1: 1.0, 2: -1.0}])
def test_what_is_no_curve_is_refused(points: dict[int, float]) -> None:
    with pytest.raises(ValueError, match="width 1"):
        Curve("none", points)


def test_sliders_move_by_keys_and_everything_follows() -> None:
    """Else: somebody without a mouse cannot explore."""
    screen = paused()

    async def body(pilot: Pilot[None]) -> None:
        assert screen.now.alpha == PRESETS[0].alpha and screen.now.k == 4
        await pilot.press("right", "right", "left")
        assert screen.now.alpha == 0.71
        assert line(screen, "#proposer").position == -1 and "your own" in shown(screen, "#proposer")
        await pilot.press("down", "right", "right")
        assert screen.now.k == 6
        await pilot.press("end", "right")
        assert screen.now.k == LONGEST
        await pilot.press("home", "left")
        assert screen.now.k == 0
        await pilot.press("shift+right", "down", "shift+right", "right")
        assert (screen.now.k, screen.now.draft_cost) == (10, 0.11)
        await pilot.press("down", "left")
        assert screen.now.curve is CURVES[0]
        assert shown(screen, "#sentence") == sentence(screen.now)
        assert "width 11 takes 1.00 plain passes" in shown(screen, "#curve")
        await pilot.press("up", "up", "up", "up", "right")
        assert (screen.now.alpha, screen.now.draft_cost) == (PRESETS[0].alpha, PRESETS[0].draft_cost)
        assert "0.70" in shown(screen, "#alpha")

    run(screen, body)


def test_sliders_move_by_mouse() -> None:
    screen = paused()

    async def body(pilot: Pilot[None]) -> None:
        slider = screen.query_one("#k", Slider)
        knob = str(shown(screen, "#k")).index("●")
        assert await pilot.mouse_down("#k", offset=(knob, 0))
        await pilot.hover("#k", offset=(74, 0))
        assert slider.position == LONGEST
        await pilot.mouse_up("#k", offset=(74, 0))
        await pilot.hover("#k", offset=(20, 0))
        assert slider.position == LONGEST, "a slider must not follow a mouse that has let go"
        await pilot.click("#k", offset=(20, 0))
        assert slider.position == 0 and screen.now.k == 0
        await pilot.click("#proposer", offset=(20, 0))
        assert screen.now.alpha == PRESETS[1].alpha
        await pilot.click("#proposer", offset=(13, 0))
        assert screen.now.alpha == PRESETS[0].alpha

    run(screen, body)


def test_names_go_round_in_both_directions() -> None:
    screen = paused()

    async def body(pilot: Pilot[None]) -> None:
        choice = screen.query_one("#proposer", NameField)
        choice.focus()
        await pilot.press("left")
        assert choice.position == len(PRESETS) - 1
        await pilot.press("right")
        assert choice.position == 0
        for press, position in (("left", len(PRESETS) - 1), ("right", 0)):
            choice.position = -1
            await pilot.press(press)
            assert choice.position == position

    run(screen, body)


def test_what_was_measured_comes_first_and_comes_back() -> None:
    """Else: after playing, the person's own machine and conversation are lost."""
    screen = paused(alpha=0.734, k=5, measured=MEASURED, draft_cost=0.1)

    async def body(pilot: Pilot[None]) -> None:
        begun = screen.now
        assert (begun.alpha, begun.k, begun.draft_cost) == (0.734, 5, 0.1)
        assert begun.curve.points == MEASURED
        assert "measured here" in shown(screen, "#proposer") and "measured here" in shown(screen, "#curve")
        await pilot.press("right", "down", "right", "down", "right", "down", "right")
        assert (screen.now.alpha, screen.now.k, screen.now.draft_cost) == (0.74, 6, 0.11)
        assert screen.now.curve is CURVES[0]
        await pilot.press("m")
        assert screen.now == begun
        assert "measured here" in shown(screen, "#proposer") and "measured here" in shown(screen, "#curve")
        assert (line(screen, "#alpha").position, line(screen, "#k").position) == (73, 5)

    run(screen, body)


@pytest.mark.parametrize("measured", [{}, {2: 0.01, 3: 0.02}])
def test_a_machine_that_measured_too_little_shows_the_examples(measured: dict[int, float] | None) -> None:
    screen = paused(measured=measured)

    async def body(pilot: Pilot[None]) -> None:
        before = screen.now
        await pilot.press("right", "m")
        assert screen.now != before, "there is nothing to go back to"
        assert "measured" not in shown(screen, "#curve") + shown(screen, "#proposer")

    run(screen, body)


def test_rounds_run_pause_step_and_begin_anew() -> None:
    screen = paused(alpha=0.6, k=3)

    async def body(pilot: Pilot[None]) -> None:
        assert "Space" in shown(screen, "#rounds")
        await pilot.press(*"nnnnnnnn")
        assert screen.simulation.rounds == 8
        assert "after 8 rounds" in " ".join(shown(screen, "#figures").split())
        first = list(screen.simulation.recent)
        await pilot.press("space")
        for _ in range(100):
            await pilot.pause(0.05)
            if screen.simulation.rounds >= 10:
                break
        assert screen.simulation.rounds >= 10
        await pilot.press("n")
        stopped = screen.simulation.rounds
        await pilot.pause(0.3)
        assert screen.simulation.rounds == stopped, "one round pauses"
        await pilot.press("r")
        assert screen.simulation.rounds == 0
        await pilot.press(*"nnnnnnnn")
        assert list(screen.simulation.recent) != first, "other dice"

    run(screen, body)


def test_a_change_of_cost_keeps_the_rounds_and_a_change_of_odds_does_not() -> None:
    """Else: the mean mixes rounds of two different laws."""
    screen = paused(alpha=0.6, k=3)

    async def body(pilot: Pilot[None]) -> None:
        await pilot.press("n")
        line(screen, "#cost").focus()
        await pilot.press("right", "down", "right")
        assert screen.simulation.rounds == 1
        line(screen, "#k").focus()
        await pilot.press("right")
        assert screen.simulation.rounds == 0
        await pilot.press("n")
        assert screen.simulation.recent[0].drafted == 4

    run(screen, body)


@pytest.mark.parametrize(
    ("size", "theme"), [((80, 24), "dark"), ((80, 24), "terminal"), ((160, 50), "light")]
)
def test_all_of_it_is_on_the_screen(size: tuple[int, int], theme: str) -> None:
    """Else: on a usual terminal the sentence or the keys are below the edge."""
    screen = paused(alpha=0.8, k=16, measured=MEASURED, draft_cost=0.05)

    async def body(pilot: Pilot[None]) -> None:
        screen.simulation.play(50)
        dialog = screen.query_one("#dialog")
        assert not dialog.show_vertical_scrollbar and not dialog.show_horizontal_scrollbar
        for widget in (*screen.query(LabelledField), *screen.query(Picture), *screen.query(Static)):
            if widget.display:
                assert dialog.region.contains_region(widget.region), widget.id
                assert widget.region.height > 0
        for name in ("#rounds", "#chart", "#figures", "#alpha", "#curve"):
            room = screen.query_one(name).content_size
            lines = shown(screen, name).split("\n")
            assert len(lines) <= room.height and max(map(len, lines)) <= room.width, name
        for name in ("#sums", "#closing"):
            assert screen.query_one(name).display == (size[1] == 50)

    run(screen, body, size, theme)


@pytest.mark.parametrize("size", [(62, 24), (48, 14)])
def test_a_small_terminal_scrolls_to_the_sentence(size: tuple[int, int]) -> None:
    screen = paused()

    async def body(pilot: Pilot[None]) -> None:
        await pilot.press("pagedown", "pagedown", "pagedown")
        for _ in range(50):
            await pilot.pause(0.02)
            if screen.query_one("#sentence").region.bottom < size[1]:
                break
        assert screen.query_one("#sentence").region.bottom < size[1]

    run(screen, body, size)


def test_esc_closes_and_ends_the_command() -> None:
    async def body() -> None:
        app = ExploreApp(ExploreScreen(), "light")
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("escape")
            for _ in range(50):
                await pilot.pause(0.02)
                if not app.is_running:
                    break
        assert app.return_code == 0

    asyncio.run(body())


def test_curves_of_a_file_are_choices_by_name_without_escapes_or_markup(tmp_path: Path) -> None:
    """Else: a file's name for a curve takes the terminal over, or crashes the screen."""
    path = tmp_path / "curves.json"
    named = {"about": "notes", "[/b]\x1b[2J": {"1": 10, "2": 20.5, "9": 30}, "two": {"1": 1, "2": 1.5}}
    path.write_text(json.dumps(named), "utf-8")
    curves = read_curves(path)
    assert [each.name for each in curves] == ["[/b][2J", "two"]
    assert curves[0].points == {1: 10.0, 2: 20.5, 9: 30.0}
    screen = ExploreScreen(curves=curves, name="as given", running=False)

    async def body(pilot: Pilot[None]) -> None:
        assert screen.now.curve is curves[0]
        assert screen.active_bindings["m"].binding.description == "as given"
        assert "[/b][2J" in shown(screen, "#curve")
        line(screen, "#curve").focus()
        await pilot.press("right")
        assert screen.now.curve is curves[1]

    run(screen, body)


@pytest.mark.parametrize(
    "content",
    [
        "not json",
        "[]",
        "{}",
        '{"about": "nothing"}',
        '{"a": [1, 2]}',
        '{"a": {"1": 1}}',
        '{"a": {"2": 1, "3": 2}}',
        '{"a": {"1": 1, "2": "3"}}',
        '{"a": {"1": 1, "2": NaN}}',
        '{"a": {"1": 1, "2": -1}}',
        '{"a": {"1": 1, "2": true}}',
        '{"a": {"1": 1, "x": 2}}',
        '{"a": {"1": 1, "2": 1' + "0" * 400 + "}}",
        "[" * 100_000,
    ],
)
def test_a_file_without_curves_is_refused_in_one_sentence(tmp_path: Path, content: str) -> None:
    path = tmp_path / "curves.json"
    path.write_text(content, "utf-8")
    with pytest.raises(SpecchatError, match="width") as caught:
        read_curves(path)
    assert caught.value.exit_code == 3
    with pytest.raises(SpecchatError, match="cannot be read"):
        read_curves(tmp_path / "absent.json")


@pytest.mark.parametrize(
    "arguments", [["--alpha", "1.5"], ["--alpha", "nan"], ["--k", "17"], ["--draft-cost", "-1"], ["--k", "2"]]
)
def test_wrong_use_and_no_terminal_are_told_before_the_screen(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last is right, but there is no terminal here."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(UsageError):
        main(arguments)
