"""The checks of a GPU: what a machine without one is told, and that each can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.bench import device as bench
from app.llama.facts import Device
from tests.conftest import Ask

NO_GPU = pytest.mark.skipif(bool(bench.gpus()), reason="there is a GPU")


@NO_GPU
def test_without_a_gpu_it_says_so_and_ends(ask: Ask) -> None:
    """Lost otherwise: minutes of checks that pass on the CPU, and prove nothing."""
    outcome = ask("bench", "device")
    assert (outcome.code, outcome.out) == (3, "")
    assert outcome.err.count("\n") == 1
    assert outcome.err.strip().endswith(
        "llama.cpp finds no GPU here to check: `specchat doctor` says what it needs."
    )


@NO_GPU
def test_a_gpu_that_holds_nothing_fails(ask: Ask, bundled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost otherwise: a build that lists its GPU and does not use it passes."""
    idle = Device("GPU0", "an idle GPU", "gpu", 0, 0, "none")
    monkeypatch.setattr(bench, "devices", lambda: (idle,))
    outcome = ask("bench", "device", "--model", bundled, "--tokens", 2)
    lines = outcome.out.splitlines()
    assert outcome.code == 1, outcome.err
    results = {name: line.split()[0] for line in lines for name in bench.CHECKS if name in line}
    assert tuple(results) == tuple(bench.CHECKS)
    # How long something takes is for a machine that does nothing else.
    timed = {"reading, timed by itself", "calibration, within its time"}
    failed = {name for name, result in results.items() if result == "FAILED"} - timed
    assert failed == {"layers on the device", "half of the layers"}
