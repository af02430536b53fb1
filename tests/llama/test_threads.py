"""Which processors may decode: one too many, and every layer waits for the slowest; and how that is tried."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from app.llama import thread_timing
from app.llama.context import Context
from app.llama.model import Model
from app.llama.settings import ContextSettings
from app.llama.thread_timing import fastest, fastest_threads
from app.llama.threads import Threads, _candidates, _linux_cores, _quota, candidate_threads, performance_cores


def machine(root: Path, cores: list[dict[str, str]]) -> Path:
    """A folder as Linux's /sys/devices/system/cpu, one dictionary of file texts a processor."""
    for number, files in enumerate(cores):
        for name, text in files.items():
            path = root / f"cpu{number}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")
    return root


SIBLINGS = "topology/thread_siblings_list"
SPEED = "cpufreq/cpuinfo_max_freq"


def test_hyper_threads_count_once(tmp_path: Path) -> None:
    """Lost otherwise: two threads fight for one core on most laptops."""
    pairs = ["0,4", "1,5", "2,6", "3,7"] * 2
    root = machine(tmp_path, [{SIBLINGS: pair, SPEED: "4000000"} for pair in pairs])
    assert _linux_cores(root, set(range(8))) == 4


def test_efficiency_cores_are_left_out(tmp_path: Path) -> None:
    """Lost otherwise: all cores wait for the slow ones at every layer."""
    fast = [{SIBLINGS: f"{2 * (n // 2)}-{2 * (n // 2) + 1}", SPEED: "5000000"} for n in range(8)]
    slow = [{SIBLINGS: str(n), SPEED: "3600000"} for n in range(8, 16)]
    assert _linux_cores(machine(tmp_path, [*fast, *slow]), set(range(16))) == 4


def test_cores_of_nearly_one_speed_all_count(tmp_path: Path) -> None:
    """Lost otherwise: processors whose two best cores are clocked a little higher run on two cores."""
    speeds = ["5000000", "5000000", "4700000", "4700000"]
    root = machine(tmp_path, [{SIBLINGS: str(n), SPEED: speed} for n, speed in enumerate(speeds)])
    assert _linux_cores(root, set(range(4))) == 4


def test_capacity_is_asked_before_the_clock(tmp_path: Path) -> None:
    """Lost otherwise: small Arm cores with a high clock count as big ones."""
    capacities = ["1024", "1024", "446", "446"]
    cores = [
        {SIBLINGS: str(n), "cpu_capacity": capacity, SPEED: "2400000"}
        for n, capacity in enumerate(capacities)
    ]
    assert _linux_cores(machine(tmp_path, cores), set(range(4))) == 2


def test_only_allowed_processors_count(tmp_path: Path) -> None:
    """Lost otherwise: a container of two processors runs sixteen threads on them."""
    root = machine(tmp_path, [{SIBLINGS: str(n), SPEED: "4000000"} for n in range(16)])
    assert _linux_cores(root, {3, 9}) == 2


@pytest.mark.parametrize("speed", ["", "<unknown>", "0"])
def test_a_machine_that_tells_nothing_uses_what_it_may(tmp_path: Path, speed: str) -> None:
    """Lost otherwise: no thread at all where the folders are missing or odd, as in many containers."""
    assert _linux_cores(tmp_path / "none", {0, 1, 2}) == 3
    root = machine(tmp_path, [{SPEED: speed} for _ in range(3)])
    assert _linux_cores(root, {0, 1, 2}) == 3


def test_this_machine_has_a_core() -> None:
    """Lost otherwise: everything."""
    assert performance_cores() >= 1
    assert performance_cores() in candidate_threads()


@pytest.mark.parametrize(
    ("cores", "processors", "candidates"),
    [(1, 1, (1,)), (1, 2, (1, 2)), (2, 2, (1, 2)), (4, 8, (2, 3, 4, 8)), (64, 128, (32, 63, 64, 128))],
)
def test_candidates(cores: int, processors: int, candidates: tuple[int, ...]) -> None:
    """Lost otherwise: the best number, or seconds of loading to numbers that nobody needs."""
    assert _candidates(cores, processors) == candidates


