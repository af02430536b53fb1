"""Free memory as each system tells it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from app.models.memory import SystemMemory, group_paths, system_memory

GIB = 1 << 30
FREE, TOTAL = 22 * GIB, 24 * GIB


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system says, without its control groups."""
    told = SimpleNamespace(available=FREE, total=TOTAL)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: told)


def folder(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


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
    assert system_memory(root) == SystemMemory(5 * GIB, 8 * GIB)


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
    assert system_memory(root) == SystemMemory(GIB, 2 * GIB)


def test_a_group_that_is_full_leaves_nothing(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": f"{GIB}"}
    root = folder(tmp_path, {**files, "sys/fs/cgroup/memory.current": f"{GIB + 4096}"})
    assert system_memory(root) == SystemMemory(0, GIB)


@pytest.mark.parametrize("limit", ["9223372036854771712", "max", "", "many"])
def test_a_group_without_a_limit(limit: str, tmp_path: Path) -> None:
    names = {"memory/memory.limit_in_bytes": limit, "memory/memory.usage_in_bytes": "1", "memory.max": limit}
    groups = {f"sys/fs/cgroup/{name}": text for name, text in names.items()}
    root = folder(tmp_path, {"proc/self/cgroup": "4:memory:/\n0::/\n", **groups})
    assert system_memory(root) == SystemMemory(FREE, TOTAL)
    assert system_memory(tmp_path / "nowhere") == SystemMemory(FREE, TOTAL)


def test_group_paths() -> None:
    assert group_paths("4:memory:/a/b\n3:cpuset:/c\n0::/d\n") == ("/a/b", "/d")
    assert group_paths("0::/../x\n") == (None, "/../x")
    assert group_paths("") == (None, None)


def test_a_system_that_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost otherwise: the whole program, where /proc cannot be read."""

    def refuse() -> None:
        raise PermissionError("no")

    monkeypatch.setattr(psutil, "virtual_memory", refuse)
    assert system_memory() is None


def test_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    memory = system_memory()
    assert memory is not None and 0 < memory.free <= memory.total
