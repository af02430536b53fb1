"""The speculation panel, its strip and its explanations: what a person reads there, at every width."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.widget import Widget

from app.colours import LOOKS
from app.engine.events import ExpectedGain, Finished, Pass, Prefill, Tally
from app.process.messages import Option
from app.session.figures import READY, EngineState, LiveFigures, PanelFigures
from app.tui.panel.explain import ExplainScreen, explanations
from app.tui.panel.panel import SpeculationPanel, title, why_lines
from app.tui.panel.strip import SpeculationStrip, strip_lines
from app.tui.theme import DARK, LIGHT, THEMES

HOSTILE = "\x1b[2J[/b]\u202e\x07\n[@click=app.quit]x[/]\x1b]52;c;aGk=\x07"
OPTIONS = (
    Option("lookup", "copies earlier text", None),
    Option("draft", "a smaller model", "No draft model is loaded: choose one."),
)
LOADING = EngineState("loading", "model.gguf", 0.35)


def entry(drafted: int, accepted: int, proposer: str = "lookup") -> Pass:
    tokens = tuple(range(accepted + 1))
    return Pass(
        proposer=proposer,
        drafted=tuple(range(drafted)),
        accepted=accepted,
        committed=accepted + 1,
        tokens=tokens,
        origins=("plain",) * len(tokens),
        text="",
        seconds=0.05,
        target_seconds=0.04,
        proposer_seconds=0.0,
    )


def live(proposer: str = "lookup", k: int | None = None) -> LiveFigures:
    """A reply of 34 passes: 25 that accept 3 of 4, and 9 that accept none."""
    made = LiveFigures()
    made.begin(k, proposer)
    made.prefill(Prefill(done=4870, total=4870, cached=1024))
    for number in range(34):
        made.record(entry(4, 0 if number % 10 > 6 else 3, proposer))
    made.measured(0.04)
    return made


def reading(done: int) -> PanelFigures:
    made = LiveFigures()
    made.begin(None, "lookup")
    made.prefill(Prefill(done=done, total=4870, cached=1024))
    return made.snapshot()


class Host(App[None]):
    """An app of one widget."""

    CSS = "Screen { layout: horizontal; }"

    def __init__(self, widget: Widget, theme: str = "dark") -> None:
        super().__init__()
        for each in THEMES.values():
            self.register_theme(each)
        self.theme = THEMES[theme].name
        self._widget = widget
        self.pressed = 0

    def compose(self) -> ComposeResult:
        yield self._widget

    def on_speculation_strip_pressed(self) -> None:
        self.pressed += 1


def screen_lines(app: App[None]) -> list[str]:
    """What the terminal shows, line by line."""
    return ["".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips()]


def read(
    widget: Widget, size: tuple[int, int], body: Callable[[Pilot[None]], Awaitable[None]], theme: str = "dark"
) -> str:
    """The screen's text after `body`."""

    async def run() -> str:
        app = Host(widget, theme)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await body(pilot)
            await pilot.pause()
            return "\n".join(line.rstrip() for line in screen_lines(app))

    return asyncio.run(run())


def shown(
    figures: PanelFigures,
    state: EngineState = READY,
    size: tuple[int, int] = (160, 50),
    options: tuple[Option, ...] = OPTIONS,
    theme: str = "dark",
) -> str:
    panel = SpeculationPanel()

    async def body(_: Pilot[None]) -> None:
        panel.show(figures, state, options)

    return read(panel, size, body, theme)


def strip_shown(figures: PanelFigures, state: EngineState, width: int) -> list[str]:
    strip = SpeculationStrip()

    async def body(_: Pilot[None]) -> None:
        strip.show(figures, state)

    return read(strip, (width, 4), body).splitlines()[:2]


@pytest.mark.parametrize("theme", list(THEMES))
@pytest.mark.parametrize("size", [(160, 50), (80, 24)])
def test_the_panel_says_how_fast_against_what_and_why(size: tuple[int, int], theme: str) -> None:
    """Else: a figure that a person looks for is cut off or missing."""
    text = shown(live().snapshot(), size=size, theme=theme)
    for part in (
        "lookup · k auto",
        "writing · 109 tokens",
        "2.56× plain",
        "plain 25.0 · measured here",
        "acceptance    55 %",
        "tokens/pass   3.21",
        "k                4",
        "expected 2.7 · measured 3.2",
        "position 1 ",
        " 25 of 34",
        "prompt 4,871 tokens",
        "(1,024 cached)",
        "overhead 10.0 ms/pass · 20 %",
    ):
        assert part in text
    if size == (80, 24):
        assert "64.1 tok/s" in text
    else:
        assert "draft  No draft model is" in text


