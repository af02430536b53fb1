"""The benchmark beside busy processes: its load is real and goes away, and its ratios mean what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.bench.busy import DEFAULTS, SPECCHAT, BusyReply, TimedEngine, busy, environment, medians
from app.errors import SpecchatError


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such sessions")
def test_busy_processes_have_sessions_of_their_own_and_end_with_an_error_too() -> None:
    """Lost otherwise: half of a person's machine to a benchmark that failed hours ago."""
    made: list[subprocess.Popen[bytes]] = []
    with pytest.raises(RuntimeError), busy(2) as processes:
        made += processes
        sessions = {os.getsid(process.pid) for process in processes}
        assert len(sessions | {os.getsid(0)}) == 3
        assert all(process.poll() is None for process in processes)
        raise RuntimeError
    assert len(made) == 2 and all(process.returncode is not None for process in made)


def test_each_side_answers(tiny_path: Path) -> None:
    """Lost otherwise: the benchmark."""
    for side in (SPECCHAT, DEFAULTS):
        with TimedEngine(side, str(tiny_path), 8) as engine:
            assert engine.speed("off") > 0 and engine.speed("auto") > 0


def test_an_engine_that_ends_is_told(tmp_path: Path) -> None:
    """Lost otherwise: a benchmark that waits for ever, or ends in a traceback."""
    with (
        TimedEngine(SPECCHAT, str(tmp_path / "none.gguf"), 8) as engine,
        pytest.raises(SpecchatError, match="ended"),
    ):
        engine.speed("off")


def test_what_a_person_has_set_for_openmp_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost otherwise: the defaults' figures, on any machine where the variable is set."""
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    assert "OMP_WAIT_POLICY" not in environment(DEFAULTS) and "GOMP_SPINCOUNT" not in environment(SPECCHAT)
    assert environment(DEFAULTS)["GOMP_SPINCOUNT"] != "7"


def test_ratios_are_taken_within_a_round() -> None:
    """Lost otherwise: a machine that was slower in one round shows as a loss or a gain."""
    made = [
        BusyReply(side, "plain", load, drift * speed)
        for drift in (1.0, 0.25, 3.0)
        for side, load, speed in (
            (SPECCHAT, 0, 190.0),
            (SPECCHAT, 1, 95.0),
            (DEFAULTS, 0, 200.0),
            (DEFAULTS, 1, 2.0),
        )
    ]
    rows = {(row.side, row.busy): row for row in medians(made)}
    assert rows[SPECCHAT, 1].of_idle == pytest.approx(0.5)
    assert rows[SPECCHAT, 0].of_defaults == pytest.approx(0.95)
    assert rows[DEFAULTS, 1].of_idle == pytest.approx(0.01)
    assert rows[SPECCHAT, 0].tokens_per_second == 190.0
