"""`specchat calibrate` measures, keeps and forgets."""

from __future__ import annotations

import json
from pathlib import Path

from app.bench.calibrate import picture
from tests.conftest import Ask


def test_costs_are_measured_kept_and_forgotten(ask: Ask, tiny_path: Path, tmp_path: Path) -> None:
    outcome = ask("calibrate", tiny_path, "--context", 16, "--json")
    assert outcome.code == 0
    costs = json.loads(outcome.out)
    assert {"1", "2", "9"} <= set(costs) and all(seconds > 0 for seconds in costs.values())
    assert (tmp_path / "cache" / "specchat" / "measurements.json").exists()
    assert ask("calibrate", "--forget").code == 0
    assert not (tmp_path / "cache" / "specchat" / "measurements.json").exists()


def test_a_context_without_room_is_said(ask: Ask, tiny_path: Path) -> None:
    outcome = ask("calibrate", tiny_path, "--context", 100_000)
    assert outcome.code != 0 and outcome.err.count("\n") == 1


def test_the_picture_has_a_bar_for_each_width() -> None:
    lines = picture({1: 0.01, 2: 0.02, 8: 0.018}).splitlines()
    assert len(lines) == 4 and lines[2].count("█") == 40 and "2.00" in lines[2]
