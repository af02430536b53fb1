"""The doctor's report: what was found and what to do about it, as text and as JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from app.text import one_line

State = Literal["ok", "warning", "fault"]

_SIGNS: dict[State, str] = {"ok": "✓", "warning": "!", "fault": "✗"}
_COLOURS: dict[State, str] = {"ok": "\033[32m", "warning": "\033[33m", "fault": "\033[31m"}
_PLAIN = "\033[0m"
# Sign and state, then the name: what follows begins in one column.
_STATE_WIDTH, _NAME_WIDTH = 10, 18


@dataclass(frozen=True, slots=True)
class Check:
    """state: fault where nobody can chat with it, warning where it only costs something.

    advice: what to do, "" for nothing. command: what to type for it, if anything.
    """

    name: str
    state: State
    finding: str
    advice: str = ""
    command: str = ""


def ok(name: str, finding: str, advice: str = "", command: str = "") -> Check:
    return Check(name, "ok", finding, advice, command)


def warning(name: str, finding: str, advice: str = "", command: str = "") -> Check:
    return Check(name, "warning", finding, advice, command)


def fault(name: str, finding: str, advice: str = "", command: str = "") -> Check:
    return Check(name, "fault", finding, advice, command)


def size(count: int) -> str:
    """Bytes as people read them."""
    return f"{count / 1e9:,.1f} GB" if count >= 1e8 else f"{count / 1e6:,.1f} MB"


def counted(number: int, what: str) -> str:
    """A number of something, in words."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def lines_of(check: Check, columns: int | None, colour: bool) -> list[str]:
    """A check as lines of that width with a hanging indent; as one line where columns is None, for a pipe.

    A command has a line of its own, unbroken, so that it can be copied.
    """
    state = f"{_SIGNS[check.state]} {check.state}".ljust(_STATE_WIDTH)
    if colour:
        state = f"{_COLOURS[check.state]}{state}{_PLAIN}"
    head = state + check.name.ljust(_NAME_WIDTH)
    if columns is None:
        said = ". ".join(filter(None, (one_line(check.finding).rstrip("."), advice_of(check))))
        return [f"{head}{said}"]
    indent = " " * (_STATE_WIDTH + _NAME_WIDTH)
    width = max(20, columns - len(indent) - 1)
    lines = textwrap.wrap(one_line(check.finding), width, break_on_hyphens=False) or [""]
    lines += textwrap.wrap(
        one_line(check.advice), width, initial_indent="→ ", subsequent_indent="  ", break_on_hyphens=False
    )
    lines = [head + lines[0], *(indent + line for line in lines[1:])]
    return [*lines, one_line(check.command)] if check.command else lines


def summary_of(checks: Sequence[Check]) -> str:
    """The last line: whether one can chat."""
    faults = sum(check.state == "fault" for check in checks)
    warnings = sum(check.state == "warning" for check in checks)
    if faults:
        return f"You cannot chat: {counted(faults, 'fault')} above."
    if warnings:
        return f"You can chat; {counted(warnings, 'warning')} above."
    return "All is well."


def as_json(checks: Sequence[Check]) -> str:
    """One object: ok, and the checks."""
    return json.dumps(
        {
            "ok": is_ok(checks),
            "checks": [
                {
                    "name": check.name,
                    "state": check.state,
                    "finding": one_line(check.finding),
                    "advice": advice_of(check),
                }
                for check in checks
            ],
        }
    )


def is_ok(checks: Sequence[Check]) -> bool:
    """Whether the person can chat."""
    return all(check.state != "fault" for check in checks)


def advice_of(check: Check) -> str:
    """What to do, with what to type for it."""
    return " ".join(filter(None, (one_line(check.advice), one_line(check.command))))
