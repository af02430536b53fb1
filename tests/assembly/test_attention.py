"""On a CPU flash attention is chosen by measuring, by what a person does, and only where nobody chose it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from app.assembly import loader as loader_module
from app.assembly.assembly import Assembly
from app.assembly.attention import (
    AT_FIRST,
    Habits,
    costs_to_numbers,
    expected_seconds,
    faster,
    flash_attention_here,
    habits_of,
    heads_of,
    keep_habits,
    name_of,
    points_of,
)
from app.config.values import LoadSettings
from app.engine.events import Finished, Request
from app.engine.settings import Sampling
from app.llama.attention import DRAFTED, READING, AttentionHeads, AttentionTiming
from app.llama.settings import ContextSettings, FlashAttention
from app.measurements import Measurements, measurements_file
from app.models.fit import Memory
from app.models.gguf import read_header
from tests.conftest import Ask
from tests.measured import TINY, measured, prefer
from tests.tiny import Extra, write_tiny
from tests.tui.engine import finished


def habits(read: int, passes: int, depth: int) -> Habits:
    """Prompts of so many tokens, and passes behind so many."""
    return Habits(read, read * read / 2, passes, 0, passes * depth)


@pytest.mark.parametrize(
    ("points", "does", "chosen"),
    [
        (measured(0.5, 5.0), habits(10 * READING, 100, 1000), "off"),
        (measured(0.5, 5.0), habits(10 * READING, 1, 1000), "on"),
        (measured(0.5, 5.0), habits(0, 100, 500), "off"),
        (measured(1.5, 0.9), habits(READING, 100, 1000), "on"),
        (measured(1.5, 0.9), habits(100 * READING, 1, 1000), "off"),
        (measured(1.0, 1.0), AT_FIRST, "on"),
        (measured(0.5, 5.0), AT_FIRST, "off"),
    ],
)
def test_what_takes_less_time_for_this_person_is_chosen(
    points: tuple[AttentionTiming, ...], does: Habits, chosen: str
) -> None:
    """Lost otherwise: two thirds of the speed behind a document, or a third of the speed of reading one."""
    assert faster(points, does) == chosen


def test_costs_are_linear_between_what_was_measured_and_beyond() -> None:
    """Lost otherwise: a document longer than what was measured is priced as a short one."""
    points = measured(0.5, 5.0)
    for depth in (0, 250, 1000, 3000):
        assert expected_seconds(points, True, habits(0, 2, depth)) == pytest.approx(2 + 8 * depth / 1000)
    assert expected_seconds(points, True, habits(4 * READING, 0, 0)) == pytest.approx(2.0)


def test_drafted_tokens_make_passes_dearer() -> None:
    """Lost otherwise: the speed of guesses, which flash attention makes expensive."""
    points = [each._replace(seconds=8.0) if each.width == DRAFTED else each for each in measured(1.0, 1.0)]
    drafting = Habits(0, 0, 10, 2 * (DRAFTED - 1), 0)
    assert expected_seconds(points, False, drafting) == pytest.approx(10 + 2 * 7.0)


def reply(prompt: int, cached: int, tokens: int) -> Finished:
    return replace(
        finished([]), prompt_tokens=prompt, cached_tokens=cached, token_ids=(1,) * tokens, passes=tokens
    )


def test_habits_are_sums_that_fade(tmp_path: Path) -> None:
    """Lost otherwise: who once pasted a book is taken for a reader for ever."""
    measurements = Measurements(tmp_path / "k.json")
    keep_habits(measurements, reply(9000, 0, 0))
    assert habits_of(measurements) == AT_FIRST
    keep_habits(measurements, reply(1000, 400, 100))
    once = habits_of(measurements)
    assert once.read == pytest.approx(0.9 * AT_FIRST.read + 600)
    assert once.read_depth == pytest.approx(0.9 * AT_FIRST.read_depth + 600 * 700)
    assert once.pass_depth == pytest.approx(0.9 * AT_FIRST.pass_depth + 100 * 1050)
    assert faster(measured(0.01, 1.005), once) == "on"
    for _ in range(60):
        keep_habits(measurements, reply(3000, 2990, 300))
    assert habits_of(measurements).read == pytest.approx(100, rel=0.1)
    assert faster(measured(0.01, 1.005), habits_of(measurements)) == "off"


@pytest.mark.parametrize("sums", [(1.0,), (-1.0, 0.0, 0.0, 0.0, 0.0), ()])
def test_damaged_habits_are_none(tmp_path: Path, sums: tuple[float, ...]) -> None:
    measurements = Measurements(tmp_path / "k.json")
    measurements.put("habits", sums)
    assert habits_of(measurements) == AT_FIRST


def test_what_was_measured_is_remembered_and_decides(tmp_path: Path, tiny_path: Path) -> None:
    """Lost otherwise: a second at every start."""
    header, settings = read_header(tiny_path), ContextSettings()
    name = name_of(TINY, settings)
    measurements = Measurements(tmp_path / "k.json")
    chosen = flash_attention_here(header, settings, measurements)
    points = points_of(Measurements(tmp_path / "k.json").get(name))
    assert {point.width for point in points} == {1, DRAFTED, READING}
    assert chosen == faster(points, AT_FIRST)
    for read, deep, decided in ((1.0, 5.0, "off"), (1.0, 0.5, "on")):
        known = costs_to_numbers(measured(read, deep))
        measurements.put(name, known)
        assert flash_attention_here(header, settings, measurements) == decided
        assert measurements.get(name) == known


def test_what_was_measured_beside_something_else_is_measured_anew(tmp_path: Path, tiny_path: Path) -> None:
    """Lost otherwise: a third of the speed behind documents, as the first start ran beside a build."""
    name = name_of(TINY, ContextSettings())
    measurements = Measurements(tmp_path / "k.json")
    points = [
        point._replace(seconds=4.0) if not point.flash and point.depth == 0.0 else point
        for point in measured(1.0, 5.0)
    ]
    measurements.put(name, costs_to_numbers(points))
    flash_attention_here(read_header(tiny_path), ContextSettings(), measurements)
    assert measurements.get(name) != costs_to_numbers(points)
    steady = costs_to_numbers(measured(1.0, 5.0))
    measurements.put(name, steady)
    flash_attention_here(read_header(tiny_path), ContextSettings(), measurements)
    assert measurements.get(name) == steady


@pytest.mark.parametrize("numbers", [(1.0,), (1.0, 1.0, 0.0, 0.1), costs_to_numbers(measured(1.0, 1.0)[:-1])])
def test_what_is_remembered_in_part_is_measured_anew(
    tmp_path: Path, tiny_path: Path, numbers: tuple[float, ...]
) -> None:
    """Lost otherwise: the start, to a file that an older version or a full disk left behind."""
    name = name_of(TINY, ContextSettings())
    measurements = Measurements(tmp_path / "k.json")
    measurements.put(name, numbers)
    assert flash_attention_here(read_header(tiny_path), ContextSettings(), measurements) in ("on", "off")
    assert points_of(measurements.get(name))


@pytest.mark.parametrize(
    "settings",
    [
        ContextSettings(flash_attention="on"),
        ContextSettings(flash_attention="off"),
        ContextSettings(cache_type="q8_0"),
        ContextSettings(exact=True),
    ],
)
def test_nothing_is_measured_where_there_is_nothing_to_choose(
    tmp_path: Path, tiny_path: Path, settings: ContextSettings
) -> None:
    """Lost otherwise: what a person set, a quantised cache, or replies in exact mode that stay the same."""
    path = tmp_path / "k.json"
    chosen = flash_attention_here(read_header(tiny_path), settings, Measurements(path))
    assert chosen == settings.flash_attention and not path.exists()


@pytest.mark.parametrize(
    ("extra", "heads"),
    [
        ({}, TINY),
        ({"llama.attention.head_count_kv": 1}, AttentionHeads(2, 1, 16)),
        ({"llama.attention.head_count_kv": [0, 2]}, TINY),
        ({"llama.attention.key_length": 64, "llama.attention.value_length": 64}, AttentionHeads(2, 2, 64)),
        ({"llama.attention.key_length": 64, "llama.attention.value_length": 32}, None),
        ({"llama.attention.key_length_mla": 64}, None),
        ({"llama.attention.head_count": 0}, None),
    ],
)
def test_the_heads_are_the_models(tmp_path: Path, extra: Extra, heads: AttentionHeads | None) -> None:
    """Lost otherwise: a choice by figures of other heads, or a start that fails on a kind of model."""
    assert heads_of(read_header(write_tiny(tmp_path / "some.gguf", extra=extra))) == heads


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return measurements_file()


@pytest.mark.parametrize("chosen", ["on", "off"])
def test_every_context_and_the_cost_curve_go_by_the_choice(
    chosen: FlashAttention, own_cache: Path, tiny_path: Path, tiny_draft_path: Path
) -> None:
    """Lost otherwise: passes priced by the costs of the other way, and a slow draft behind a document."""
    prefer(chosen, own_cache)
    settings = LoadSettings(name=str(tiny_path), draft=str(tiny_draft_path))
    with Assembly(settings, stop=lambda: False) as assembly:
        engine = assembly.engine("off")
        assert engine.target.settings.flash_attention == chosen
        (draft,) = assembly.proposers.choose("draft")
        assert draft._cache.model.settings.flash_attention == chosen  # type: ignore[attr-defined]
        engine.calibrate([1], 0.01)
        *_, end = engine.generate(Request((1, 2, 3), Sampling(), 0, max_tokens=4))
        assert isinstance(end, Finished)
        assembly.remember(engine, end)
    known = json.loads(own_cache.read_text())["known"]
    (costs,) = (name for name in known if name.startswith("costs"))
    assert f" {chosen} f16 " in costs
    assert known["habits"] == pytest.approx(AT_FIRST.after(end))


def test_layers_on_a_gpu_leave_it_to_llama_cpp(
    own_cache: Path, tiny_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost otherwise: a GPU's fast attention, by what was measured on the CPU."""
    prefer("off", own_cache)
    plenty = Memory(1 << 40, (1 << 40,))
    monkeypatch.setattr(loader_module, "machine_memory", lambda rpc: plenty)
    with Assembly(LoadSettings(name=str(tiny_path)), stop=lambda: False) as assembly:
        assert assembly.engine("off").target.settings.flash_attention == "auto"


