"""What a check found, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warning", "fault"]


@dataclass(frozen=True, slots=True)
class Check:
    """A line of the report.

    state: fault where it stands in the way of chatting, warning where it only costs something.
    advice: what to do, "" where nothing is to be done. command: what to type for it, if anything.
    """

    name: str
    state: State
    finding: str
    advice: str = ""
    command: str = ""


def size(count: int) -> str:
    """Bytes as people read them."""
    return f"{count / 1e9:,.1f} GB" if count >= 1e8 else f"{count / 1e6:,.1f} MB"


def counted(number: int, what: str) -> str:
    """So many of something, in words."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
