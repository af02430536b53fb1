"""What was measured on this machine, kept between runs: what passes cost, what was accepted, what crashes.

The file may be lost, stale or damaged at any time: then it is measured again. Whatever it says, the
controller's ledger limits what a wrong choice costs.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path

import platformdirs

VERSION = 1
# As many sets are kept; the oldest make room.
_MOST = 200


def cache_folder() -> Path:
    """The folder for everything that can be made again."""
    return Path(platformdirs.user_cache_dir("specchat", appauthor=False))


def measurements_file() -> Path:
    """The file of what was measured on this machine."""
    return cache_folder() / "measurements.json"


class Measurements:
    """Lists of numbers by name, in a file that is read and written whole."""

    def __init__(self, path: Path) -> None:
        """Read `path`. A file that is missing, unreadable or of another version counts as empty."""
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
        """Add what is new to what other runs wrote meanwhile. A folder that cannot be written keeps nothing,
        which must not stop anyone from chatting."""
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
