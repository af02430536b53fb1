"""AMX that does not work is found out before it kills the engine, and nothing else is given up for it."""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from app.llama import layouts, trial
from app.llama.build import build_and_cpu
from app.llama.context import Context
from app.llama.layouts import AMX, amx, choose_layouts, layouts_in_use
from app.llama.model import Model
from app.llama.probe_model import write_probe_model
from app.llama.settings import ContextSettings, ModelSettings
from app.llama.trial import try_model
from app.measurements import Measurements, measurements_file

LIVES = "import sys; sys.stdout.buffer.write(bytes({size}))"
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="no signals there")


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ctypes.Array[ctypes.c_void_p]]:
    """A list of two layouts as llama.cpp holds it, AMX's first, of a build that was never tried."""
    place = (ctypes.c_void_p * 3)(1, 2, None)
    monkeypatch.setattr(layouts, "_listed", lambda: (place, (1, 2)))
    monkeypatch.setattr(layouts, "_name", lambda handle: {1: AMX, 2: "CPU_REPACK"}[handle])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = amx()
    amx.cache_clear()
    yield place
    amx.cache_clear()
    monkeypatch.undo()
    assert amx() == before


def child_is(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(trial, "_CHILD", (sys.executable, "-c", code))


@POSIX
def test_amx_that_kills_a_process_is_left_out_and_the_rest_stays(
    listed: ctypes.Array[ctypes.c_void_p], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost otherwise: the chat, on every newer Xeon whose llama.cpp was compiled by gcc 12."""
    child_is(monkeypatch, f"import os; os.kill(os.getpid(), {int(signal.SIGILL)})")
    assert choose_layouts("safe") and list(listed) == [2, None, None]
    assert layouts_in_use() == {"CPU_REPACK"}
    assert amx() == ("was killed by SIGILL", True)
    assert choose_layouts("all") and list(listed) == [1, 2, None]
    assert not choose_layouts("plain")
    # Another run finds the answer and starts no process.
    child_is(monkeypatch, "raise SystemExit('tried again')")
    amx.cache_clear()
    assert amx() == ("was killed by SIGILL", False)


def test_amx_that_works_is_used(
    listed: ctypes.Array[ctypes.c_void_p], monkeypatch: pytest.MonkeyPatch
) -> None:
    child_is(monkeypatch, LIVES.format(size=400))
    assert choose_layouts("safe") and list(listed) == [1, 2, None]
    assert amx() == (None, True) and layouts_in_use() == {AMX, "CPU_REPACK"}


def test_amx_that_computes_something_else_is_left_out(
    listed: ctypes.Array[ctypes.c_void_p], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost otherwise: right replies, where a broken kernel does not even crash."""
    # The number 1.0 with AMX's layout, 0.0 without.
    child_is(
        monkeypatch,
        "import sys; sys.stdout.buffer.write(bytes([0, 0, 128, 63] if 'all' in sys.argv[-1] else 4))",
    )
    assert amx().fault == "computes wrong numbers"
    amx.cache_clear()
    assert amx().fault == "computes wrong numbers"


def test_a_trial_that_hangs_is_made_again_another_time(
    listed: ctypes.Array[ctypes.c_void_p], monkeypatch: pytest.MonkeyPatch
) -> None:
    child_is(monkeypatch, "import time; time.sleep(600)")
    monkeypatch.setattr(trial, "_TIMEOUT", 0.2)
    assert amx().fault == "did not answer"
    assert not Measurements(measurements_file()).get(f"amx {build_and_cpu()}")


def test_the_probes_own_model_computes_the_same_in_every_sound_layout(tmp_path: Path) -> None:
    path = write_probe_model(tmp_path / "probe.gguf")
    sound, plain = (try_model(path, ModelSettings(0, layouts=kind)) for kind in ("safe", "plain"))
    assert sound.status == plain.status == 0
    assert len(plain.logits) == 5 * 256 and np.ptp(plain.logits) > 1.0
    assert np.allclose(sound.logits, plain.logits, atol=0.05)


def test_wide_passes_live_in_this_process(tmp_path: Path) -> None:
    """On a CPU whose AMX is broken this is what kills the engine if it is not left out."""
    path = write_probe_model(tmp_path / "probe.gguf")
    with Model(path) as model, Context(model, 256, ContextSettings(threads=1)) as context:
        assert np.isfinite(context.forward(list(range(64)), 33)).all()


def test_what_was_found_out_here_is_so(tmp_path: Path) -> None:
    """A process that takes the layouts as llama.cpp lists them dies where AMX is broken, and only there."""
    path = write_probe_model(tmp_path / "probe.gguf")
    lived = try_model(path, ModelSettings(0, layouts="all")).status == 0
    assert lived == (amx().fault in (None, "computes wrong numbers"))
