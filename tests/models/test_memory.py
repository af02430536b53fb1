"""Free memory as each system tells it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from app.models.memory import SystemMemory, group_paths, linux_memory, macos_memory, meminfo, system_memory

MEMINFO = """MemTotal:       24683656 kB
MemFree:        18939520 kB
MemAvailable:   22876532 kB
Buffers:          138272 kB
HugePages_Total:       0
"""
GIB = 1 << 30

VM_STAT = """Mach Virtual Memory Statistics: (page size of 16384 bytes)
Pages free:                               65536.
Pages active:                            400000.
Pages inactive:                          131072.
Pages speculative:                         4096.
Pages wired down:                        120000.
"Translation faults":                 123456789.
File-backed pages:                       210000.
"""


def folder(root: Path, files: dict[str, str]) -> Path:
    for name, text in {"proc/meminfo": MEMINFO, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_meminfo() -> None:
    assert meminfo(MEMINFO) == SystemMemory(22876532 * 1024, 24683656 * 1024)
    assert meminfo("MemTotal: 24683656 kB\n") is None
    assert meminfo("") is None


def test_a_container_of_version_2_limits(tmp_path: Path) -> None:
    """Lost otherwise: a context that the container's limit ends the program over."""
    root = folder(
        tmp_path,
        {
            "proc/self/cgroup": "0::/work/shop\n",
            "sys/fs/cgroup/work/memory.max": f"{8 * GIB}\n",
            "sys/fs/cgroup/work/memory.current": f"{6 * GIB}\n",
            "sys/fs/cgroup/work/memory.stat": f"anon {GIB}\ninactive_file {3 * GIB}\nslab 5\n",
            "sys/fs/cgroup/work/shop/memory.max": "max\n",
            "sys/fs/cgroup/work/shop/memory.current": f"{GIB}\n",
        },
    )
    assert linux_memory(root) == SystemMemory(5 * GIB, 8 * GIB)


def test_a_container_of_version_1_that_sees_itself_as_the_top(tmp_path: Path) -> None:
    root = folder(
        tmp_path,
        {
            "proc/self/cgroup": "9:name=systemd:/\n4:cpu,memory:/docker/0123abcd\n0::/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2 * GIB}\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{GIB}\n",
            "sys/fs/cgroup/memory/memory.stat": "total_inactive_file 0\n",
        },
    )
    assert linux_memory(root) == SystemMemory(GIB, 2 * GIB)


def test_a_group_that_is_full_leaves_nothing(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": f"{GIB}"}
    root = folder(tmp_path, {**files, "sys/fs/cgroup/memory.current": f"{GIB + 4096}"})
    assert linux_memory(root) == SystemMemory(0, GIB)


@pytest.mark.parametrize("limit", ["9223372036854771712", "max", "", "many"])
def test_a_group_without_a_limit(limit: str, tmp_path: Path) -> None:
    names = {"memory/memory.limit_in_bytes": limit, "memory/memory.usage_in_bytes": "1", "memory.max": limit}
    groups = {f"sys/fs/cgroup/{name}": text for name, text in names.items()}
    root = folder(tmp_path, {"proc/self/cgroup": "4:memory:/\n0::/\n", **groups})
    assert linux_memory(root) == meminfo(MEMINFO)
    assert linux_memory(tmp_path / "nowhere") is None


def test_group_paths() -> None:
    assert group_paths("4:memory:/a/b\n3:cpuset:/c\n0::/d\n") == ("/a/b", "/d")
    assert group_paths("0::/../x\n") == (None, "/../x")
    assert group_paths("") == (None, None)


def test_macos() -> None:
    """What can be dropped counts as free there: file caches lie among the inactive pages."""
    free = (65536 + 131072 + 4096) * 16384
    assert macos_memory(VM_STAT, "17179869184\n") == SystemMemory(free, 16 * GIB)
    assert macos_memory(VM_STAT, "") is None
    assert macos_memory("", "17179869184\n") is None


def test_this_machine() -> None:
    memory = system_memory()
    if sys.platform in ("linux", "darwin", "win32"):
        assert memory is not None
        assert 0 < memory.free <= memory.total
