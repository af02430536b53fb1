"""What was learned on this machine, kept between runs: cost curves and acceptance, by what they hold for.

It may be lost, stale or damaged at any time: then it is learned again. Whatever it says, the ledger
bounds what a wrong choice costs.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

VERSION = 1
# Sets that are kept: the oldest make room.
_MOST = 200


class Knowledge:
    """A file of lists of numbers by name, read whole and written whole."""

    def __init__(self, path: Path) -> None:
        """Read `path`; what is not there, of another version or unreadable is nothing."""
        self._path = path
        self._known = _read(path)
        self._written = dict(self._known)

    def get(self, name: str) -> tuple[float, ...]:
        """The numbers of that name, () where there are none."""
        return self._known.get(name, ())

    def put(self, name: str, numbers: Sequence[float]) -> None:
        """Replace the numbers of that name."""
        self._known.pop(name, None)
        self._known[name] = tuple(numbers)

    def save(self) -> None:
        """Write what is new beside what other runs wrote meanwhile; a folder that cannot be written keeps
        nothing, which must not stop anyone from chatting."""
        new = {name: numbers for name, numbers in self._known.items() if self._written.get(name) != numbers}
        if not new:
            return
        known = {**_read(self._path), **new}
        kept = dict(list(known.items())[-_MOST:])
        beside = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text(json.dumps({"version": VERSION, "known": kept}), encoding="utf-8")
            beside.replace(self._path)
            self._written = dict(self._known)

    def forget(self) -> None:
        """Remove all of it. Raises OSError where the file cannot be removed."""
        self._known, self._written = {}, {}
        self._path.unlink(missing_ok=True)


def curve_numbers(seconds: Mapping[int, float]) -> tuple[float, ...]:
    """A cost curve as numbers: width, seconds, width, seconds, …"""
    return tuple(number for width, cost in sorted(seconds.items()) for number in (float(width), cost))


def curve_of(numbers: Sequence[float]) -> dict[int, float]:
    """The cost curve of these numbers; {} where they are none."""
    widths, costs = numbers[::2], numbers[1::2]
    sound = (
        len(widths) == len(costs) > 1
        and all(width == int(width) and 1 <= width <= 4096 for width in widths)
        and all(0.0 < cost < 3600.0 for cost in costs)
        and 1.0 in widths
    )
    return {int(width): cost for width, cost in zip(widths, costs, strict=True)} if sound else {}


def _read(path: Path) -> dict[str, tuple[float, ...]]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    known = data.get("known") if isinstance(data, dict) and data.get("version") == VERSION else None
    if not isinstance(known, dict):
        return {}
    return {name: tuple(map(float, numbers)) for name, numbers in known.items() if _are_numbers(numbers)}


def _are_numbers(numbers: object) -> bool:
    return isinstance(numbers, list) and all(
        isinstance(each, (int, float)) and not isinstance(each, bool) and math.isfinite(each)
        for each in numbers
    )
