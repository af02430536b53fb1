"""What the terminal can do, by what it says of itself in the environment: it is asked nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from app.doctor.check import Check

Colours: TypeAlias = Literal["none", "16", "256", "truecolour"]

# Below the first the chat shows nothing, and the second is comfortable: columns and rows.
_SMALLEST = (48, 14)
_COMFORTABLE = (80, 24)
# Clipboard tools, with the variable that says that there is a display for them.
_TOOLS = (
    ("wl-copy", "WAYLAND_DISPLAY"),
    ("xclip", "DISPLAY"),
    ("xsel", "DISPLAY"),
    ("pbcopy", ""),
    ("clip.exe", ""),
)
_WORDS: dict[Colours, str] = {
    "none": "no colours",
    "16": "16 colours",
    "256": "256 colours",
    "truecolour": "all colours",
}


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


@dataclass(frozen=True, slots=True)
class Terminal:
    """Where specchat runs. interactive: there is a terminal. size: columns and rows, None where
    there is no terminal. system: as sys.platform has it."""

    environment: Mapping[str, str]
    interactive: bool
    size: tuple[int, int] | None
    system: str
    which: Callable[[str], str | None] = shutil.which


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


def terminal_checks(terminal: Terminal) -> list[Check]:
    """Colours, window, clipboard, keyboard and character set of the terminal; the first line says where
    there is none."""
    if not terminal.interactive:
        return [
            Check("terminal", "ok", "none here: the chat needs one, specchat -p does not"),
            encoding_check(terminal),
        ]
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


def colours_of(environment: Mapping[str, str], system: str) -> Colours:
    """How many colours are sent to this terminal."""
    term = environment.get("TERM", "").lower()
    if term in ("dumb", "unknown"):
        return "none"
    if environment.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"):
        return "truecolour"
    if system == "win32":
        return "truecolour"
    if term.endswith(("256color", "kitty")):
        return "256"
    return "16" if term else "none"


def colours_check(terminal: Terminal, program: Program) -> Check:
    """The colours that the terminal has, and those that it is sent."""
    colours = colours_of(terminal.environment, terminal.system)
    finding = f"{program.name}, {_WORDS[colours]}"
    term = terminal.environment.get("TERM", "")
    if terminal.system != "win32" and term.lower() in ("", "dumb", "unknown"):
        return Check(
            "terminal",
            "warning",
            f"TERM is {term!r}, which cannot move the cursor",
            "Start specchat in a terminal window, or set TERM to what yours is, such as xterm-256color.",
        )
    if terminal.environment.get("NO_COLOR"):
        return Check("terminal", "ok", f"{finding}; NO_COLOR is set, so the chat is without any")
    if colours == "16":
        return Check(
            "terminal",
            "warning",
            finding,
            'Set theme = "terminal" under [look] in the settings, or COLORTERM=truecolor if yours has all.',
        )
    if colours == "256":
        return Check("terminal", "ok", finding, "If yours has all colours, set COLORTERM=truecolor.")
    return Check("terminal", "ok", finding)


def window_check(terminal: Terminal) -> Check:
    """Whether the chat has room."""
    if terminal.size is None:
        return Check("window", "warning", "its size is not told", "The chat takes it for 80 × 24 cells.")
    columns, rows = terminal.size
    finding = f"{columns} × {rows} cells"
    for (least_columns, least_rows), why in (
        (_SMALLEST, "Make the window larger: below {} × {} the chat shows nothing."),
        (_COMFORTABLE, "{} × {} or more shows everything."),
    ):
        if columns < least_columns or rows < least_rows:
            return Check("window", "warning", finding, why.format(least_columns, least_rows))
    return Check("window", "ok", finding)


def clipboard_check(terminal: Terminal, program: Program) -> Check:
    """How what is copied in the chat reaches the clipboard."""
    environment = terminal.environment
    remote = bool(environment.get("SSH_TTY") or environment.get("SSH_CONNECTION"))
    for tool, variable in _TOOLS:
        if not remote and (not variable or environment.get(variable)) and terminal.which(tool):
            return Check("clipboard", "ok", f"copying uses {tool}")
    where = " of the machine that you sit at" if remote else ""
    if program.copies is False:
        instead = program.copy_advice or "Install xclip or wl-copy; /export writes the chat to a file."
        return Check("clipboard", "warning", f"{program.name} lets nothing through (OSC 52)", instead)
    finding = f"through {program.name} (OSC 52) to the clipboard{where}"
    if program.copies:
        return Check("clipboard", "ok", finding)
    advice = (program.copy_advice, program.copy_command)
    return Check("clipboard", "ok", f"{finding}, if it is switched on there", *advice)


def keyboard_check(program: Program) -> Check:
    """Whether Shift+Enter arrives as such."""
    if program.keys:
        return Check("keyboard", "ok", f"{program.name} tells Shift+Enter from Enter (kitty protocol)")
    known = "may not tell" if program.keys is None else "does not tell"
    advice = program.keys_advice or "Ctrl+J and Alt+Enter begin a new line everywhere."
    return Check(
        "keyboard", "ok", f"{program.name} {known} Shift+Enter from Enter", advice, program.keys_command
    )


def encoding_check(terminal: Terminal) -> Check:
    """Whether text is UTF-8 here."""
    if terminal.system == "win32":
        return Check("text", "ok", "Unicode")
    variables = ("LC_ALL", "LC_CTYPE", "LANG")
    variable = next((name for name in variables if terminal.environment.get(name)), None)
    value = terminal.environment[variable] if variable else ""
    if value.lower().replace("-", "").partition(".")[2].startswith("utf8"):
        return Check("text", "ok", f"UTF-8 ({variable}={value})")
    finding = f"{variable}={value} is not UTF-8" if variable else "no locale is set"
    command = (
        f"export {variable or 'LANG'}=C.UTF-8" if terminal.system == "linux" else "export LANG=en_US.UTF-8"
    )
    return Check("text", "warning", finding, "Other letters and lines may look broken; type:", command)
