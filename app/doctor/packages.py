"""Python and the packages: their versions, read without importing any."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterable, Sequence
from importlib import metadata

from app.doctor.install import Host, requirements
from app.doctor.report import Check, fault, ok, warning

PACKAGES = ("specchat", "llama-cpp-python", "textual", "huggingface-hub", "numpy")
_NEWEST_TRIED = (3, 14)


def python_check(host: Host, bits: int = 64 if sys.maxsize > 2**32 else 32, kernel: str = "") -> Check:
    """Which Python runs. kernel: what the system calls itself, by default platform.version()."""
    version = ".".join(map(str, host.python))
    finding = f"{version}, {platform.system() or host.system} {host.machine}"
    if bits < 64:
        return fault("python", f"{finding}, {bits} bits", "No model fits: install a 64-bit Python.")
    if host.system == "darwin" and host.machine == "x86_64" and "ARM64" in (kernel or platform.version()):
        finding = f"{finding}, translated on an Apple chip"
        return warning("python", finding, "This is slow and leaves the GPU unused: install an arm64 Python.")
    if host.python[:2] > _NEWEST_TRIED:
        newest = ".".join(map(str, _NEWEST_TRIED))
        return warning("python", finding, f"specchat is untested with it: if it fails, use Python {newest}.")
    return ok("python", finding)


def packages_check(host: Host) -> Check:
    """The installed versions, compared with those that specchat needs."""
    return judge([(name, version_of(name)) for name in PACKAGES], requirements(), host)


def judge(
    installed: Sequence[tuple[str, str | None]], required: Iterable[tuple[str, str]], host: Host
) -> Check:
    """The line for these versions; None for a package that is not there."""
    versions = dict(installed)
    wanted = [
        f'"{name}>={least}"'
        for name, least in required
        if name in versions and _numbers(versions[name]) < _numbers(least)
    ]
    finding = ", ".join(f"{name} {version or 'missing'}" for name, version in installed)
    if not wanted:
        return ok("packages", finding)
    command = f"{host.install} {' '.join(wanted)}"
    return fault("packages", finding, "A package is missing or too old:", command)


def version_of(name: str) -> str | None:
    """The installed version of a package, None where it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str | None) -> tuple[int, ...]:
    """The leading numbers of a version without zeros at the end; () for None."""
    match = re.match(r"[\d.]*\d", version or "")
    found = [int(part) for part in match[0].split(".")] if match else []
    while found and not found[-1]:
        found.pop()
    return tuple(found)
