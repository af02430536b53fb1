"""The benchmark of rewinds: every way back is made, and says what it reads again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.bench.rewind import ALL_AGAIN, REJECTED, TO_TURN, WAYS, medians
from app.engine.rewind_timing import RewindTiming
from tests.architectures import write_architecture
from tests.conftest import Ask
from tests.tiny import write_tiny

DEPTH = 80
MEMORIES = {"lfm2": "snapshots", "qwen35": "snapshots", "mamba": "copied state", "gemma3": "sliding window"}


def test_figures_are_medians_against_the_plain_pass_beside_them() -> None:
    """Lost otherwise: a machine that slows down for a round passes for a costly way back."""
    made = [
        (way, RewindTiming(again, slow * 2.0, slow * 6.0, slow * 1.0, slow * 3.0))
        for slow in (1.0, 50.0, 1.0)
        for way, again in (("one", 0), ("other", 5))
    ]
    one, other = medians(made)
    assert (one.way, other.way, other.again) == ("one", "other", 5)
    assert (one.before, one.back, one.next, one.cost) == (3.0, 0.5, 1.5, 1.0)


@pytest.mark.parametrize("architecture", [*MEMORIES, "llama"])
def test_every_way_back_is_measured(architecture: str, ask: Ask, tmp_path: Path) -> None:
    """Lost otherwise: the benchmark, on the models that it is for."""
    path = tmp_path / "model.gguf"
    if architecture == "llama":
        write_tiny(path, context=1024)
    else:
        write_architecture(path, architecture)
    outcome = ask("bench", "rewind", "--model", path, "--rounds", 1, "--depth", DEPTH, "--json")
    assert outcome.code == 0, outcome.err
    result = json.loads(outcome.out)
    memory = MEMORIES.get(architecture, "attention")
    assert result["memory"] == memory and result["depth"] == DEPTH and result["plain_ms"] > 0
    assert (result["copy_bytes"] > 0) == (memory in ("snapshots", "copied state"))
    rows = {row["way"]: row for row in result["rows"]}
    assert tuple(rows) == WAYS
    assert all(min(row["before"], row["back"], row["next"]) >= 0 for row in rows.values())
    again = {way: row["again"] for way, row in rows.items()}
    assert again[TO_TURN] == 0 and again[ALL_AGAIN] == DEPTH
    rejecting = [again[way] for way in WAYS[: len(REJECTED)]]
    if memory == "copied state":
        # Behind the copy lie the token that every pass begins with and those that were accepted.
        assert rejecting == [0, 16, 13, 1]
    elif memory != "snapshots":
        assert rejecting == [0, 0, 0, 0]
    else:
        # Nothing within the snapshots that there are.
        assert rejecting[:3] == [0, 0, 0]


def test_the_table_names_the_memory(ask: Ask, tmp_path: Path) -> None:
    path = write_architecture(tmp_path / "mamba.gguf", "mamba", context=256)
    first, titles, *lines = ask("bench", "rewind", "--model", path, "--rounds", 1).out.splitlines()
    assert first.startswith("memory: copied state, ") and "after 187 tokens" in first
    assert titles.split() == ["way", "again", "before", "back", "next", "cost"]
    assert [line.split("  ")[0] for line in lines] == list(WAYS)


def test_a_context_that_is_too_small_is_a_sentence(ask: Ask, tmp_path: Path) -> None:
    path = write_architecture(tmp_path / "mamba.gguf", "mamba", context=48)
    told = ask("bench", "rewind", "--model", path)
    assert told.code == 4 and "too small" in told.err
