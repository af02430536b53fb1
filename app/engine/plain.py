"""How long plain decoding would have taken for the tokens of a reply.

The panel, `specchat -p`, comparisons, benchmarks and JSON get their "times plain" from here.

A plain pass counts with its own time, without choosing and looking up. The tokens of a drafted pass count
with the time that plain passes would have taken at that moment. A machine's speed drifts within seconds, and
there may be no plain pass nearby, but every pass shows how fast the machine is. So time is divided into
spans, and

    log seconds of a pass = v of its span + r of its kind,    r = 0 for plain passes

is fitted by least squares to the mean of each kind in each span, with neighbouring spans tied to each other.
Kinds are widths, and plain passes right after drafted ones, which are slower because of them (see costs.py).
An outside delay of a pass would have delayed plain decoding as well, so it counts on both sides.
"""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np

from app.engine.events import Pass

# The number of plain passes that a reply must have.
MIN_PLAIN_PASSES = 3
# Seconds of decoding in which a machine's speed counts as constant, and the most such spans: a longer reply
# has longer ones.
_SPAN, _MOST_SPANS = 0.1, 128
# The weight that ties neighbouring spans, in passes.
_TIE = 0.5
# A pass that takes this many times what is usual for its kind was delayed from outside; and how far each pass
# moves what is usual.
_DELAYED, _STEP = 2.0, 0.1
# The kind of a plain pass, and of one right after a drafted pass.
_PLAIN, _AFTER_DRAFT = 1, 0


class _Span:
    """Passes within a short time: their number and seconds by kind. tokens: from all but plain passes."""

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
        # Usual seconds of a pass by kind, and the span of each kind that was seen only once.
        self._usual: dict[int, float] = {}
        self._first: dict[int, _Span] = {}
        self._after_draft = False
        self._tokens = self._plain = 0
        # Seconds of plain passes, and of delays in any pass.
        self._own = 0.0

    def record(self, entry: Pass) -> None:
        """A pass was made."""
        drafted, kept = len(entry.drafted), len(entry.tokens)
        width = drafted + entry.padded + entry.replayed + 1
        kind = width if drafted else _AFTER_DRAFT if self._after_draft else _PLAIN
        self._after_draft = drafted > 0
        span = self._span()
        span.length += entry.seconds
        own = entry.seconds - entry.speculation_seconds
        delay = self._delay(kind, own, span)
        self._own += delay + (own - delay if kind == _PLAIN else 0.0)
        self._tokens += kept
        span.tokens += kept if kind != _PLAIN else 0
        self._time(span, kind, own - delay)

    def add_plain_pass(self, seconds: float) -> None:
        """A plain pass was timed after the reply, which had too few of them."""
        self._time(self._spans[-1], _PLAIN, seconds)

    def _span(self) -> _Span:
        """The current span."""
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

    def _delay(self, kind: int, seconds: float, span: _Span) -> float:
        """How many of its seconds a pass was delayed from outside, judging by what is usual for its kind."""
        first = self._first.pop(kind, None)
        if kind not in self._usual:
            self._first[kind] = span
        usual = self._usual[kind] if kind in self._usual else self._usual_of_wider(kind, seconds)
        if first is not None and usual > _DELAYED * seconds:
            # The first pass of this kind was the one that was delayed.
            first.seconds[kind] -= usual - seconds
            self._own += 0.0 if kind == _PLAIN else usual - seconds
            usual = seconds
        delay = seconds - usual if seconds > _DELAYED * usual else 0.0
        self._usual[kind] = usual + _STEP * (seconds - delay - usual)
        return delay

    def _usual_of_wider(self, kind: int, seconds: float) -> float:
        """What is usual for a kind whose first pass took `seconds`: that, unless wider passes take far
        less."""
        wider = min((usual for other, usual in self._usual.items() if other > kind), default=seconds)
        return wider if seconds > _DELAYED * wider else seconds

    def seconds_per_token(self) -> float | None:
        """The time of plain decoding for a token of this reply; None if there are too few passes to tell."""
        if not self._tokens:
            return None
        drafted = 0.0
        if any(span.tokens for span in self._spans):
            if self._plain < MIN_PLAIN_PASSES:
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
