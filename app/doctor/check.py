"""A line of the doctor's report: what was found, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warning", "fault"]


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
