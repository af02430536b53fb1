"""Times how long it takes to rewind a model's memory, next to plain passes.

A rewind has three costs: before it, if something is saved for it (the pass of a draft saves a copy); the
rewind itself; and in the next pass, which reads again the tokens after the point that the memory could return
to.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from app.llama.context import Context

# Successive rewinds start from this many places in turn: from a single place, tokens to read again
# accumulate, see Context.
STARTS = 3

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RewindTiming:
    """One rewind. again: tokens that were read again. Seconds: plain_s of a plain pass just before; before_s
    of the draft's pass, or of saving the end of a turn; back_s of the rewind; next_s of the pass after it,
    which reads tokens again."""

    again: int
    plain_s: float
    before_s: float
    back_s: float
    next_s: float

    @property
    def cost(self) -> float:
        """The cost beyond that of the next pass, in plain passes."""
        return (self.back_s + self.next_s) / self.plain_s - 1


def tokens_needed(drafted: int, turn: int) -> int:
    """How many tokens these rewinds need after their depth."""
    return STARTS + 2 + max(drafted + 1, turn)


def time_rejection(
    context: Context, tokens: Sequence[int], place: int, drafted: int, rejected: int
) -> RewindTiming:
    """A pass over a draft after `place` tokens, and a rollback of the last `rejected` of them. tokens: at
    least `tokens_needed` more than place."""
    _hold(context, tokens, place)
    _, plain = _timed(lambda: context.forward(tokens[place : place + 1]))
    start, end = place + 1, place + 2 + drafted
    _, before = _timed(lambda: context.forward(tokens[start:end], rows=1 + drafted))
    _, back = _timed(lambda: context.rollback(end - rejected))
    again = context.pending
    _, following = _timed(lambda: context.forward(tokens[end - rejected : end - rejected + 1]))
    return RewindTiming(again, plain, before, back, following)


def time_return(context: Context, tokens: Sequence[int], place: int, length: int, turn: int) -> RewindTiming:
    """A turn of `turn` tokens after `place`, where the previous turn ends; then a rewind to `length` tokens,
    and reading up to `place` again."""
    _hold(context, tokens, place)
    _, plain = _timed(lambda: context.forward(tokens[place : place + 1]))
    context.forward(tokens[place + 1 : place + 1 + turn], rows=0)
    _, before = _timed(context.keep)
    kept, back = _timed(lambda: context.rewind(length))
    _, following = _timed(lambda: context.forward(tokens[kept : place + 1]))
    return RewindTiming(place - kept, plain, before, back, following)


def _hold(context: Context, tokens: Sequence[int], place: int) -> None:
    """Make the context hold the first `place` tokens, as at the end of a turn."""
    kept = context.rewind(min(place, context.length))
    if kept < place:
        context.forward(tokens[kept:place], rows=0)
    context.keep()


def _timed(action: Callable[[], T]) -> tuple[T, float]:
    started = time.perf_counter()
    result = action()
    return result, time.perf_counter() - started
