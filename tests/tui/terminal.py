"""`specchat` on a pseudo-terminal: keys go in, a screen comes out, every byte of it is kept."""

from __future__ import annotations

import codecs
import os
import re
import subprocess
import sys
import time
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest import mock

import pytest

if sys.platform == "win32":
    pytest.skip("pseudo-terminals are a matter of POSIX systems", allow_module_level=True)

import termios

import pyte

from app.bench.terminal import PseudoTerminal
from app.chat.conversation import Conversation
from app.chat.store import Store
from app.config.file import settings_path
from app.errors import SpecchatError
from app.tui.options import data_folder

ROOT = Path(__file__).parents[2]
SPECCHAT = "import sys; from app.start import main; sys.exit(main())"
_FRAME, _FRAME_END, _ASKS_FOR_FRAMES = b"\x1b[?2026h", b"\x1b[?2026l", b"\x1b[?2026$p"
# A cold start on a machine that has other things to do takes many times what it takes otherwise.
PATIENCE = 60.0
# The sentence under a reply that has ended.
SAID = re.compile(r"wrote [\d,]+ |No guess was|(?:here|off): plain speed")

_KEYS = {
    **{"enter": "\r", "escape": "\x1b", "tab": "\t", "up": "\x1b[A", "down": "\x1b[B"},
    **{"right": "\x1b[C", "left": "\x1b[D"},
    **{f"f{number}": f"\x1bO{'PQRS'[number - 1]}" for number in (1, 2, 3, 4)},
    **{"f5": "\x1b[15~", "f6": "\x1b[17~", "f7": "\x1b[18~", "f8": "\x1b[19~", "f9": "\x1b[20~"},
}


