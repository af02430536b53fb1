"""Copying to the clipboard that the person sees: the system's tool, or the terminal by OSC 52."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

# A tool takes milliseconds; one that cannot reach its display may wait for minutes.
_PATIENCE = 1.0


@dataclass(frozen=True, slots=True)
class _Tool:
    """A clipboard tool. needs: a variable of the environment without which it has no display, or ""."""

    name: str
    arguments: tuple[str, ...] = ()
    needs: str = ""
    encoding: str = "utf-8"


_TOOLS = (
    _Tool("wl-copy", (), "WAYLAND_DISPLAY"),
    _Tool("xclip", ("-selection", "clipboard", "-in"), "DISPLAY"),
    _Tool("xsel", ("--clipboard", "--input"), "DISPLAY"),
    _Tool("pbcopy"),
    # Takes other bytes for the console's code page, and a byte order mark for text.
    _Tool("clip.exe", encoding="utf-16-le"),
)


def feed(
    command: Sequence[str], data: bytes, environment: Mapping[str, str], patience: float = _PATIENCE
) -> bool:
    """Whether the command took the data on its standard input and ended well within `patience` seconds.

    xclip, xsel and wl-copy leave a process behind that serves the clipboard. It must hold no pipe of ours, or
    the wait for the pipe's end would never end, and it needs a session of its own, or Ctrl+C in the terminal
    would empty the clipboard.
    """
    try:
        tool = subprocess.run(
            command,
            input=data,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=dict(environment),
            start_new_session=True,
            timeout=patience,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return tool.returncode == 0


def copy(
    text: str,
    osc52: Callable[[str], None],
    environment: Mapping[str, str] = os.environ,
    which: Callable[[str], str | None] = shutil.which,
    run: Callable[[Sequence[str], bytes, Mapping[str, str]], bool] = feed,
) -> str:
    """Copy the text and say in a sentence how.

    osc52: asks the terminal, which gives no answer (Textual's App.copy_to_clipboard). Over SSH only the
    terminal reaches the clipboard of the machine that the person sits at. A tool that hangs costs a second.
    """
    text = text.encode("utf-8", "replace").decode("utf-8")
    if not (environment.get("SSH_TTY") or environment.get("SSH_CONNECTION")):
        for tool in _TOOLS:
            path = which(tool.name) if not tool.needs or environment.get(tool.needs) else None
            if path and run((path, *tool.arguments), text.encode(tool.encoding), _suited(tool, environment)):
                return f"Copied ({tool.name})."
    osc52(text)
    return "Copied through the terminal (OSC 52): if nothing arrives, your terminal has it switched off."


def _suited(tool: _Tool, environment: Mapping[str, str]) -> Mapping[str, str]:
    """pbcopy reads its input in the locale's encoding, which a bare environment leaves at an old one."""
    if tool.name != "pbcopy":
        return environment
    return {name: value for name, value in environment.items() if name != "LC_ALL"} | {"LC_CTYPE": "UTF-8"}
