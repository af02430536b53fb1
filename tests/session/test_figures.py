"""The panel's figures: without these it shows a speed, a rate or a gain that was never there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.control import Controller
from app.engine.events import Finished, Pass, Prefill, Request, Tally
from app.engine.expectation import expected_tokens
from app.engine.loop import Engine
from app.engine.settings import Sampling
from app.llama.context import Context
from app.llama.model import Model
from app.llama.settings import ContextSettings
from app.session.figures import (
    COLUMNS,
    WINDOW_SECONDS,
    LiveFigures,
    PanelFigures,
)
from app.session.streaming import figures_of
from app.tui.numbers import bar, big, milliseconds, percent, rate, ratio, seconds, sparkline, whole
from proposers.lookup import Lookup
from tests.tiny import write_tiny


@st.composite
def passes(draw: st.DrawFn) -> Pass:
    """Any pass that the engine can report, those cut by the reply's end too."""
    drafted = draw(st.integers(0, 9))
    accepted = draw(st.integers(0, drafted))
    kept = draw(st.integers(0, accepted + 1))
    took = draw(st.floats(1e-5, 1.0))
    share = draw(st.floats(0.0, 0.5))
    return Pass(
        proposer=draw(st.sampled_from(["off", "lookup", "draft"])),
        drafted=tuple(range(drafted)),
        accepted=accepted,
        committed=accepted + 1,
        tokens=tuple(range(kept)),
        origins=("plain",) * kept,
        text="",
        seconds=took,
        target_seconds=took * share,
        proposer_seconds=took * share,
    )


def fed(entries: Sequence[Pass]) -> PanelFigures:
    live = LiveFigures()
    live.begin(None, "lookup")
    for entry in entries:
        live.record(entry)
    return live.snapshot()


def windows(entries: Sequence[Pass]) -> list[list[Pass]]:
    """The passes in groups that each last WINDOW_SECONDS; the last, unfinished group is left out."""
    groups: list[list[Pass]] = [[]]
    for entry in entries:
        groups[-1].append(entry)
        if sum(each.seconds for each in groups[-1]) >= WINDOW_SECONDS:
            groups.append([])
    return groups[:-1]


@given(st.lists(passes(), max_size=90))
@settings(deadline=None)
def test_every_figure_is_the_one_recomputed_from_the_log(entries: list[Pass]) -> None:
    """Else: the panel shows a number that nobody can check."""
    figures = fed(entries)
    drafts = [len(entry.drafted) for entry in entries]
    drafted, accepted = sum(drafts), sum(entry.accepted for entry in entries)
    kept = sum(len(entry.tokens) for entry in entries)
    decode = sum(entry.seconds for entry in entries)
    assert figures.acceptance_rate == (accepted / drafted if drafted else None)
    assert figures.tokens_per_pass == (
        sum(entry.accepted + 1 for entry in entries) / len(entries) if entries else None
    )
    assert figures.tokens_per_second == (kept / decode if entries else None)
    assert figures.k_history == tuple(drafts)
    assert figures.last_k == (drafts[-1] if drafts else None)
    assert figures.setting == "lookup"
    assert tuple(figures.by_proposer) == tuple(dict.fromkeys(entry.proposer for entry in entries))
    assert figures.drafters == tuple(dict.fromkeys(entry.proposer for entry in entries if entry.drafted))

    longest = range(1, max(drafts, default=0) + 1)
    assert figures.drafted_by_position == tuple(sum(each >= n for each in drafts) for n in longest)
    assert figures.accepted_by_position == tuple(
        sum(entry.accepted >= n for entry in entries) for n in longest
    )
    assert figures.by_position == tuple(
        (sum(entry.accepted >= n for entry in entries), sum(each >= n for each in drafts))
        for n in longest
        if sum(each >= n for each in drafts) >= 10
    )

    assert figures.plain_seconds is None
    assert figures.speedup == (1.0 if kept and set(figures.by_proposer) == {"off"} else None)

    model = sum(entry.target_seconds + entry.proposer_seconds for entry in entries)
    assert figures.host_share == ((decode - model) / decode if entries else None)

    grouped = windows(entries)[-COLUMNS:]
    rates: list[float | None] = []
    yields: list[float] = []
    for group in grouped:
        guessed = sum(len(entry.drafted) for entry in group)
        right = sum(entry.accepted for entry in group)
        rates.append(right / guessed if guessed else None)
        yields.append(sum(entry.accepted + 1 for entry in group) / len(group))
    assert figures.acceptance_history == tuple(rates)
    assert figures.tokens_per_pass_history == tuple(yields)