class Home:
    """Folders of one person, with no settings and no chats in them yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        names = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")
        self.environment = {name: str(folder) for name in names}
        with mock.patch.dict(os.environ, self.environment):
            self.settings_file = settings_path()
            self.data = data_folder()

    def write_settings(self, text: str) -> None:
        self.settings_file.parent.mkdir(parents=True, exist_ok=True)
        self.settings_file.write_text(text, encoding="utf-8")

    def newest(self) -> Conversation:
        """The conversation that was stored last."""
        store = Store(self.data / "sessions.db")
        try:
            saved = store.latest()
        finally:
            store.close()
        assert saved is not None
        return saved.conversation


def python(*arguments: str | Path, script: str = SPECCHAT) -> tuple[str, ...]:
    """The command that runs a script, `specchat` as a rule, in a process of its own."""
    return (sys.executable, "-c", script, *map(str, arguments))


class Terminal(PseudoTerminal):
    """A command on a terminal of that many columns and rows.

    What the command writes is read while something is waited for. As newer terminals do, this one shows
    a frame when it is whole (mode 2026), so that no test looks at half a screen.
    """

    def __init__(self, home: Home, command: Sequence[str], size: tuple[int, int] = (100, 30)) -> None:
        columns, rows = size
        self.screen = pyte.Screen(columns, rows)
        self._lines: dict[int, str] = {}
        self._stream = pyte.Stream(self.screen)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        environment = {**home.environment, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        super().__init__(command, size, environment, str(home.folder))
        self.code: int | None = None
        # Nothing that has to be imported first has changed them yet.
        self.attributes_before = self.attributes

    # What is seen -------------------------------------------------------------------------------

    @property
    def lines(self) -> list[str]:
        """The screen, without the blanks at the ends of lines."""
        # pyte's own `display` fails on half a wide character, and makes all lines anew.
        columns = range(self.screen.columns)
        for y in self.screen.dirty:
            row = self.screen.buffer[y]
            self._lines[y] = "".join(row[x].data for x in columns).rstrip()
        self.screen.dirty.clear()
        return [self._lines[y] for y in range(self.screen.lines)]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def attributes(self) -> list[object]:
        """How the terminal treats keys: echo, lines, signals."""
        found: list[object] = termios.tcgetattr(self.fd)
        return found

    # What a person does -------------------------------------------------------------------------

    def type(self, text: str) -> None:
        self.write(text.encode())

    def key(self, name: str) -> None:
        """Press a key, by the name that it has in the settings."""
        control = name.removeprefix("ctrl+")
        self.type(_KEYS[name] if control == name else chr(ord(control) & 31))

    def paste(self, text: str) -> None:
        """Paste as terminals do: between brackets, with CR for each end of a line."""
        self.type("\x1b[200~" + text.replace("\n", "\r") + "\x1b[201~")

    def ask(self, text: str) -> None:
        self.type(text)
        self.key("enter")

    def resize(self, columns: int, rows: int) -> None:
        self.set_size(columns, rows)
        self.screen.resize(rows, columns)

    # Waiting, never for ever --------------------------------------------------------------------

    def wait_for(self, wanted: str | re.Pattern[str] | Callable[[], bool], seconds: float = PATIENCE) -> None:
        """Read until this is on the screen, or holds. Fails with the screen where it never does."""
        deadline = time.monotonic() + seconds
        open_still = True
        while not self._has(wanted):
            if not open_still or time.monotonic() > deadline:
                how = f"within {seconds:g} s" if open_still else "before the command ended"
                raise AssertionError(f"{wanted!r} did not come {how}:\n{self.text}")
            open_still = self.read(0.02)

    @property
    def _draws(self) -> bool:
        """Whether a frame has begun that is not whole yet."""
        return self.output.rfind(_FRAME) > self.output.rfind(_FRAME_END)

    def _has(self, wanted: str | re.Pattern[str] | Callable[[], bool]) -> bool:
        if self._draws:
            return False
        if isinstance(wanted, re.Pattern):
            return wanted.search(self.text) is not None
        return wanted in self.text if isinstance(wanted, str) else wanted()

    def close(self, dialogue: str) -> None:
        """Leave a dialogue that shows this. Esc may first take back what was typed, or ask whether it may."""
        for _ in range(5):
            self.key("escape")
            deadline = time.monotonic() + 1
            while time.monotonic() < deadline and self.read(0.02):
                if not self._has(dialogue) and not self._draws:
                    return
        raise AssertionError(f"Esc does not close it:\n{self.text}")

    def read_for(self, seconds: float) -> None:
        """Let so much time pass, and a little more where a frame is being drawn."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline + self._draws and self.read(0.02):
            pass

    def wait_for_stop(self, seconds: float = PATIENCE) -> None:
        """Wait until the process is suspended."""
        stopped = False

        def is_stopped() -> bool:
            nonlocal stopped
            if not stopped:
                found, status = os.waitpid(self.process, os.WNOHANG | os.WUNTRACED)
                stopped = found != 0 and os.WIFSTOPPED(status)
            return stopped

        self.wait_for(is_stopped, seconds)
        # What it wrote before that may still be on its way.
        self.read_for(0.1)

    def end(self, seconds: float = PATIENCE) -> int:
        """As in PseudoTerminal. Fails with the screen where the command does not end."""
        try:
            self.code = super().end(seconds)
        except SpecchatError as error:
            raise AssertionError(f"{error}\n{self.text}") from error
        return self.code

    def read(self, seconds: float) -> bool:
        """Read, and draw what has come on the screen."""
        known = len(self.output)
        more = super().read(seconds)
        new = bytes(self.output[known:])
        asked = _ASKS_FOR_FRAMES in self.output[max(0, known - len(_ASKS_FOR_FRAMES) + 1) :]
        self._stream.feed("".join(filter(_has_place, self._decoder.decode(new))))
        if asked:
            self.type("\x1b[?2026;2$y")
        return more


def _has_place(character: str) -> bool:
    """False for joiners and their like: pyte leaves out all that follows such a one in a run of text."""
    return character.isascii() or not (
        unicodedata.category(character) in ("Cf", "Mn", "Me") and not unicodedata.combining(character)
    )


def children(process: int) -> list[int]:
    """The processes that a process has started and that still run."""
    table = subprocess.run(("ps", "-A", "-o", "pid=,ppid="), capture_output=True, text=True, check=True)
    rows = (line.split() for line in table.stdout.splitlines())
    return [int(child) for child, parent in rows if int(parent) == process]