@pytest.mark.parametrize(
    ("text", "most"),
    [("200000 100000", 2), ("350000 100000", 3), ("50000 100000", 1), ("max 100000", None), ("", None)],
)
def test_a_container_has_as_many_processors_as_it_was_given(
    text: str, most: int | None, tmp_path: Path
) -> None:
    """Lost otherwise: sixty-four threads that are stopped in turn, in a container that may use two."""
    (tmp_path / "cpu.max").write_text(text + "\n")
    assert _quota(tmp_path / "cpu.max") == (most or _quota(tmp_path / "none"))


def test_the_usual_number_stays_unless_another_is_clearly_faster() -> None:
    """Lost otherwise: another number at each start, for noise; or a third of the speed, for caution."""
    noisy = [{1: 6.9, 2: 7.2}, {1: 7.1, 2: 40.0}, {1: 7.0, 2: 7.0}]
    assert fastest(noisy, 2) == 2
    faster = [{1: 7.0, 2: 4.0}, {1: 7.0, 2: 90.0}, {1: 7.2, 2: 4.1}]
    assert fastest(faster, 1) == 2 and fastest(faster, 2) == 2


def test_measuring_leaves_the_context_as_it_was(tiny_path: Path) -> None:
    """Lost otherwise: a reply that follows tokens used only for timing."""
    for exact in (False, True):
        with Model(tiny_path) as model, Context(model, 64, ContextSettings(exact=exact)) as context:
            found = fastest_threads(context, (1, 2), 1)
            assert context.length == 0 and context.threads == found
            assert found.narrow in (1, 2) and found.wide in (1, 2)


class Watched(Context):
    """A context that notes the widths of its passes."""

    def forward(self, tokens: Sequence[int], rows: int = 1) -> NDArray[np.float32]:
        self.widths = [*getattr(self, "widths", []), len(tokens)]
        return super().forward(tokens, rows)


def test_a_slow_model_makes_two_passes_and_no_more(tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost otherwise: half a minute before the first word, where a pass takes seconds."""
    monkeypatch.setattr(thread_timing, "_MOST", 0.0)
    with Model(tiny_path) as model, closing(Watched(model, 64)) as context:
        assert fastest_threads(context, (1, 2), 2) == (2, 2)
        assert context.widths == [4, 1]


def test_a_context_with_no_room_to_measure_keeps_what_is_usual(tiny_path: Path) -> None:
    """Lost otherwise: the chat, to --ctx 2."""
    with Model(tiny_path) as model, Context(model, 2) as context:
        assert fastest_threads(context, (1, 2), 1) == context.threads == Threads(1, 1)


def test_threads_are_changed_between_passes_and_change_no_number(tiny_path: Path) -> None:
    """Lost otherwise: exact mode, on a machine that is busy now and then."""
    with Model(tiny_path) as model, Context(model, 64, ContextSettings(threads=1)) as context:
        rows = []
        for threads in (Threads(1, 1), Threads(2, 1), Threads(2, 2), Threads(1, 2)):
            context.use_threads(threads)
            assert context.threads == threads
            rows.append([context.forward([7, 8, 9], rows=3).copy(), context.forward([10]).copy()])
            context.rollback(0)
        assert all((wide == rows[0][0]).all() and (narrow == rows[0][1]).all() for wide, narrow in rows)


def test_the_context_of_a_draft_takes_the_targets_numbers(tiny_path: Path) -> None:
    """Lost otherwise: drafts that wait for a core which the target has long given up."""
    settings = ContextSettings(threads=1)
    with Model(tiny_path) as model, Context(model, 64, settings) as target, Context(model, 64) as draft:
        draft.thread_source = target
        target.use_threads(Threads(2, 1))
        draft.forward([7])
        assert draft.threads == Threads(2, 1)
