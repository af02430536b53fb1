"""Which processors decode: one too many, and every layer waits for the slowest."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.llama.threads import _linux_cores, performance_cores


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
