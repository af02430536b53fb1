"""The clipboard: without these a copied answer lands nowhere, or on a machine that nobody sits at."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from app.tui.clipboard import copy, feed

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the tools are shell scripts")

TEXT = "def größe():\n    return '日本' # 🙂\n"
WAYLAND = {"WAYLAND_DISPLAY": "wayland-0"}
X11 = {"DISPLAY": ":0"}


class Desk:
    """A folder of real small tools, each of which writes what it was given to a file of its name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []

    def add(self, name: str, script: str | None = None) -> None:
        path = self.folder / name
        body = f'cat > "{self.folder}/{name}.got"' if script is None else script
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def got(self, name: str, encoding: str = "utf-8") -> str | None:
        path = self.folder / f"{name}.got"
        return path.read_bytes().decode(encoding) if path.exists() else None

    def copy(self, environment: dict[str, str], patience: float = 10.0, text: str = TEXT) -> str:
        which: Callable[[str], str | None] = functools.partial(shutil.which, path=str(self.folder))
        environment = {"PATH": os.environ["PATH"], **environment}
        run = functools.partial(feed, patience=patience)
        return copy(text, self.asked.append, environment, which, run)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.mark.parametrize(
    ("tool", "environment", "encoding"),
    [
        ("wl-copy", WAYLAND, "utf-8"),
        ("xclip", X11, "utf-8"),
        ("xsel", X11, "utf-8"),
        ("pbcopy", {}, "utf-8"),
        ("clip.exe", {}, "utf-16-le"),
    ],
)
def test_each_tool_gets_the_whole_text_and_is_named(
    desk: Desk, tool: str, environment: dict[str, str], encoding: str
) -> None:
    """Else: accents and emoji arrive broken, or nobody knows which clipboard has the text."""
    desk.add(tool)
    assert desk.copy(environment) == f"Copied ({tool})."
    assert desk.got(tool, encoding) == TEXT
    assert desk.asked == []


def test_a_tool_without_its_display_is_not_asked(desk: Desk) -> None:
    """Else: on a console each copy waits for a display that is not there."""
    desk.add("wl-copy")
    desk.add("xclip")
    assert "OSC 52" in desk.copy({})
    assert desk.asked == [TEXT]
    assert "xclip" in desk.copy(X11)


def test_the_next_way_is_taken_when_a_tool_fails(desk: Desk) -> None:
    """Else: a stale DISPLAY means that nothing can be copied."""
    desk.add("wl-copy", "exit 1")
    desk.add("xclip")
    assert desk.copy(WAYLAND | X11) == "Copied (xclip)."
    desk.add("xclip", "echo 'Error: cannot open display' >&2; exit 1")
    assert desk.copy(WAYLAND | X11).startswith("Copied through the terminal (OSC 52): if nothing arrives")
    assert desk.asked == [TEXT]


def test_over_ssh_the_terminal_is_asked(desk: Desk) -> None:
    """Else: the text lands on the clipboard of the remote machine."""
    for variable in ("SSH_TTY", "SSH_CONNECTION"):
        desk.asked.clear()
        desk.add("xclip")
        assert "OSC 52" in desk.copy(X11 | {variable: "x"})
        assert desk.asked == [TEXT]
        assert desk.got("xclip") is None


def test_a_tool_that_leaves_a_process_behind_does_not_hold_the_screen(desk: Desk) -> None:
    """Else: the app freezes with xclip, which serves the clipboard until someone else fills it."""
    desk.add("xclip", f'cat > "{desk.folder}/xclip.got"\nsleep 30 &\necho $! > "{desk.folder}/served"')
    try:
        assert desk.copy(X11, patience=20.0) == "Copied (xclip)."
        served = int((desk.folder / "served").read_text())
        os.kill(served, 0)  # It still serves: it was neither waited for nor ended.
    finally:
        os.kill(int((desk.folder / "served").read_text()), 9)


def test_a_tool_that_hangs_is_ended(desk: Desk) -> None:
    """Else: one copy stops the app for good, or leaves a process for each try."""
    desk.add("wl-copy", f'echo $$ > "{desk.folder}/process"; exec sleep 30')
    assert "OSC 52" in desk.copy(WAYLAND, patience=1.5)
    with pytest.raises(ProcessLookupError):
        os.kill(int((desk.folder / "process").read_text()), 0)


def test_a_large_text_and_half_a_character_are_copied(desk: Desk) -> None:
    """Else: a long answer blocks on the pipe, and a stray surrogate ends the app."""
    desk.add("pbcopy")
    long = "0123456789" * 100_000
    assert desk.copy({}, text=long) == "Copied (pbcopy)."
    assert desk.got("pbcopy") == long
    assert desk.copy({}, text="a\ud83dz") == "Copied (pbcopy)."
    assert desk.got("pbcopy") == "a?z"
    desk.add("pbcopy", "exit 0")
    assert desk.copy({}, text=long) == "Copied (pbcopy)."
