"""A line on stderr that says how far a benchmark is, and how long it will take."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def with_progress(items: Iterable[Item], expected: int, what: str) -> Iterator[Item]:
    """Hand the items on as they come. expected: how many there will be; what: their name, in the plural."""
    started = time.monotonic()
    done = 0
    try:
        for done, each in enumerate(items, start=1):
            left = (time.monotonic() - started) / done * max(0, expected - done)
            said = f"\r{done} of {expected} {what}, about {left:.0f} s left "
            print(said, end="", file=sys.stderr, flush=True)
            yield each
    finally:
        if done:
            print(file=sys.stderr)
