"""Replies run to their end, for tests of the loop."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

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


def take_turns(engines: Sequence[Engine], request: Request, dice: random.Random) -> list[Finished]:
    """Make a reply with each, a few passes at a time, on the one target that they share."""
    replies = [engine.generate(request) for engine in engines]
    finished: dict[int, Finished] = {}
    begun: set[int] = set()
    last = engines[0]
    while len(finished) < len(engines):
        index = dice.choice([index for index in range(len(engines)) if index not in finished])
        engine = engines[index]
        if index not in begun:
            engine.take_cache(last)
        elif engine is not last:
            assert engine.resume(last) == ()
        begun.add(index)
        last = engine
        passes = dice.randint(1, 5)
        for event in replies[index]:
            if isinstance(event, Finished):
                finished[index] = event
            passes -= isinstance(event, Pass)
            if passes == 0:
                break
    return [finished[index] for index in range(len(engines))]
