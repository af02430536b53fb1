"""What going back in a model's memory costs: rewinds made on purpose, each beside a plain pass.

A way back is paid for in three places: before it, where something is kept for it (the pass of the draft saves
a copy), in the rewind itself, and in the next pass, which reads again what lies behind the place that the
memory could go back to.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from app.llama.context import Context

# Rewinds in a row begin at as many places in turn: from one place, what is read again adds up, see Context.
PLACES = 3

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rewind:
    """One rewind. again: tokens that were read again. Seconds: plain_s of a plain pass just before; before_s
    of the pass of the draft, or of keeping the end of a turn; back_s of the rewind; next_s of the pass behind
    it, with what is read again."""

    again: int
    plain_s: float
    before_s: float
    back_s: float
    next_s: float

    @property
    def cost(self) -> float:
        """What it takes beyond the next pass, in plain passes."""
        return (self.back_s + self.next_s) / self.plain_s - 1


def room(drafted: int, turn: int) -> int:
    """Tokens that these rewinds need behind their depth."""
    return PLACES + 2 + max(drafted + 1, turn)


def reject(context: Context, tokens: Sequence[int], place: int, drafted: int, rejected: int) -> Rewind:
    """A pass over a draft behind `place` tokens, the last `rejected` of which are taken back. tokens: at
    least `room` more than place."""
    _stand(context, tokens, place)
    _, plain = _timed(lambda: context.forward(tokens[place : place + 1]))
    start, end = place + 1, place + 2 + drafted
    _, before = _timed(lambda: context.forward(tokens[start:end], rows=1 + drafted))
    _, back = _timed(lambda: context.rollback(end - rejected))
    again = context.pending
    _, following = _timed(lambda: context.forward(tokens[end - rejected : end - rejected + 1]))
    return Rewind(again, plain, before, back, following)


def return_to(context: Context, tokens: Sequence[int], place: int, length: int, turn: int) -> Rewind:
    """A turn of so many tokens behind `place`, which is the end of the turn before; then back to `length`
    tokens, and what lacks up to `place` read again."""
    _stand(context, tokens, place)
    _, plain = _timed(lambda: context.forward(tokens[place : place + 1]))
    context.forward(tokens[place + 1 : place + 1 + turn], rows=0)
    _, before = _timed(context.keep)
    kept, back = _timed(lambda: context.rewind(length))
    _, following = _timed(lambda: context.forward(tokens[kept : place + 1]))
    return Rewind(place - kept, plain, before, back, following)


def _stand(context: Context, tokens: Sequence[int], place: int) -> None:
    """Hold the first `place` tokens, as at the end of a turn."""
    kept = context.rewind(min(place, context.length))
    if kept < place:
        context.forward(tokens[kept:place], rows=0)
    context.keep()


def _timed(done: Callable[[], T]) -> tuple[T, float]:
    started = time.perf_counter()
    result = done()
    return result, time.perf_counter() - started