def test_a_figure_not_known_is_a_dash_never_0() -> None:
    """Else: a person takes what was not measured for a measurement."""
    unknown = replace(reading(4870), plain_seconds=None, plain_source=None)
    for size in ((160, 50), (80, 24)):
        text = shown(unknown, size=size, options=())
        for part in (
            "– plain",
            "plain –",
            "expected – · measured –",
            "position 1 –",
            "overhead – ms/pass · –",
        ):
            assert part in text
        for label in ("acceptance", "tokens/pass", "k "):
            line = next(line for line in text.splitlines() if label in line and "·" not in line)
            assert line.rstrip().endswith("–")
        assert "0 %" not in text
        assert "0.0" not in text
    assert not any(" 0" in line.plain for line in strip_lines(unknown, READY, 80, "dark"))
    for each in explanations(PanelFigures())[:6]:
        assert each.value.strip() == "–"


def test_an_empty_panel_teaches_what_it_will_show() -> None:
    """Else: the first start shows a column of dashes."""
    text = shown(PanelFigures())
    for part in ("idle", "tokens/s", "acceptance", "tokens/pass", "/explain"):
        assert part in text
    assert "–" not in text


def test_what_goes_on_is_said_with_its_progress() -> None:
    """Else: a long prompt, a large model and a dead engine all look like a hung app."""
    text = shown(reading(2435))
    assert "reading 2,435 of 4,870 tokens" in text
    assert "██████████████▌" in text
    assert "reading again 2,435 of 4,870" in shown(replace(reading(2435), again=2000))
    assert "reading 2,435 of 4,870 tokens" in shown(replace(reading(2435), again=1800))
    assert "loading model.gguf 35 %" in shown(PanelFigures(), LOADING)
    assert "engine stopped" in shown(live().snapshot(), EngineState("stopped"))
    assert strip_shown(reading(2435), READY, 80)[1].startswith(" reading 2,435 of 4,870 tokens  ███")
    assert "loading model.gguf 35 %" in strip_shown(PanelFigures(), LOADING, 40)[1]
    assert strip_shown(live().snapshot(), EngineState("stopped"), 80)[1].strip() == "engine stopped"


def test_the_end_of_a_reply_brings_what_only_the_record_knows() -> None:
    """Else: the time of the prompt and the plain speed measured after the reply are never seen."""
    made = live()
    finished = Finished(
        reason="stop",
        token_ids=tuple(range(109)),
        origins=("plain",) * 109,
        text="",
        rest="",
        seed=1,
        prompt_tokens=4871,
        cached_tokens=1024,
        passes=34,
        drafted=136,
        accepted=75,
        trimmed=0,
        accepted_by_position=(25, 25, 25, 0),
        by_proposer={"lookup": Tally(34, 136, 75)},
        k_history=(4,) * 34,
        prefill_seconds=3.14,
        decode_seconds=1.7,
        model_seconds=1.36,
        plain_seconds=0.05,
    )
    made.finish(finished)
    text = shown(made.snapshot())
    assert "done · 109 tokens" in text
    assert "prompt 4,871 tokens in 3.1 s" in text
    assert "plain 20.0 · measured here" in text


def test_what_a_memory_that_cannot_be_cut_reads_again_is_said() -> None:
    """Else: a second turn as slow as the first, and drafts that cost more, without a reason."""
    made = LiveFigures()
    made.begin(None, "lookup")
    made.prefill(Prefill(done=4870, total=4870, cached=1024, again=2800))
    for _ in range(3):
        made.record(replace(entry(4, 2), replayed=3))
    figures = made.snapshot()
    for size in ((160, 50), (80, 24)):
        text = shown(figures, size=size)
        assert "(1,024 cached)" in text and "(2,800 read again)" in text
    # A few tokens are no reason for anything.
    assert "read again" not in shown(replace(figures, again=16))
    found = {each.name: each for each in explanations(figures, "copied state")}["memory"]
    assert (
        found.value == "copied state"
        and found.formula == "tokens read again: 9 behind drafts, 2,800 of the prompt"
    )
    assert "had to be read again" in found.meaning
    quiet = {each.name: each for each in explanations(live().snapshot(), "snapshots")}["memory"]
    assert "had to be read again" not in quiet.meaning
    for memory in ("attention", ""):
        assert "memory" not in [each.name for each in explanations(figures, memory)]