@given(st.lists(passes(), min_size=1, max_size=60))
@settings(deadline=None)
def test_the_expected_tokens_are_those_of_the_paper(entries: list[Pass]) -> None:
    """Else: theory and measurement are compared, and the theory is another one."""
    figures = fed(entries)
    accepted = sum(entry.accepted for entry in entries)
    rejected = sum(entry.accepted < len(entry.drafted) for entry in entries)
    alpha = accepted / (accepted + rejected) if accepted + rejected else None
    assert figures.alpha == alpha
    each: list[float] = []
    for entry in entries:
        k = len(entry.drafted)
        if k == 0 or alpha is None:
            each.append(1.0)
        else:
            each.append(k + 1.0 if alpha == 1 else (1 - alpha ** (k + 1)) / (1 - alpha))
    assert figures.expected == pytest.approx(sum(each) / len(each), rel=1e-9)


def test_the_speed_without_speculation_is_the_engines() -> None:
    """Else: the panel and the reply's record name different speedups, or one that nobody measured."""
    live = LiveFigures()
    live.begin(None, "lookup")
    assert live.snapshot().speedup is None
    live.record(Pass("lookup", (1, 2), 2, 3, (1, 2, 3), ("lookup",) * 3, "", 0.03, 0.03, 0.0))
    live.measured(0.02)
    figures = live.snapshot()
    assert figures.speedup == pytest.approx(2.0) and figures.plain_source == "in this reply"


def test_plain_decoding_is_one_and_no_ratio_stands_where_nothing_was_drafted() -> None:
    """Else: plain decoding seems slower than itself, and a gain is told that nothing was earned by."""
    for name, drafted, speedup in (("off", 0, 1.0), ("lookup", 0, None), ("lookup", 1, 1.5)):
        live = LiveFigures()
        live.begin(None, name)
        live.record(Pass(name, (1,) * drafted, 0, 1, (1,), ("plain",), "", 0.02, 0.02, 0.0))
        live.measured(0.03)
        assert live.snapshot().speedup == (None if speedup is None else pytest.approx(speedup))
        tally = {name: Tally(1, drafted)}
        finished = Finished(
            "length", (1,), ("plain",), "", "", 7, 9, 0, 0.1,
            passes=1, drafted=drafted, kept=1, by_proposer=tally, k_history=(drafted,),
            decode_seconds=0.02, model_seconds=0.02, plain_seconds=0.03,
        )  # fmt: skip
        live.finish(finished)
        assert finished.speedup == live.snapshot().speedup == figures_of(finished).speedup
        assert (speedup != 1.0) or finished.speedup == 1.0


def test_a_setting_that_is_changed_relabels_no_reply_that_was_made() -> None:
    """Else: F2 behind a reply gives its figures to a proposer that had nothing to do with them."""
    live = LiveFigures("auto")
    live.choose(4, "lookup")
    idle = live.snapshot()
    assert (idle.setting, idle.fixed_k, idle.next_up) == ("lookup", 4, None)
    live.begin(None, "auto")
    live.choose(None, "draft")
    assert live.snapshot().setting == "draft"
    live.record(Pass("draft", (1,), 1, 2, (1, 2), ("draft", "bonus"), "", 0.02, 0.02, 0.0))
    live.choose(None, "auto")
    live.choose(2, "auto")
    live.stop()
    made = live.snapshot()
    assert (made.setting, made.drafters, made.fixed_k, made.next_up) == ("draft, auto", ("draft",), 2, None)
    live.choose(3, "off")
    after = live.snapshot()
    assert after == replace(made, next_up=("off", 3))
    live.choose(2, "auto")
    assert live.snapshot() == made


