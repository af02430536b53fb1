"""How much memory this machine has left for a model: psutil's answer, within the limits of control groups."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True, slots=True)
class SystemMemory:
    """Bytes. free: what can be had without pushing other programs out; caches of files count as free."""

    free: int
    total: int


def system_memory(root: Path = Path("/")) -> SystemMemory | None:
    """This machine's memory, less where a control group of Linux (a container) allows less; None where the
    system does not tell. root: the folder that holds /proc and /sys."""
    try:
        memory = psutil.virtual_memory()
    except (psutil.Error, OSError, NotImplementedError):
        return None
    free, total = memory.available, memory.total
    for folder, names in _groups(root):
        limit = _number(_read(folder / names.limit))
        used = _number(_read(folder / names.used))
        # A group without a limit says "max" (version 2) or a number beyond all memory (version 1).
        if limit is not None and used is not None and limit < memory.total:
            kept = group_cache(_read(folder / "memory.stat"), names.cache)
            free = min(free, max(0, limit - max(0, used - kept)))
            total = min(total, limit)
    return SystemMemory(free, total)


@dataclass(frozen=True, slots=True)
class _Names:
    """What a version of control groups calls its files."""

    limit: str
    used: str
    cache: str


_VERSION_1 = _Names("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_VERSION_2 = _Names("memory.max", "memory.current", "inactive_file")


def group_paths(text: str) -> tuple[str | None, str | None]:
    """This process's memory groups of version 1 and version 2, out of /proc/self/cgroup."""
    first = second = None
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            second = path
        elif "memory" in controllers.split(","):
            first = path
    return first, second


def group_cache(text: str, name: str) -> int:
    """Bytes of file caches that a group can drop, out of its memory.stat."""
    found = re.search(rf"^{name} (\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else 0


def _groups(root: Path) -> Iterator[tuple[Path, _Names]]:
    """Folders of all groups that hold this process: every one above it limits it as well."""
    first, second = group_paths(_read(root / "proc/self/cgroup"))
    mount = root / "sys/fs/cgroup"
    for path, top, names in ((first, mount / "memory", _VERSION_1), (second, mount, _VERSION_2)):
        if path is None:
            continue
        # Inside a container the path may be the one outside; the container's own group is then the top.
        parts = [part for part in path.split("/") if part and part != ".."]
        for depth in range(len(parts), -1, -1):
            yield top.joinpath(*parts[:depth]), names


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _number(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isdecimal() else None