def test_why_nothing_was_drafted_is_said() -> None:
    """Lost otherwise: trust, where an option looks better than plain decoding and is not taken."""
    values = (
        ExpectedGain("lookup", 3, 0.03, "small"),
        ExpectedGain("draft", 4, 0.2, "paused"),
        ExpectedGain("skip", 1, -0.1, "small"),
        ExpectedGain("other", 8, 0.4, None),
    )

    def told(figures: PanelFigures) -> list[str]:
        return [" ".join(line.plain.split()) for line in why_lines(figures, "dark")]

    figures = live().snapshot()
    # What would lose is no option.
    assert told(replace(figures, values=values)) == [
        "predicted gain, next pass",
        "other k 8 +40 %",
        "draft k 4 +20 %",
        "paused: recent guesses missed",
        "lookup k 3 +3 %",
        "not worth it: under 5 %",
    ]
    assert told(replace(figures, values=values[2:3], phase="done")) == [
        "predicted gain, last pass",
        "none: no guess would gain",
    ]
    for pause, said in (("measuring", "timing plain speed"), ("resting", "nothing to guess")):
        assert said in told(replace(figures, pause=pause))[1]  # type: ignore[arg-type]
    assert not told(replace(figures, fixed_k=4)) and not told(replace(figures, setting="off"))


def test_the_title_keeps_the_setting_and_what_it_did_apart() -> None:
    """Else: the figures seem to be of what is on now, and "auto" is never seen to work."""
    figures = replace(live().snapshot(), setting="auto")
    assert title(figures, "dark").plain == "auto → lookup"
    assert title(replace(figures, drafters=("lookup", "draft")), "dark").plain == "auto → lookup + draft"
    assert title(replace(figures, drafters=()), "dark").plain == "auto → plain"
    assert title(replace(figures, setting="off", drafters=()), "dark").plain == "off"
    assert title(replace(figures, setting="lookup"), "dark").plain == "lookup"
    made = live()
    made.stop()
    before = shown(made.snapshot())
    made.choose(4, "off")
    after = shown(made.snapshot())
    assert after == before.replace("done · 109 tokens", "next: off")
    assert "next: off" in strip_shown(made.snapshot(), READY, 80)[1]
    never = replace(figures, phase="done", drafted=0, drafters=())
    assert "never drafted" in shown(never) and "×" not in shown(never)
    plain = replace(figures, setting="off", used=("off",), drafters=(), drafted=0)
    for text in (shown(plain), "\n".join(strip_shown(plain, READY, 80))):
        assert "1.00×" in text and "acceptance" not in text and "measured here" not in text


def test_a_position_with_few_drafts_is_hidden() -> None:
    """Else: one draft of sixteen tokens that was accepted shows as 100 %, beside what was tried for hours."""
    made = live()
    made.record(entry(9, 9))
    text = shown(made.snapshot())
    assert "26 of 35" in text and "1 of  1" not in text and " 5 █" not in text


def test_a_slower_reply_is_told_as_a_loss() -> None:
    """Else: 0.80× wears the colour of a gain."""
    made = LiveFigures()
    made.begin(4, "lookup")
    made.record(entry(4, 0))
    made.measured(0.04)
    line = strip_lines(made.snapshot(), READY, 80, "dark")[0]
    assert "0.80× plain" in line.plain
    assert any(span.style == "bold $warning" for span in line.spans)


def test_bars_and_name_wear_the_colour_of_the_origin() -> None:
    """Else: the panel's colours and those of the text say different things."""
    panel = SpeculationPanel()
    colours: set[str] = set()

    async def body(pilot: Pilot[None]) -> None:
        panel.show(live("draft").snapshot(), READY, OPTIONS)
        await pilot.pause()
        for theme in ("light", "dark"):
            pilot.app.theme = THEMES[theme].name
            await pilot.pause()
            await pilot.pause()
            for strip in pilot.app.screen._compositor.render_strips():
                for segment in strip:
                    if (
                        segment.style
                        and segment.style.color
                        and ("█" in segment.text or "draft" in segment.text)
                    ):
                        colours.add(segment.style.color.name)

    read(panel, (160, 50), body)
    assert {LOOKS["draft"].light, LOOKS["draft"].dark} <= colours
    assert {theme.variables["muted"] for theme in (DARK, LIGHT)} <= colours


@pytest.mark.parametrize("width", [20, 32, 40, 60, 80, 109])
def test_the_strip_fits_and_leaves_out_what_matters_least(width: int) -> None:
    """Else: on a narrow screen the speed is cut off, or the strip wraps over the prompt."""
    made = live().snapshot()
    for lines in (
        strip_lines(made, READY, width, "dark"),
        strip_lines(reading(2435), READY, width, "dark"),
        strip_lines(PanelFigures(), LOADING, width, "dark"),
    ):
        assert len(lines) == 2
        assert all(line.cell_length <= width for line in lines)
    first, second = (line.plain for line in strip_lines(made, READY, width, "dark"))
    if width >= 32:
        assert "lookup" in first
        assert "64.1 tok/s" in first
        assert "2.56×" in first
    if width >= 40:
        assert "55 %" in second
        assert "3.21" in second
    if width >= 60:
        assert "k auto, now  4" in first
        assert "█" in second
    if width >= 80:
        assert "2.56× plain (25.0 measured here)" in first
        assert "writing · 109 tokens" in second


