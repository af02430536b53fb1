"""Which prompts are slash commands, and which only begin like one."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from app.tui.actions import ACTIONS, Action

COMMANDS: dict[str, Action] = {action.slash: action for action in ACTIONS if action.slash}

_AS_MESSAGE = "To send a message that begins with /, type a space before it."
# A word with a second slash in it is a path, and so a message.
_CALL = re.compile(r"/(?P<word>[^\s/]*)(?:\s+(?P<argument>.*))?", re.DOTALL)
_ESCAPED = re.compile(r"//\S| /")


@dataclass(frozen=True, slots=True)
class Call:
    """A command as typed: the word after the slash, which may be unknown, and what follows it."""

    word: str
    argument: str


def call_in(text: str) -> Call | None:
    """The command that a prompt is; None where it is a message."""
    match = _CALL.fullmatch(text.rstrip())
    if match is None or (not match["word"] and match["argument"]):
        return None
    return Call(match["word"], (match["argument"] or "").strip())


def message_in(text: str) -> str:
    """A prompt as a message: without the slash or space that kept it from being a command."""
    text = text.strip("\n").rstrip()
    return text[1:] if _ESCAPED.match(text) else text


def problem_with(call: Call) -> str | None:
    """Why this command cannot be run, as a sentence; None where it can."""
    action = COMMANDS.get(call.word.casefold())
    if action is None:
        near = nearest_command(call.word)
        guess = f"; did you mean /{near}?" if near else "."
        return f"There is no command /{call.word}{guess} {_AS_MESSAGE}"
    if call.argument and not action.takes:
        return f"/{action.slash} takes nothing after it. {_AS_MESSAGE}"
    return "Which file? Type /file and its path." if action.slash == "file" and not call.argument else None


def nearest_command(word: str) -> str | None:
    """The command that a mistyped word most likely meant."""
    word = word.casefold()
    begun = next((name for name in COMMANDS if word and name.startswith(word)), None)
    close = difflib.get_close_matches(word, COMMANDS, n=1, cutoff=0.5)
    return begun or (close[0] if close else None)
