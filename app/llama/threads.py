"""How many threads may be worth decoding with.

Decoding is limited by memory. A second thread on the same core, or a slow efficiency core that all others
must wait for at every layer, mostly slows it down; thread_timing.py measures by how much.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

# The CPU time that a container's control group may use: microseconds, and the period that they are for.
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


class Threads(NamedTuple):
    """Numbers of threads: for passes over one token, and for wider passes."""

    narrow: int
    wide: int


def candidate_threads() -> tuple[int, ...]:
    """Numbers of threads worth measuring, smallest first."""
    return _candidates(performance_cores(), _processors())


def _candidates(cores: int, processors: int) -> tuple[int, ...]:
    """All processors, all performance cores, all of them but one, and half of them."""
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
    """How many processors' worth of time Linux grants, according to that file."""
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
    """Cores among the `allowed` processors, without hyper-thread siblings and much slower cores."""
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
