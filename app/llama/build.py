"""Identifies this build of llama.cpp and the CPU it runs on: what is measured with one holds for no other."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from pathlib import Path

from llama_cpp import _ggml

# Lines of /proc/cpuinfo that decide which instructions there are and whether they work.
_CPU = ("vendor_id", "cpu family", "model", "model name", "stepping", "microcode", "flags", "Features")


@cache
def build_and_cpu() -> str:
    """A short digest of llama.cpp's libraries (name, size, time) and of the CPU."""
    libraries = [
        (path.name, path.stat().st_size, path.stat().st_mtime_ns)
        for path in sorted(Path(_ggml.libggml_base_path).iterdir())
    ]
    return hashlib.sha256(repr((libraries, _cpu(Path("/proc/cpuinfo")))).encode()).hexdigest()[:16]


def _cpu(information: Path) -> str:
    """The first processor, from that file on Linux, elsewhere from what Python knows."""
    try:
        lines = information.read_text(errors="replace").partition("\n\n")[0].splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    return "\n".join(line for line in lines if line.partition(":")[0].strip() in _CPU)
