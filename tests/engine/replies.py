"""Replies run to their end, for tests of the loop."""

from __future__ import annotations

from collections.abc import Callable

from app.engine.events import Finished, Pass, Request
from app.engine.loop import Engine


def finish(engine: Engine, wanted: Request, each: Callable[[Pass], None] = lambda entry: None) -> Finished:
    """Run a reply to its end, looking at each pass."""
    for event in engine.generate(wanted):
        if isinstance(event, Pass):
            each(event)
        elif isinstance(event, Finished):
            return event
    raise AssertionError("no Finished")