def test_it_costs_no_context(own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost otherwise: a document that fitted before, since the scores of a chunk take memory as well."""
    prefer("off", own_cache)
    path = write_tiny(tmp_path / "long.gguf", context=1 << 20)
    for system, chosen in ((1 << 40, "off"), (206_500_000, "auto")):
        memory = Memory(system)
        monkeypatch.setattr(loader_module, "machine_memory", lambda rpc, memory=memory: memory)
        with Assembly(LoadSettings(name=str(path)), stop=lambda: False) as assembly:
            assert assembly.engine("off").target.settings.flash_attention == chosen


def test_the_bundled_model_is_measured_and_answers(ask: Ask, bundled: Path, tmp_path: Path) -> None:
    """Lost otherwise: the first answer on a new machine."""
    arguments = ("-p", "Say hello.", "--model", bundled, "--max-tokens", 4, "--ctx", 512, "--json")
    answers = [json.loads(ask(*arguments, "--temp", 0).out) for _ in range(2)]
    assert answers[0]["token_ids"] == answers[1]["token_ids"]
    known = json.loads((tmp_path / "cache" / "specchat" / "measurements.json").read_text())["known"]
    (name,) = (name for name in known if name.startswith("attention"))
    assert name == name_of(AttentionHeads(9, 3, 64), ContextSettings()) and points_of(known[name])
    assert known["habits"] != list(AT_FIRST)
