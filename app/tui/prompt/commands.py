"""Which prompts are slash commands, and which only begin like one."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from app.tui.actions import ACTIONS, Action

COMMANDS: dict[str, Action] = {action.slash: action for action in ACTIONS if action.slash}

AS_MESSAGE = "A message that begins with / is sent with a space before it."
# A word with a second slash in it is a path, and a text.
_CALL = re.compile(r"/(?P<word>[^\s/]*)(?:\s+(?P<argument>.*))?", re.DOTALL)
_ESCAPED = re.compile(r"//\S| /")


@dataclass(frozen=True, slots=True)
class Call:
    """A command as typed: the word after the slash, which may be none of ours, and what follows it."""

    word: str
    argument: str


def call_in(text: str) -> Call | None:
    """The command that a prompt is; None where it is a message."""
    match = _CALL.fullmatch(text.rstrip())
    if match is None or (not match["word"] and match["argument"]):
        return None
    return Call(match["word"], (match["argument"] or "").strip())


def message_in(text: str) -> str:
    """The message that a prompt is: one slash, or a space, before a slash says that it is no command."""
    text = text.strip("\n").rstrip()
    return text[1:] if _ESCAPED.match(text) else text


def unknown(word: str) -> str:
    """What to say of a word that is no command."""
    near = nearest_command(word)
    guess = f"; did you mean /{near}?" if near else "."
    return f"There is no command /{word}{guess} {AS_MESSAGE}"


def nearest_command(word: str) -> str | None:
    """The command that a mistyped word most likely meant."""
    word = word.casefold()
    begun = next((name for name in COMMANDS if word and name.startswith(word)), None)
    close = difflib.get_close_matches(word, COMMANDS, n=1, cutoff=0.5)
    return begun or (close[0] if close else None)
