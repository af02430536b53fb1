"""Python and the packages: their versions, read without importing any."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterable, Sequence
from importlib import metadata

from app.doctor.check import Check
from app.doctor.host import Host

PACKAGES = ("specchat", "llama-cpp-python", "textual", "huggingface-hub", "numpy")
_NEWEST_TRIED = (3, 14)
_REQUIREMENT = re.compile(r"([\w.-]+)>=([\d.]+)")


def python_check(host: Host, bits: int = 64 if sys.maxsize > 2**32 else 32, kernel: str = "") -> Check:
    """Which Python runs. kernel: what the system calls itself, by default platform.version()."""
    version = ".".join(map(str, host.python))
    finding = f"{version}, {platform.system() or host.system} {host.machine}"
    if bits < 64:
        return Check(
            "python",
            "fault",
            f"{finding}, {bits} bits",
            "No model fits into 32 bits: install a 64-bit Python.",
        )
    if host.system == "darwin" and host.machine == "x86_64" and "ARM64" in (kernel or platform.version()):
        return Check(
            "python",
            "warning",
            f"{finding}, translated on an Apple chip",
            "Everything is many times slower so, and without the GPU: install an arm64 Python.",
        )
    if host.python[:2] > _NEWEST_TRIED:
        newest = ".".join(map(str, _NEWEST_TRIED))
        return Check(
            "python",
            "warning",
            finding,
            f"specchat was not tried with it: if something fails, use Python {newest}.",
        )
    return Check("python", "ok", finding)


def packages_check(host: Host) -> Check:
    """Which versions are installed, against what specchat asks for."""
    return judge([(name, version_of(name)) for name in PACKAGES], requirements(), host)


def judge(
    installed: Sequence[tuple[str, str | None]], required: Iterable[tuple[str, str]], host: Host
) -> Check:
    """The line for these versions; None for a package that is not there."""
    versions = dict(installed)
    wanted = [
        f'"{name}>={least}"'
        for name, least in required
        if name in versions and (versions[name] is None or numbers(versions[name]) < numbers(least))
    ]
    finding = ", ".join(f"{name} {version or 'missing'}" for name, version in installed)
    if not wanted:
        return Check("packages", "ok", finding)
    command = f"{host.install} {' '.join(wanted)}"
    return Check("packages", "fault", finding, "A package is missing or too old:", command)


def version_of(name: str) -> str | None:
    """The installed version of a package, None where it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def requirements() -> list[tuple[str, str]]:
    """The packages that specchat needs, each with its least version."""
    try:
        listed = metadata.requires("specchat") or []
    except metadata.PackageNotFoundError:
        return []
    found = (_REQUIREMENT.match(each) for each in listed if "extra ==" not in each)
    return [(match[1], match[2]) for match in found if match]


def required(name: str) -> str:
    """A package with its least version, quoted for a shell."""
    least = dict(requirements()).get(name)
    return f'"{name}>={least}"' if least else name


def numbers(version: str | None) -> tuple[int, ...]:
    """The leading numbers of a version, without zeros at the end: what decides which is newer."""
    match = re.match(r"\d+(\.\d+)*", version or "")
    found = [int(part) for part in match[0].split(".")] if match else []
    while found and not found[-1]:
        found.pop()
    return tuple(found)
