"""What can be explored: cost curves, proposers as examples, and what follows from a choice of them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from app.engine.costs import interpolated
from app.engine.expectation import best_k, expected_tokens, relative_cost, speedup
from app.errors import SpecchatError
from app.text import one_line

# Longer times are typing errors.
_LONGEST_TIME = 1e12
# The longest draft that can be chosen: as many bars as a narrow terminal has room for.
LONGEST = 16


@dataclass(frozen=True, slots=True)
class Curve:
    """What a pass costs by its width: `points` in any one unit, linear between them and beyond the last.

    Raises ValueError where width 1 and a greater one are not among the points, or a cost is not above 0.
    """

    name: str
    points: Mapping[int, float]
    _costs: tuple[float, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.points) < 2 or min(self.points) != 1 or min(self.points.values()) <= 0:
            raise ValueError("a cost curve needs costs above 0 of width 1 and of a greater one")
        *_, before, last = sorted(self.points)
        costs = interpolated(self.points, last)[: LONGEST + 2]
        # Where noise made the last stretch fall, wider passes are not cheaper and cheaper.
        slope = max(0.0, self.points[last] - self.points[before]) / (last - before)
        costs += [self.points[last] + slope * step for step in range(1, LONGEST + 2 - last)]
        object.__setattr__(self, "_costs", tuple(costs))

    def cost(self, width: int) -> float:
        """Of a pass of this width, LONGEST + 1 at most."""
        return self._costs[width]


@dataclass(frozen=True, slots=True)
class Preset:
    """A proposer with the figures that it has, or may have.

    alpha: odds that a drafted token is accepted. draft_cost: what it takes to draft one, in plain passes.
    origin: whose colour its tokens have. note: where the figures are from.
    """

    name: str
    alpha: float
    draft_cost: float
    origin: str
    note: str


# In plain passes, rounded. The shapes are of real machines, the figures nobody's in particular.
CURVES = (
    Curve("ideal: width is free", {1: 1.0, 2: 1.0}),
    Curve("GPU, 8B in 4 bits", {1: 1.0, 2: 1.1, 4: 1.35, 6: 1.75, 8: 2.15, 9: 2.2, 16: 2.3, 32: 2.8}),
    Curve("CPU, 16-bit floats", {1: 1.0, 2: 1.2, 3: 1.4, 4: 1.6, 6: 1.9, 8: 2.3, 12: 2.9, 16: 3.5}),
    Curve("CPU, 8 bits: two cost two", {1: 1.0, 2: 2.15, 4: 3.15, 6: 4.0, 8: 4.1, 12: 5.1, 16: 5.55}),
    Curve("compute-bound: 8 cost 6.5", {1: 1.0, 8: 6.5}),
)
_GPU = 1

PRESETS = (
    Preset("lookup on a summary", 0.7, 0.0, "lookup", "example: the reply quotes"),
    Preset("lookup on prose", 0.2, 0.0, "lookup", "example: little is said twice"),
    Preset("draft of the same family", 0.75, 0.12, "draft", "example: 1B drafts for 8B"),
    Preset("layer skip, small model", 0.73, 0.9, "skip", "example: 3 of 30 layers left out"),
    Preset("layer skip, large model", 0.92, 0.55, "skip", "example: 45 % of layers left out"),
)


@dataclass(frozen=True, slots=True)
class Situation:
    """What is chosen at present. alpha, draft_cost, origin: as of Preset."""

    alpha: float
    k: int
    draft_cost: float
    curve: Curve
    origin: str

    @property
    def expected(self) -> float:
        """Tokens of a pass."""
        return expected_tokens(self.alpha, self.k)

    @property
    def cost(self) -> float:
        """What a pass takes, its draft included, in plain passes."""
        return relative_cost(self.k, self.curve.cost, self.draft_cost)

    @property
    def speedup(self) -> float:
        return self.expected / self.cost

    @property
    def speedups(self) -> tuple[float, ...]:
        """For k = 0, 1, …, LONGEST."""
        return tuple(speedup(self.alpha, k, self.curve.cost, self.draft_cost) for k in range(LONGEST + 1))

    @property
    def best(self) -> int:
        """The k that is fastest, 0 where none is faster than plain decoding."""
        return best_k(self.alpha, self.curve.cost, self.draft_cost, LONGEST)


@dataclass(frozen=True, slots=True)
class Start:
    """What the screen begins with and can go back to, and what there is to choose from.

    The situation is that of the first preset. given: whether any of it was given, and is not an example.
    """

    situation: Situation
    presets: tuple[Preset, ...]
    curves: tuple[Curve, ...]
    given: bool


def start_from(
    alpha: float | None,
    k: int | None,
    draft_cost: float | None,
    curves: tuple[Curve, ...],
    origin: str | None,
    name: str,
) -> Start:
    """Begin with what is given, called `name`, and with examples in place of what is not (None)."""
    presets: tuple[Preset, ...] = PRESETS
    first = presets[0]
    if alpha is not None or draft_cost is not None:
        cost = first.draft_cost if draft_cost is None else min(max(draft_cost, 0.0), 1.0)
        first = Preset(
            name,
            first.alpha if alpha is None else min(max(alpha, 0.0), 1.0),
            cost,
            origin or ("draft" if cost else "lookup"),
            "" if alpha is not None else "the acceptance is an example",
        )
        presets = (first, *PRESETS)
    curve = curves[0] if curves else CURVES[_GPU]
    length = 4 if k is None else min(max(k, 0), LONGEST)
    return Start(
        Situation(first.alpha, length, first.draft_cost, curve, first.origin),
        presets,
        (*curves, *CURVES),
        given=len(presets) > len(PRESETS) or k is not None or bool(curves),
    )


def measured_curve(seconds: Mapping[int, float] | None, name: str) -> tuple[Curve, ...]:
    """The curve of these seconds by width; none where too few widths were measured to draw one."""
    try:
        return (Curve(name, dict(seconds or {})),)
    except ValueError:
        return ()


def read_curves(path: Path) -> tuple[Curve, ...]:
    """The cost curves of a JSON file: an object of named objects that give a pass's cost by its width.

    Strings beside them, such as a description, are passed over. Raises SpecchatError.
    """
    try:
        content: object = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SpecchatError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise SpecchatError(f"{path} is not JSON: {_WANTED}") from error
    named = content.items() if isinstance(content, dict) else ()
    curves = [_curve(path, name, value) for name, value in named if not isinstance(value, str)]
    if not curves:
        raise SpecchatError(f"{path} holds no cost curve: {_WANTED}")
    return tuple(curves)


_WANTED = 'write {"a name": {"1": 10.0, "2": 11.5, …}}, the time of a pass by its width.'


def _curve(path: Path, name: str, value: object) -> Curve:
    points = {}
    try:
        for width, cost in value.items() if isinstance(value, dict) else ():
            # A JSON file may hold whole numbers of hundreds of digits, and a bool is an int.
            if type(cost) not in (int, float) or not 0 < cost <= _LONGEST_TIME:
                raise ValueError
            if not re.fullmatch("[1-9][0-9]{0,5}", width):
                raise ValueError
            points[int(width)] = float(cost)
        return Curve(one_line(name) or "unnamed", points)
    except ValueError as error:
        raise SpecchatError(
            f"{path}: {name!r} is no cost curve: it needs a time above 0 for width 1 and for one more."
        ) from error
