"""The graphics cards of a machine, by the system's own files: no driver has to be installed."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

Vendor: TypeAlias = Literal["nvidia", "amd", "intel", "apple"]

_VENDORS: dict[str, Vendor] = {"10de": "nvidia", "1002": "amd", "8086": "intel"}
# Intel's own graphics sits here in every machine; a card sits behind a bridge.
_INTEL_OWN = "0000:00:02.0"
# AMD's processors with graphics set this much of the system's memory aside at most, by default.
_SET_ASIDE = 1 << 31
_DISPLAY_CLASS = "0x03"
_ADAPTERS = r"SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}"


@dataclass(frozen=True, slots=True)
class Card:
    """A graphics card.

    integrated: it is part of the processor. reachable: its driver can be used here, unlike in some
    containers. driver: version of NVIDIA's driver, or of ROCm; () where it is not known.
    """

    vendor: Vendor
    name: str
    integrated: bool = False
    reachable: bool = True
    driver: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Adapter:
    """A display adapter in the registry of Windows. identity: such as PCI\\VEN_10DE&DEV_2684. memory: bytes,
    0 where it is not known."""

    identity: str
    name: str
    version: str
    memory: int = 0


def graphics_cards() -> tuple[Card, ...]:
    """The cards of this machine; none on systems that are not known."""
    if sys.platform == "win32":
        return windows_cards(list(_adapters()))
    if sys.platform == "darwin":
        return macos_cards(platform.machine())
    return linux_cards(Path("/"))


def macos_cards(machine: str) -> tuple[Card, ...]:
    """Every Apple chip has graphics that Metal reaches. machine: as platform.machine() has it."""
    return (Card("apple", "Apple graphics"),) if machine == "arm64" else ()


def linux_cards(root: Path) -> tuple[Card, ...]:
    """Cards by the files below `root`: /proc/driver/nvidia, /dev, /sys, and what WSL puts in their place."""
    devices = list(_pci(root))
    return (*_nvidia(root, devices), *_others(root, devices))


def windows_cards(adapters: Sequence[Adapter]) -> tuple[Card, ...]:
    """Cards by the display adapters that the registry lists."""
    found = []
    for adapter in adapters:
        match = re.search(r"VEN_([0-9A-F]{4})", adapter.identity, re.IGNORECASE)
        vendor = _VENDORS.get(match[1].lower()) if match else None
        if vendor is None:
            continue
        integrated = (vendor == "intel" and "Arc" not in adapter.name) or (
            vendor == "amd" and 0 < adapter.memory <= _SET_ASIDE
        )
        driver = _nvidia_version(adapter.version) if vendor == "nvidia" else ()
        found.append(Card(vendor, adapter.name, integrated=integrated, driver=driver))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Device:
    slot: str
    vendor: Vendor
    memory: int


def _pci(root: Path) -> Iterator[_Device]:
    """Display devices on the bus."""
    for folder in sorted((root / "sys/bus/pci/devices").glob("*")):
        vendor = _VENDORS.get(_read(folder / "vendor").removeprefix("0x").lower())
        if vendor and _read(folder / "class").startswith(_DISPLAY_CLASS):
            memory = _read(folder / "mem_info_vram_total")
            yield _Device(folder.name, vendor, int(memory) if memory.isdecimal() else 0)


def _nvidia(root: Path, devices: Sequence[_Device]) -> Iterator[Card]:
    libraries = [
        *sorted((root / "usr/lib/wsl/lib").glob("libcuda.so*")),
        *sorted((root / "usr/lib").glob("*/libcuda.so.*.*")),
        *sorted((root / "usr/lib64").glob("libcuda.so.*.*")),
    ]
    told = _read(root / "proc/driver/nvidia/version")
    nodes = sorted((root / "dev").glob("nvidia[0-9]*"))
    # Under WSL the driver is Windows's, and none of the usual files are there.
    wsl = any("wsl" in path.parts for path in libraries)
    reachable = bool(nodes) or wsl
    listed = [_information(path) for path in sorted((root / "proc/driver/nvidia/gpus").glob("*/information"))]
    count = sum(each.vendor == "nvidia" for each in devices)
    names = listed or ["NVIDIA GPU"] * (count or len(nodes) or int(bool(told) or wsl))
    version = _version(told, r"\b(\d{3,}\.\d[\d.]*)\b") or _version(
        _read(root / "sys/module/nvidia/version"), r"^(\d+\.[\d.]+)"
    )
    for path in libraries:
        version = version or _version(path.name, r"libcuda\.so\.(\d{3,}\.[\d.]+)$")
    for name in names:
        yield Card("nvidia", name, reachable=reachable, driver=version)


def _others(root: Path, devices: Sequence[_Device]) -> Iterator[Card]:
    reachable = any((root / "dev/dri").glob("renderD*"))
    compute = (root / "dev/kfd").exists()
    rocm = _version(_read(root / "opt/rocm/.info/version"), r"^(\d+\.[\d.]+)") if compute else ()
    for device in devices:
        if device.vendor == "amd":
            integrated = 0 < device.memory <= _SET_ASIDE
            yield Card("amd", "AMD GPU", integrated, reachable or compute, rocm)
        elif device.vendor == "intel":
            yield Card("intel", "Intel GPU", device.slot == _INTEL_OWN, reachable)
    if compute and not any(each.vendor == "amd" for each in devices):
        yield Card("amd", "AMD GPU", driver=rocm)


def _information(path: Path) -> str:
    model = re.search(r"^Model:\s*(.+?)\s*$", _read(path), re.MULTILINE)
    return model[1] if model else "NVIDIA GPU"


def _nvidia_version(version: str) -> tuple[int, ...]:
    """NVIDIA's own number is the last five digits of what Windows calls it: 32.0.15.6094 is 560.94."""
    digits = version.replace(".", "")[-5:]
    return (int(digits[:3]), int(digits[3:])) if len(digits) == 5 and digits.isdecimal() else ()


def _version(text: str, pattern: str) -> tuple[int, ...]:
    match = re.search(pattern, text)
    return tuple(int(part) for part in match[1].split(".") if part) if match else ()


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _adapters() -> Iterator[Adapter]:
    """The display adapters in the registry."""
    if sys.platform != "win32":
        return
    import winreg

    names = ("MatchingDeviceId", "DriverDesc", "DriverVersion", "HardwareInformation.qwMemorySize")
    for number in range(64):
        found: dict[str, object] = {}
        with suppress(OSError):
            key = winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, rf"{_ADAPTERS}\{number:04}")
            with key:
                for name in names:
                    with suppress(OSError):
                        found[name] = winreg.QueryValueEx(key, name)[0]
        identity, title, version, memory = (found.get(name) for name in names)
        if identity:
            yield Adapter(
                identity=str(identity),
                name=str(title or "GPU"),
                version=str(version or ""),
                memory=memory if isinstance(memory, int) else 0,
            )
