"""What plain decoding would have taken for the tokens of a reply, beside what they took.

The panel, `specchat -p`, comparisons, benchmarks and JSON have their "times plain" from here.

A plain pass counts as what it took, less what choosing and looking up took of it. The tokens of a drafted
pass count as what plain passes would have taken at that moment. A machine's speed drifts within seconds, and
there may be no plain pass near; but every pass tells how fast the machine is. So time is cut into spans, and

    log seconds of a pass = v of its span + r of its kind,    r = 0 for plain passes

is fitted by least squares to the mean of each kind in each span; neighbouring spans are tied to each other.
Kinds are widths, and plain passes right behind drafted ones, which are slower because of them (see costs.py).
What holds a pass up from outside would have held up plain decoding as well: it counts on both sides.
"""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np

from app.engine.events import Pass

# Plain passes that a reply must have.
ENOUGH = 3
# Seconds of decoding in which a machine's speed counts as the same, and how many such spans are told apart: a
# longer reply has longer ones.
_SPAN, _MOST_SPANS = 0.1, 128
# The tie between neighbouring spans, in passes.
_TIE = 0.5
# A pass that takes so many times the usual of its kind was held up from outside. How fast the usual moves.
_HELD_UP, _STEP = 2.0, 0.1
_PLAIN, _BEHIND = 1, 0


class _Span:
    """Passes of a short time: their number and seconds by kind. tokens: of all but plain passes."""

    __slots__ = ("length", "passes", "seconds", "tokens")

    def __init__(self) -> None:
        self.length = 0.0
        self.tokens = 0
        self.passes: dict[int, int] = defaultdict(int)
        self.seconds: dict[int, float] = defaultdict(float)

    def join(self, other: _Span) -> None:
        self.length += other.length
        self.tokens += other.tokens
        for kind, count in other.passes.items():
            self.passes[kind] += count
            self.seconds[kind] += other.seconds[kind]


class PlainEstimator:
    """Takes the passes of one reply in their order."""

    def __init__(self) -> None:
        self._spans = [_Span()]
        self._length = _SPAN
        # Seconds of a pass by its kind, and the spans of kinds that were seen once.
        self._usual: dict[int, float] = {}
        self._first: dict[int, _Span] = {}
        self._behind_draft = False
        self._tokens = self._plain = 0
        # Seconds of plain passes, and seconds for which any pass was held up.
        self._own = 0.0

    def record(self, entry: Pass) -> None:
        """A pass was made."""
        drafted, kept = len(entry.drafted), len(entry.tokens)
        width = drafted + entry.padded + entry.replayed + 1
        kind = width if drafted else _BEHIND if self._behind_draft else _PLAIN
        self._behind_draft = drafted > 0
        span = self._span()
        span.length += entry.seconds
        own = entry.seconds - entry.speculation_seconds
        held_up = self._held_up(kind, own, span)
        self._own += held_up + (own - held_up if kind == _PLAIN else 0.0)
        self._tokens += kept
        span.tokens += kept if kind != _PLAIN else 0
        self._time(span, kind, own - held_up)

    def timed_behind(self, seconds: float) -> None:
        """A plain pass was timed behind the reply, which had too few."""
        self._time(self._spans[-1], _PLAIN, seconds)

    def _span(self) -> _Span:
        """The span of now."""
        spans = self._spans
        if spans[-1].length >= self._length:
            if len(spans) == _MOST_SPANS:
                self._length *= 2
                for first, second in zip(spans[::2], spans[1::2], strict=True):
                    first.join(second)
                del spans[1::2]
                self._first.clear()
            spans.append(_Span())
        return spans[-1]

    def _time(self, span: _Span, kind: int, seconds: float) -> None:
        span.passes[kind] += 1
        span.seconds[kind] += seconds
        self._plain += kind == _PLAIN

    def _held_up(self, kind: int, seconds: float, span: _Span) -> float:
        """For how long of its time a pass was held up from outside, by what is usual for its kind."""
        first = self._first.pop(kind, None)
        if kind not in self._usual:
            self._first[kind] = span
        usual = self._usual[kind] if kind in self._usual else self._usual_of_wider(kind, seconds)
        if first is not None and usual > _HELD_UP * seconds:
            # It was the first one that was held up.
            first.seconds[kind] -= usual - seconds
            self._own += 0.0 if kind == _PLAIN else usual - seconds
            usual = seconds
        held_up = seconds - usual if seconds > _HELD_UP * usual else 0.0
        self._usual[kind] = usual + _STEP * (seconds - held_up - usual)
        return held_up

    def _usual_of_wider(self, kind: int, seconds: float) -> float:
        """What is usual for a kind that takes `seconds` at first: that, unless wider passes take far less."""
        wider = min((usual for other, usual in self._usual.items() if other > kind), default=seconds)
        return wider if seconds > _HELD_UP * wider else seconds

    def seconds_per_token(self) -> float | None:
        """What plain decoding would have taken for a token of this reply; None where too few passes tell."""
        if not self._tokens:
            return None
        drafted = 0.0
        if any(span.tokens for span in self._spans):
            if self._plain < ENOUGH:
                return None
            plain = self._plain_by_span()
            drafted = sum(span.tokens * each for span, each in zip(self._spans, plain, strict=True))
        return (self._own + drafted) / self._tokens

    def _plain_by_span(self) -> list[float]:
        """Seconds of a plain pass in each span: exp(v)."""
        spans = self._spans
        number = len(spans)
        kinds = sorted({kind for span in spans for kind in span.passes} - {_PLAIN})
        column = {kind: number + index for index, kind in enumerate(kinds)}
        matrix = np.zeros((number + len(kinds),) * 2)
        right = np.zeros(len(matrix))
        for row, span in enumerate(spans):
            for kind, count in span.passes.items():
                observed = count * math.log(span.seconds[kind] / count)
                places = [row, column[kind]] if kind in column else [row]
                matrix[np.ix_(places, places)] += count
                right[places] += observed
        between = np.arange(number - 1)
        matrix[between, between] += _TIE
        matrix[between + 1, between + 1] += _TIE
        matrix[between, between + 1] -= _TIE
        matrix[between + 1, between] -= _TIE
        return [math.exp(v) for v in np.linalg.solve(matrix, right)[:number]]
