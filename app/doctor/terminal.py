"""What the terminal can do, judged by its environment variables: nothing is written to it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from app.doctor.report import Check, ok, warning

# Clipboard tools, with the variable that says that there is a display for them.
_TOOLS = (
    ("wl-copy", "WAYLAND_DISPLAY"),
    ("xclip", "DISPLAY"),
    ("xsel", "DISPLAY"),
    ("pbcopy", ""),
    ("clip.exe", ""),
)
_TRUECOLOUR = 1 << 24


@dataclass(frozen=True, slots=True)
class TerminalFacts:
    """Where specchat runs. interactive: there is a terminal. size: columns and rows, None where it is not
    known. system: as sys.platform has it."""

    environment: Mapping[str, str]
    interactive: bool
    size: tuple[int, int] | None
    system: str
    which: Callable[[str], str | None] = shutil.which


def this_terminal() -> TerminalFacts:
    """The terminal that this was typed in, even if the report goes into a pipe."""
    streams = [each for each in (sys.stdin, sys.stdout, sys.stderr) if each is not None and each.isatty()]
    size = None
    for stream in streams:
        with suppress(OSError):
            size = size or os.get_terminal_size(stream.fileno())
    known = (size.columns, size.lines) if size and size.columns and size.lines else None
    return TerminalFacts(os.environ, bool(streams), known, sys.platform)


@dataclass(frozen=True, slots=True)
class Program:
    """A terminal program. copies: whether OSC 52 reaches the clipboard; keys: whether it has the kitty
    keyboard protocol, which tells Shift+Enter from Enter. None where that is not known."""

    name: str
    copies: bool | None = None
    keys: bool | None = None
    copy_advice: str = ""
    keys_advice: str = ""
    copy_command: str = ""
    keys_command: str = ""


_TMUX = Program(
    "tmux",
    keys=False,
    copy_advice="If nothing arrives, let tmux pass it on:",
    copy_command="tmux set -s set-clipboard on",
    keys_advice="Ctrl+J and Alt+Enter begin a new line. tmux 3.5 and newer can be taught Shift+Enter:",
    keys_command="tmux set -s extended-keys always \\; set -s extended-keys-format csi-u",
)
_SCREEN = Program(
    "screen",
    copies=False,
    keys=False,
    copy_advice="Install xclip or wl-copy, or use tmux; /export writes the chat to a file.",
)
# By what TERM_PROGRAM says, then by what TERM begins with, then by a variable of their own.
_BY_NAME = {
    "Apple_Terminal": Program("Terminal", copies=False, keys=False),
    "WezTerm": Program(
        "WezTerm", True, None, keys_advice="set enable_kitty_keyboard = true for Shift+Enter."
    ),
    "ghostty": Program("Ghostty", True, True),
    "iTerm.app": Program(
        "iTerm2",
        None,
        True,
        "If nothing arrives, allow it: Settings, General, Selection, Applications may access clipboard.",
    ),
    "vscode": Program("Visual Studio Code"),
}
_BY_TERM = {
    "alacritty": Program("Alacritty", True, True),
    "foot": Program("foot", True, True),
    "xterm-ghostty": _BY_NAME["ghostty"],
    "xterm-kitty": Program("kitty", True, True),
    "linux": Program("the console of Linux", copies=False, keys=False),
}
_BY_VARIABLE = {
    "KITTY_WINDOW_ID": _BY_TERM["xterm-kitty"],
    "ALACRITTY_WINDOW_ID": _BY_TERM["alacritty"],
    "WT_SESSION": Program("Windows Terminal", copies=True),
    "KONSOLE_VERSION": Program("Konsole"),
    "VTE_VERSION": Program("a terminal of GNOME's kind"),
}


def terminal_checks(terminal: TerminalFacts) -> list[Check]:
    """Colours, window, clipboard, keyboard and character set of the terminal, if there is one."""
    if not terminal.interactive:
        here = ok("terminal", "none here: the chat needs one, specchat -p does not")
        return [here, encoding_check(terminal)]
    program = program_of(terminal.environment)
    return [
        colours_check(terminal, program),
        window_check(terminal),
        clipboard_check(terminal, program),
        keyboard_check(program),
        encoding_check(terminal),
    ]


def program_of(environment: Mapping[str, str]) -> Program:
    """Which terminal it is; a multiplexer hides the one around it."""
    term, name = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    if environment.get("TMUX") or name == "tmux":
        return _TMUX
    if environment.get("STY") or term.startswith("screen"):
        return _SCREEN
    if name in _BY_NAME:
        return _BY_NAME[name]
    known = (
        *(program for start, program in _BY_TERM.items() if term.startswith(start)),
        *(program for variable, program in _BY_VARIABLE.items() if environment.get(variable)),
    )
    return known[0] if known else Program(name or term or "a terminal that does not say its name")


def colours_of(environment: Mapping[str, str], system: str) -> int:
    """How many colours the chat uses on this terminal."""
    term = environment.get("TERM", "").lower()
    if term in ("dumb", "unknown"):
        return 0
    if system == "win32" or environment.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"):
        return _TRUECOLOUR
    if term.endswith(("256color", "kitty")):
        return 256
    return 16 if term else 0


def colours_check(terminal: TerminalFacts, program: Program) -> Check:
    """The colours that the terminal has, and those that the chat uses."""
    colours = colours_of(terminal.environment, terminal.system)
    words = {0: "no colours", _TRUECOLOUR: "all colours"}.get(colours, f"{colours} colours")
    finding = f"{program.name}, {words}"
    term = terminal.environment.get("TERM", "")
    if terminal.system != "win32" and term.lower() in ("", "dumb", "unknown"):
        advice = "Start specchat in a terminal window, or set TERM, for example to xterm-256color."
        return warning("terminal", f"TERM is {term!r}, which cannot move the cursor", advice)
    if terminal.environment.get("NO_COLOR"):
        return ok("terminal", f"{finding}; NO_COLOR is set, so the chat uses none")
    if colours == 16:
        advice = 'Set theme = "terminal" under [look] in the settings, or COLORTERM=truecolor if it has all.'
        return warning("terminal", finding, advice)
    return ok(
        "terminal", finding, "If it has all colours, set COLORTERM=truecolor." if colours == 256 else ""
    )


def window_check(terminal: TerminalFacts) -> Check:
    """Whether the chat has room."""
    if terminal.size is None:
        return warning("window", "its size is not known", "The chat takes it for 80 × 24 cells.")
    columns, rows = terminal.size
    finding = f"{columns} × {rows} cells"
    if columns < 48 or rows < 14:
        return warning("window", finding, "Make the window larger: below 48 × 14 the chat shows nothing.")
    if columns < 80 or rows < 24:
        return warning("window", finding, "80 × 24 or more shows everything.")
    return ok("window", finding)


def clipboard_check(terminal: TerminalFacts, program: Program) -> Check:
    """How copied text reaches the clipboard."""
    environment = terminal.environment
    remote = bool(environment.get("SSH_TTY") or environment.get("SSH_CONNECTION"))
    for tool, variable in _TOOLS:
        if not remote and (not variable or environment.get(variable)) and terminal.which(tool):
            return ok("clipboard", f"copying uses {tool}")
    if program.copies is False:
        instead = program.copy_advice or "Install xclip or wl-copy; /export writes the chat to a file."
        return warning("clipboard", f"{program.name} lets nothing through (OSC 52)", instead)
    where = " of the machine that you sit at" if remote else ""
    finding = f"through {program.name} (OSC 52) to the clipboard{where}"
    if program.copies:
        return ok("clipboard", finding)
    return ok("clipboard", f"{finding}, if that is switched on", program.copy_advice, program.copy_command)


def keyboard_check(program: Program) -> Check:
    """Whether Shift+Enter arrives as such."""
    if program.keys:
        return ok("keyboard", f"{program.name} tells Shift+Enter from Enter (kitty protocol)")
    known = "may not tell" if program.keys is None else "does not tell"
    advice = program.keys_advice or "Ctrl+J and Alt+Enter begin a new line everywhere."
    return ok("keyboard", f"{program.name} {known} Shift+Enter from Enter", advice, program.keys_command)


def encoding_check(terminal: TerminalFacts) -> Check:
    """Whether text is UTF-8 here."""
    if terminal.system == "win32":
        return ok("text", "Unicode")
    variables = ("LC_ALL", "LC_CTYPE", "LANG")
    variable = next((name for name in variables if terminal.environment.get(name)), "")
    value = terminal.environment.get(variable, "")
    if value.lower().replace("-", "").partition(".")[2].startswith("utf8"):
        return ok("text", f"UTF-8 ({variable}={value})")
    finding = f"{variable}={value} is not UTF-8" if variable else "no locale is set"
    linux = terminal.system == "linux"
    command = f"export {variable or 'LANG'}=C.UTF-8" if linux else "export LANG=en_US.UTF-8"
    return warning("text", finding, "Other letters and lines may look broken; type:", command)
