"""Numbers of threads from loading to the last pass: measured, remembered, followed, or set by a person."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import pytest

from app.assembly import threads as threads_module
from app.assembly.assembly import Assembly
from app.assembly.threads import follow_threads
from app.config.values import LoadSettings
from app.engine.events import Finished, Request
from app.engine.loop import Engine
from app.engine.settings import Sampling
from app.engine.thread_tuner import ThreadTuner
from app.llama.context import Context
from app.llama.model import Model
from app.llama.settings import ContextSettings
from app.llama.threads import Threads
from app.measurements import Measurements


@pytest.fixture(autouse=True)
def two_processors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(threads_module, "candidate_threads", lambda: (1, 2))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def answer(engine: Engine) -> tuple[int, ...]:
    *_, finished = engine.generate(Request((5, 6, 7, 8), Sampling(temperature=0.0), seed=0, max_tokens=40))
    assert isinstance(finished, Finished)
    return finished.token_ids


def test_a_number_that_a_person_set_is_never_changed(tiny_path: Path) -> None:
    """Lost otherwise: the cores that were to be left to something else."""
    settings = LoadSettings(str(tiny_path), threads=1)
    with Assembly(settings, stop=lambda: False) as assembly:
        engine = assembly.engine("lookup")
        assert engine.threads is None
        answer(engine)
        assert engine.target.threads == Threads(1, 1)


def test_the_rest_is_measured_and_followed(tiny_path: Path) -> None:
    """Lost otherwise: half the speed on a machine that others use too."""
    with Assembly(LoadSettings(name=str(tiny_path)), stop=lambda: False) as assembly:
        engine = assembly.engine("lookup")
        assert engine.threads is not None and engine.target.threads == engine.threads.first


def test_what_was_measured_is_remembered_for_this_model_and_these_settings(
    tiny_path: Path, tmp_path: Path
) -> None:
    """Lost otherwise: a whole measurement at each start, or the numbers of another model."""
    file = tmp_path / "measurements.json"
    with Model(tiny_path) as model, Context(model, 64) as context:
        choice = follow_threads(context, "one", Measurements(file))
    assert choice is not None
    ((name, numbers),) = Measurements(file)._known.items()
    assert numbers == choice.first and " one " in name
    with Model(tiny_path) as model, Context(model, 64, ContextSettings(exact=True)) as context:
        follow_threads(context, "one", Measurements(file))
        follow_threads(context, "two", Measurements(file))
    assert len(Measurements(file)._known) == 3


def test_nonsense_that_is_remembered_is_measured_anew(tiny_path: Path, tmp_path: Path) -> None:
    """Lost otherwise: the program, to a damaged file."""
    measurements = Measurements(tmp_path / "measurements.json")
    with Model(tiny_path) as model, Context(model, 64) as context:
        follow_threads(context, "one", measurements)
        (name,) = measurements._known
        for nonsense in ((), (1.0,), (0.0, 0.0), (1e9, 2.0), (1.5, 1.0)):
            measurements.put(name, nonsense)
            choice = follow_threads(context, "one", measurements)
            assert choice is not None and set(choice.first) <= {1, 2}
            assert measurements.get(name) == choice.first


class Restless(ThreadTuner):
    """Changes its mind after each pass."""

    def __init__(self) -> None:
        super().__init__((1, 2), Threads(1, 1))
        self._next = cycle((Threads(2, 2), Threads(1, 2), Threads(2, 1), Threads(1, 1)))

    def observe(self, width: int, seconds: float, now: float) -> Threads:
        assert width >= 1 and seconds > 0.0
        super().observe(width, seconds, now)
        return next(self._next)


@pytest.mark.parametrize("exact", [False, True])
def test_a_reply_is_the_same_whatever_the_threads(exact: bool, tiny_path: Path) -> None:
    """Lost otherwise: the promise of exact mode, to a busy machine."""
    settings = LoadSettings(str(tiny_path), threads=1, exact=exact)
    with Assembly(settings, stop=lambda: False) as assembly:
        engine = assembly.engine("lookup")
        fixed = answer(engine)
        engine.threads = Restless()
        assert answer(engine) == fixed


def test_a_curve_of_changed_threads_is_not_remembered(tiny_path: Path) -> None:
    """Lost otherwise: the costs of a busy machine, taken for those of a quiet one at the next start."""
    with Assembly(LoadSettings(name=str(tiny_path)), stop=lambda: False) as assembly:
        engine = assembly.engine("lookup")
        engine.calibrate([1])
        before = engine.target.threads
        engine.target.use_threads(Threads(3 - before.narrow, before.wide))
        assembly.remember(engine)
        assert not assembly.engine("lookup").controller.costs.measured
        engine.target.use_threads(before)
        assembly.remember(engine)
    with Assembly(LoadSettings(name=str(tiny_path)), stop=lambda: False) as assembly:
        again = assembly.engine("lookup")
        assert again.controller.costs.measured or again.target.threads != before