def test_the_strip_is_two_lines_on_the_screen_and_a_click_asks_for_more() -> None:
    """Else: the mouse does nothing where everything else answers it."""
    strip = SpeculationStrip()

    async def body(pilot: Pilot[None]) -> None:
        strip.show(live().snapshot(), READY)
        await pilot.click(SpeculationStrip)
        assert isinstance(pilot.app, Host)
        assert pilot.app.pressed == 1
        assert strip.size.height == 2

    text = read(strip, (80, 24), body)
    assert "lookup · k auto, now  4" in text


@pytest.mark.parametrize("size", [(160, 50), (80, 24)])
def test_foreign_names_do_no_harm(size: tuple[int, int]) -> None:
    """Else: a file's name acts on the terminal, becomes a link, or ends the app."""
    options = (Option(HOSTILE, HOSTILE, HOSTILE),)
    text = shown(live(HOSTILE).snapshot(), EngineState("loading", HOSTILE, 0.5), size, options)
    text += "".join(strip_shown(live(HOSTILE).snapshot(), EngineState("loading", HOSTILE, 0.5), size[0]))
    assert "[2J[/b] [@click" in text
    assert not any(character in text for character in "\x1b\x07\u202e")
    wide = "漢字" * 40
    assert "漢字" in shown(live(wide).snapshot(), READY, size, (Option(wide, "", wide),))


def test_a_panel_that_does_not_fit_scrolls_by_keyboard() -> None:
    """Else: on a low screen nobody can read why a proposer is not available."""
    panel = SpeculationPanel()

    async def body(pilot: Pilot[None]) -> None:
        panel.show(live().snapshot(), READY, OPTIONS)
        await pilot.pause()
        assert panel.max_scroll_y > 0
        panel.focus()
        await pilot.press("end")
        for _ in range(50):
            if panel.scroll_offset.y == panel.max_scroll_y:
                break
            await pilot.pause(0.02)

    text = read(panel, (80, 20), body)
    assert "loaded: choose one." in text
    assert "lookup · k auto" not in text


def test_only_what_changed_is_shown_anew_and_nothing_old_stays() -> None:
    """Else: lines of an earlier state stand among those of now."""
    panel = SpeculationPanel()

    async def body(pilot: Pilot[None]) -> None:
        made = live()
        panel.show(made.snapshot(), READY, OPTIONS)
        await pilot.pause()
        for _ in range(20):
            made.record(entry(6, 6, "draft"))
        panel.show(made.snapshot(), READY, ())
        await pilot.pause()
        panel.show(PanelFigures(), READY, OPTIONS)
        await pilot.pause()
        made.record(entry(6, 6, "draft"))
        panel.show(made.snapshot(), READY, OPTIONS)

    made = live()
    for _ in range(21):
        made.record(entry(6, 6, "draft"))
    assert read(panel, (160, 50), body) == shown(made.snapshot())


@pytest.mark.parametrize("size", [(160, 50), (80, 24)])
def test_each_figure_is_explained_and_esc_closes(size: tuple[int, int]) -> None:
    """Else: "expected 2.7" stays a riddle, or the dialogue a trap."""
    panel = SpeculationPanel()

    async def body(pilot: Pilot[None]) -> None:
        made = live()
        dialogue = ExplainScreen(made.snapshot())
        pilot.app.push_screen(dialogue)
        await pilot.pause()
        assert isinstance(pilot.app, Host)
        text = "\n".join(screen_lines(pilot.app))
        assert "tokens/s  64.1" in text
        assert "= 109 ÷ 1.70" in text
        made.record(entry(4, 4))
        dialogue.show(made.snapshot())
        await pilot.pause()
        assert "= 114 ÷ 1.75" in "\n".join(screen_lines(pilot.app))
        await pilot.press("end")
        for _ in range(50):
            if "newest at the right" in "\n".join(screen_lines(pilot.app)):
                break
            await pilot.pause(0.02)
        else:
            raise AssertionError("the last explanation cannot be reached")
        await pilot.press("escape")
        await pilot.pause()
        assert pilot.app.screen is not dialogue

    read(panel, size, body)
    names = [each.name for each in explanations(live().snapshot())]
    for name in ("tokens/s", "plain", "speedup", "acceptance", "tokens/pass", "k", "position", "expected"):
        assert name in names