def test_the_sum_of_equation_1_at_its_ends() -> None:
    """Else: a draft that is always accepted divides by zero."""
    assert expected_tokens(1.0, 4) == 5
    assert expected_tokens(0.0, 4) == 1
    assert expected_tokens(0.7, 0) == 1
    assert expected_tokens(0.5, 2) == 1.75


def test_before_anything_was_measured_nothing_is_claimed() -> None:
    """Else: a person reads 0 tok/s and 0 % where nothing has happened yet."""
    for figures in (PanelFigures(), LiveFigures().snapshot(), fed([])):
        assert figures.acceptance_rate is figures.tokens_per_pass is figures.tokens_per_second is None
        assert figures.speedup is figures.plain_tokens_per_second is figures.expected is None
        assert figures.host_share is figures.host_seconds_per_pass is figures.last_k is None
    assert LiveFigures("lookup", 4).snapshot().phase == "idle"


def test_a_reply_begins_with_none_of_the_last_ones_figures(engine: Engine) -> None:
    """Else: the second reply's acceptance is blurred by the first one's."""
    live = LiveFigures()
    live.begin(4, "lookup")
    play(engine, live, 16)
    live.begin(None, "off")
    assert live.snapshot() == PanelFigures(phase="reading")


def test_a_failed_engine_leaves_what_was_counted(engine: Engine) -> None:
    """Else: the panel says "writing" for ever, or forgets the reply that crashed."""
    live = LiveFigures()
    live.begin(4, "lookup")
    live.stop()
    assert live.snapshot().phase == "idle"
    play(engine, live, 16)
    passes_made = live.snapshot().passes
    live.stop()
    assert (live.snapshot().phase, live.snapshot().passes) == ("done", passes_made)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine on a tiny model, for this module."""
    model = Model(write_tiny(tmp_path_factory.mktemp("figures") / "target.gguf", end_scale=0.0))
    context = Context(model, 512, ContextSettings(threads=1, chunk=16, exact=True))
    yield Engine(context, (Lookup(),), Controller())
    context.close()
    model.close()


def play(engine: Engine, live: LiveFigures, max_tokens: int, **other: object) -> Finished:
    """Run a reply, and give all but its record to `live`."""
    prompt = tuple([60, 61, 62, 63, 64, 65] * 8)
    request = Request(prompt, Sampling(temperature=0.0), seed=7, max_tokens=max_tokens, **other)  # type: ignore[arg-type]
    for event in engine.generate(request):
        if isinstance(event, Prefill):
            live.prefill(event)
        elif isinstance(event, Pass):
            live.record(event)
            live.measured(engine.sequence.plain.seconds_per_token())
        elif isinstance(event, Finished):
            return event
    raise AssertionError("no Finished")


@pytest.mark.parametrize("k", [0, 1, 5, None])
def test_the_figures_are_those_of_the_engines_own_record(engine: Engine, k: int | None) -> None:
    """Else: the panel and the line under the reply disagree."""
    live = LiveFigures()
    live.begin(k, "lookup")
    finished = play(engine, live, 60, k=k)
    while_writing = live.snapshot()
    assert while_writing.phase == "writing"
    assert while_writing.prefill_seconds is None
    live.finish(finished)
    figures = live.snapshot()
    for each in (while_writing, figures):
        assert each.acceptance_rate == finished.acceptance_rate
        assert each.tokens_per_pass == finished.tokens_per_pass
        assert each.tokens_per_second == finished.tokens_per_second
        assert each.host_seconds_per_pass == finished.host_seconds_per_pass
        assert each.accepted_by_position == finished.accepted_by_position
        assert each.k_history == finished.k_history
        assert (each.prompt, each.known) == (finished.prompt_tokens, finished.cached_tokens)
        assert each.read == each.to_read
    assert figures.phase == "done"
    assert figures.speedup == finished.speedup
    assert (figures.speedup is None) == (k == 0 or finished.drafted == 0)
    assert figures.plain_seconds == finished.plain_seconds
    assert figures.prefill_seconds == finished.prefill_seconds
    assert figures.plain_source == "in this reply"


def test_tokens_that_a_stop_string_took_back_are_not_counted(engine: Engine) -> None:
    """Else: the speed counts tokens that nobody got, and parts from the engine's at the last moment."""
    probe = play(engine, LiveFigures(), 40, k=4)
    assert len(probe.text) > 8
    live = LiveFigures()
    live.begin(4, "lookup")
    finished = play(engine, live, 40, k=4, stop=(probe.text[4:9],))
    assert finished.reason == "stop_string"
    live.finish(finished)
    assert live.snapshot().tokens_per_second == finished.tokens_per_second
    assert live.snapshot().speedup == finished.speedup


