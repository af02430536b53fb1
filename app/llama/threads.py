"""How many threads may be worth decoding with, and how long they spin while they wait for one another.

Decoding waits on memory. A second thread on the same core, or a slow efficiency core that all the
others must wait for at every layer, mostly makes it slower; by how much is measured, see thread_count.py.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

# Turns of GNU's OpenMP before a waiting thread sleeps. Its default is to spin for seconds: then a second busy
# process on the machine slows decoding down a hundred times (measured). 1000 costs an idle machine 2 to 3 %,
# 300 costs it 5 to 13 %. Beside a busy process fewer threads are used anyway; where a person has set two for
# two cores, 1000 leaves a third of the idle speed, 300 nearly half of it, and 3000 a fifth.
_SPINS = "1000"
# A person who has set one of these has chosen.
_CHOSEN = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
# What the group of processes that a container is may use: microseconds in so many microseconds.
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


class Threads(NamedTuple):
    """Numbers of threads: for passes over one token, and for wider ones."""

    narrow: int
    wide: int


def bound_spinning() -> None:
    """Bound how long OpenMP's threads spin, unless the environment says so already.

    It is read when OpenMP is loaded, that is before the first import of llama_cpp or never.
    """
    if not any(name in os.environ for name in _CHOSEN):
        os.environ["GOMP_SPINCOUNT"] = _SPINS


def candidate_threads() -> tuple[int, ...]:
    """Numbers worth measuring, the smallest first."""
    return _candidates(performance_cores(), _processors())


def _candidates(cores: int, processors: int) -> tuple[int, ...]:
    """All processors, the performance cores, one of them left to others, and half of them."""
    return tuple(sorted({processors, cores, max(1, cores - 1), max(1, cores // 2)}))


def performance_cores() -> int:
    """Physical performance cores that this process may run on; at least 1."""
    return min(_cores(), _processors())


def _processors() -> int:
    """Processors that this process may keep busy."""
    if platform.system() == "Linux":
        return min(len(os.sched_getaffinity(0)), _quota(_QUOTA))
    return os.cpu_count() or 1


def _quota(path: Path) -> int:
    """Processors' worth of time that Linux grants, by that file."""
    granted, _, period = _read(path).partition(" ")
    if granted.isdigit() and period.isdigit() and int(period):
        return max(1, int(granted) // int(period))
    return sys.maxsize


def _cores() -> int:
    system = platform.system()
    if system == "Linux":
        return _linux_cores(Path("/sys/devices/system/cpu"), os.sched_getaffinity(0))
    if system == "Darwin":
        for key in ("hw.perflevel0.physicalcpu", "hw.physicalcpu"):
            answer = subprocess.run(["sysctl", "-n", key], capture_output=True, text=True, check=False)
            if answer.returncode == 0 and answer.stdout.strip().isdigit():
                return max(1, int(answer.stdout))
    # Windows counts hyper-threads and gives no portable way to tell cores apart.
    return max(1, (os.cpu_count() or 2) // 2)


def _linux_cores(root: Path, allowed: set[int]) -> int:
    """Cores among `allowed` processors, less hyper-thread siblings and much slower cores."""
    siblings: set[str] = set()
    speeds: list[int] = []
    for processor in sorted(allowed):
        folder = root / f"cpu{processor}"
        group = _read(folder / "topology" / "thread_siblings_list") or str(processor)
        if group in siblings:
            continue
        siblings.add(group)
        speed = _read(folder / "cpu_capacity") or _read(folder / "cpufreq" / "cpuinfo_max_freq")
        speeds.append(int(speed) if speed and speed.isdigit() else 0)
    fast = [speed for speed in speeds if speed >= 0.75 * max(speeds)]
    return max(1, len(fast))


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
