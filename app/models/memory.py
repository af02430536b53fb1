"""How much memory this machine has left for a model, on Linux (containers included), macOS and Windows."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_KIB = 1024


@dataclass(frozen=True, slots=True)
class SystemMemory:
    """Bytes. free: what can be had without pushing other programs out; caches of files count as free."""

    free: int
    total: int


def system_memory() -> SystemMemory | None:
    """This machine's memory, within the limits of the container; None where the system does not tell."""
    if sys.platform == "win32":
        return _windows_memory()
    if sys.platform == "darwin":
        return macos_memory(_output("vm_stat"), _output("sysctl", "-n", "hw.memsize"))
    return linux_memory(Path("/"))


def linux_memory(root: Path) -> SystemMemory | None:
    """Memory by the files below `root`: /proc/meminfo, less where a control group allows less."""
    memory = meminfo(_read(root / "proc/meminfo"))
    if memory is None:
        return None
    free, total = memory.free, memory.total
    for folder, names in _groups(root):
        limit = _number(_read(folder / names.limit))
        used = _number(_read(folder / names.used))
        # A group without a limit says "max" (version 2) or a number beyond all memory (version 1).
        if limit is not None and used is not None and limit < memory.total:
            kept = group_cache(_read(folder / "memory.stat"), names.cache)
            free = min(free, max(0, limit - max(0, used - kept)))
            total = min(total, limit)
    return SystemMemory(free, total)


def meminfo(text: str) -> SystemMemory | None:
    """Free and total memory out of /proc/meminfo; None where it does not say."""
    values = {
        name: int(value) * _KIB for name, value in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)
    }
    total, free = values.get("MemTotal"), values.get("MemAvailable")
    return None if total is None or free is None else SystemMemory(free, total)


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


def macos_memory(vm_stat: str, total: str) -> SystemMemory | None:
    """Memory out of what `vm_stat` and `sysctl -n hw.memsize` print; None where they do not say."""
    page = re.search(r"page size of (\d+) bytes", vm_stat)
    pages = dict(re.findall(r"^Pages ([\w ]+):\s+(\d+)\.$", vm_stat, re.MULTILINE))
    whole = _number(total)
    if page is None or "free" not in pages or whole is None:
        return None
    count = sum(int(pages.get(name, 0)) for name in ("free", "inactive", "speculative"))
    return SystemMemory(min(whole, count * int(page[1])), whole)


class _MemoryStatus(ctypes.Structure):
    """MEMORYSTATUSEX of the Windows interface."""

    _fields_ = (
        ("length", ctypes.c_uint32),
        ("load", ctypes.c_uint32),
        ("total", ctypes.c_uint64),
        ("free", ctypes.c_uint64),
        ("rest", ctypes.c_uint64 * 5),
    )


def _windows_memory() -> SystemMemory | None:
    if sys.platform != "win32":
        return None
    status = _MemoryStatus()
    status.length = ctypes.sizeof(status)
    if not ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        return None
    return SystemMemory(status.free, status.total)


def _output(*command: str) -> str:
    """What a program prints; nothing where it is not there."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _number(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isdecimal() else None
