"""The card that is found decides which build is advised: files as Linux and Windows lay them out."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.doctor.hardware import Adapter, Card, linux_cards, macos_cards, windows_cards


def lay(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def card(slot: str, vendor: str, **more: str) -> dict[str, str]:
    """A display device on the bus."""
    folder = f"sys/bus/pci/devices/{slot}"
    return {
        f"{folder}/vendor": f"{vendor}\n",
        f"{folder}/class": "0x030000\n",
        f"{folder}/uevent": f"DRIVER=x\nPCI_SLOT_NAME={slot}\n",
        **{f"{folder}/{name}": text for name, text in more.items()},
    }


def test_nvidia_by_its_driver(tmp_path: Path) -> None:
    files = {
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  "
        "Release Build  (dvs-builder)\nGCC version:  gcc version 12.2.0\n",
        "proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: \t\t NVIDIA GeForce RTX 4090\nIRQ: 1\n",
        "dev/nvidia0": "",
        **card("0000:01:00.0", "0x10de"),
    }
    assert linux_cards(lay(tmp_path, files)) == (
        Card("nvidia", "NVIDIA GeForce RTX 4090", driver=(560, 35, 3)),
    )


def test_nvidia_in_a_container_that_shows_little(tmp_path: Path) -> None:
    files = {"dev/nvidia0": "", "usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15": ""}
    assert linux_cards(lay(tmp_path, files)) == (Card("nvidia", "NVIDIA GPU", driver=(550, 54, 15)),)


def test_nvidia_that_the_container_was_not_given(tmp_path: Path) -> None:
    files = card("0000:01:00.0", "0x10de") | {"sys/module/nvidia/version": "580.82.07\n"}
    (found,) = linux_cards(lay(tmp_path, files))
    assert not found.reachable and found.driver == (580, 82, 7)


def test_nvidia_under_wsl(tmp_path: Path) -> None:
    (found,) = linux_cards(lay(tmp_path, {"usr/lib/wsl/lib/libcuda.so.1": ""}))
    assert (found.vendor, found.reachable, found.driver) == ("nvidia", True, ())


def test_amd_card_with_rocm(tmp_path: Path) -> None:
    files = card("0000:03:00.0", "0x1002", mem_info_vram_total=str(24 << 30)) | {
        "dev/kfd": "",
        "opt/rocm/.info/version": "7.2.0-43\n",
    }
    assert linux_cards(lay(tmp_path, files)) == (Card("amd", "AMD GPU", driver=(7, 2, 0)),)


@pytest.mark.parametrize(
    ("files", "integrated"),
    [
        (card("0000:00:02.0", "0x8086"), True),
        (card("0000:03:00.0", "0x8086"), False),
        (card("0000:c1:00.0", "0x1002", mem_info_vram_total=str(512 << 20)), True),
    ],
)
def test_what_is_part_of_the_processor(tmp_path: Path, files: dict[str, str], integrated: bool) -> None:
    (found,) = linux_cards(lay(tmp_path, files | {"dev/dri/renderD128": ""}))
    assert found.integrated == integrated and found.reachable


def test_a_card_with_a_screen_counts_once(tmp_path: Path) -> None:
    files = card("0000:03:00.0", "0x8086")
    screen = {
        f"sys/class/drm/card0/device/{name.rpartition('/')[2]}": text
        for name, text in files.items()
        if "class" not in name
    }
    assert len(linux_cards(lay(tmp_path, files | screen))) == 1


def test_devices_that_are_no_cards(tmp_path: Path) -> None:
    network = {
        "sys/bus/pci/devices/0000:00:03.0/vendor": "0x8086",
        "sys/bus/pci/devices/0000:00:03.0/class": "0x020000",
    }
    assert linux_cards(lay(tmp_path, network | card("0000:00:04.0", "0x1af4"))) == ()
    assert linux_cards(tmp_path / "nothing here") == ()


def test_windows_reads_nvidias_own_version() -> None:
    adapters = [
        Adapter(r"PCI\VEN_10DE&DEV_2684", "NVIDIA GeForce RTX 4090", "32.0.15.6094", 24 << 30),
        Adapter(r"PCI\VEN_8086&DEV_A780", "Intel(R) UHD Graphics 770", "31.0.101.4953"),
        Adapter(r"PCI\VEN_8086&DEV_56A0", "Intel(R) Arc(TM) A770 Graphics", "31.0.101.4953"),
        Adapter("root\\basicdisplay", "Microsoft Basic Display Adapter", "10.0"),
    ]
    nvidia, own, arc = windows_cards(adapters)
    assert nvidia.driver == (560, 94) and own.integrated and not arc.integrated


def test_apple_chips_have_metal() -> None:
    assert [each.vendor for each in macos_cards("arm64")] == ["apple"]
    assert macos_cards("x86_64") == ()