def test_a_sparkline_ends_with_the_newest_value() -> None:
    """Else: a figure's history is read backwards, or one odd value ends the screen."""
    assert sparkline([], 5, 0, 1) == ""
    assert sparkline([0.0, 1.0], 0, 0, 1) == ""
    assert sparkline([9.0, 0.0, 0.5, 1.0], 3, 0, 1) == "▁▅█"
    assert sparkline([0.0, float("nan"), None, float("inf"), 1.0], 5, 0, 1) == "▁   █"
    assert sparkline([None, None], 5, 0, 1) == "  "
    assert sparkline([-5.0, 5.0], 5, 0, 1) == "▁█"


@given(st.floats(), st.integers(0, 20))
def test_a_bar_always_takes_its_width(share: float, width: int) -> None:
    """Else: the numbers behind the bars stand in a ragged line."""
    assert len(bar(share, width)) == width


def test_a_bar_is_filled_in_eighths() -> None:
    """Else: 88 % and 99 % look alike."""
    assert bar(0.0, 3) == "   "
    assert bar(1.0, 3) == "███"
    assert bar(0.5, 3) == "█▌ "
    assert bar(1 / 24, 3) == "▏  "


def test_numbers_keep_their_width_and_the_unknown_is_a_dash() -> None:
    """Else: the panel trembles at each refresh, or shows 0 for what was not measured."""
    assert [percent(value) for value in (None, 0.0, 0.924, 1.0)] == ["    –", "  0 %", " 92 %", "100 %"]
    assert [rate(value) for value in (None, 7.25, 128.44, 12345.6)] == [
        "     –",
        "   7.2",
        " 128.4",
        "12,346",
    ]
    assert [ratio(value) for value in (None, 3.214, 12.0)] == ["    –", " 3.21", "12.00"]
    assert [whole(value) for value in (None, 0, 4871)] == ["–", "0", "4,871"]
    milli = [milliseconds(value) for value in (None, 0.0, 41e-6, 529e-6, 0.01)]
    assert milli == ["–", "0.0", "<0.1", "0.5", "10.0"]
    times = [None, 41e-6, 999.6e-6, 0.0123, 0.2, 0.9996, 3.14, 125.0]
    shown = ["      –", "  41 µs", " 1.0 ms", "12.3 ms", " 200 ms", "  1.0 s", "  3.1 s", "  125 s"]
    assert [seconds(value) for value in times] == shown


@given(st.one_of(st.none(), st.floats(0, 99_999)))
def test_a_big_number_has_three_rows_of_one_width(value: float | None) -> None:
    """Else: the speed's digits shear apart, or a number has a sign that cannot be drawn."""
    assert len({len(row) for row in big(rate(value).strip())}) == 1
