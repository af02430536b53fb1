"""Recorded replies and a cost curve in place of a model: what each pass would have cost, exactly.

A trajectory is a prompt and the reply that followed, as token ids. The first token of a reply comes
from the prefill and is not counted. In each pass the proposer sees the prompt and the reply so far; a
draft is compared with what follows; the pass commits the part that agrees and one token more, never
more than the reply has left, and costs c(1 + drafted) behind as many tokens as it stands behind. Plain
decoding costs c(1) a token.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from app.arguments import Parser
from app.engine.control import LONGEST, Controller, DraftOption
from app.engine.costs import PassCosts, interpolated
from app.engine.events import Pass
from app.engine.sampling import Sampler
from app.engine.settings import Sampling
from app.errors import SpecchatError
from proposers.lookup import Lookup

STATIC_LENGTHS = (0, 1, 2, 4, 8, 16, 32)
STATIC_MATCHES = (1, 2, 3, 6)
_WIDEST = max(LONGEST, *STATIC_LENGTHS) + 1


@dataclass(frozen=True, slots=True)
class Trajectory:
    """category: what the prompt asks for. prompt, reply: token ids."""

    category: str
    prompt: tuple[int, ...]
    reply: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """A fixed draft length, and the fewest tokens that must match."""

    k: int
    minimum: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """Speedups over plain decoding in one category."""

    auto: float
    best_static: float
    best_static_setting: Setting
    oracle: float


class Costs:
    """What a pass takes by width and depth: curves at some depths, straight lines between and beyond them."""

    def __init__(self, curves: Mapping[int, Mapping[int, float]]) -> None:
        """curves: by depth, each from width to time; where there is one only, depth does not matter."""
        self._depths = sorted(curves)
        self._curves = [interpolated(curves[depth], _WIDEST) for depth in self._depths]

    def at(self, width: int, depth: int) -> float:
        depths, curves = self._depths, self._curves
        if len(depths) == 1:
            return curves[0][width]
        upper = min(max(bisect_right(depths, depth), 1), len(depths) - 1)
        low, high = curves[upper - 1][width], curves[upper][width]
        share = (depth - depths[upper - 1]) / (depths[upper] - depths[upper - 1])
        return max(low + share * (high - low), 0.1 * low)


class Auto:
    """Lookup and controller as the chat uses them; it learns from one reply to the next."""

    def __init__(self, costs: Costs, knowledge: Sequence[float] = ()) -> None:
        """knowledge: what lookup learned earlier, () for nothing."""
        self._costs = costs
        self._lookup = Lookup()
        self._lookup.restore_acceptance(knowledge)
        self._controller = Controller()
        self._sampler = Sampler(Sampling(temperature=0.0))
        self._rng = np.random.default_rng(0)
        self._asked = True

    def begin(self, history: list[int]) -> None:
        """Another reply: what passes cost at this depth is measured where it was not."""
        depth = len(history) - 1
        widths = self._controller.costs.unmeasured(depth)
        if widths:
            seconds = {width: self._costs.at(width, depth) for width in (1, *widths)}
            self._controller.costs.calibrate(PassCosts(depth, seconds))
        self._controller.begin()
        self._lookup.begin(history)

    def draft(self, history: list[int], left: int) -> tuple[int, ...]:
        """Tokens that may follow. history: prompt and reply so far; left: tokens a draft may have at most."""
        controller, lookup = self._controller, self._lookup
        self._asked = controller.may_draft()
        if not self._asked:
            return ()
        controller.costs.set_depth(len(history) - 1)
        forecast = lookup.forecast(history, min(LONGEST, left), controller.min_chance)
        k = controller.choose([DraftOption(lookup.name, forecast, hit_streak=lookup.hit_streak)]).k
        if k == 0:
            return ()
        return self._lookup.propose(history, k, self._sampler, self._rng).tokens

    def observe(self, history: list[int], drafted: tuple[int, ...], accepted: int, seconds: float) -> None:
        if not self._asked:
            return
        self._lookup.observe(history)
        committed = tuple(history[len(history) - accepted - 1 :])
        self._controller.observe(
            Pass("lookup", drafted, accepted, accepted + 1, committed, (), "", seconds, seconds, 0.0)
        )


def auto_costs(trajectories: Sequence[Trajectory], costs: Costs) -> list[float]:
    """What the chat's own way takes for each trajectory, learning over them in their order."""
    auto = Auto(costs)
    spent = []
    for trajectory in trajectories:
        total = 0.0
        history = [*trajectory.prompt, trajectory.reply[0]]
        auto.begin(history)
        done = 1
        while done < len(trajectory.reply):
            following = trajectory.reply[done:]
            drafted = auto.draft(history, len(following) - 1)
            accepted = agreeing(drafted, following)
            seconds = costs.at(1 + len(drafted), len(history) - 1)
            history.extend(following[: accepted + 1])
            done += accepted + 1
            auto.observe(history, drafted, accepted, seconds)
            total += seconds
        spent.append(total)
    return spent


@dataclass(frozen=True, slots=True)
class Copy:
    """What lookup would copy at one place of a reply: length of the match, how many of the copied
    tokens agree with what follows, LONGEST at most, and how many tokens the pass stands behind."""

    match: int
    agreeing: int
    depth: int


def copies_of(trajectory: Trajectory) -> list[Copy]:
    """The copy at each place of the reply but the first: the same whatever was drafted before."""
    lookup = Lookup()
    sampler, rng = Sampler(Sampling(temperature=0.0)), np.random.default_rng(0)
    history = [*trajectory.prompt, trajectory.reply[0]]
    lookup.begin(history)
    found = []
    for done in range(1, len(trajectory.reply)):
        following = trajectory.reply[done:]
        drafted = lookup.propose(history, _WIDEST - 1, sampler, rng).tokens
        found.append(Copy(lookup.match.length, agreeing(drafted, following), len(history) - 1))
        history.append(trajectory.reply[done])
        lookup.observe(history)
    return found


def fixed_costs(
    copies: Sequence[Sequence[Copy]], costs: Costs, length: Callable[[Copy, int], int]
) -> list[float]:
    """The same where `length` says how much of a copy is drafted, given how much the reply has left."""
    spent = []
    for along in copies:
        seconds, done = 0.0, 0
        while done < len(along):
            left = len(along) - done - 1
            drafted = min(length(along[done], left), left)
            seconds += costs.at(1 + drafted, along[done].depth)
            done += min(drafted, along[done].agreeing) + 1
        spent.append(seconds)
    return spent


def static_length(setting: Setting) -> Callable[[Copy, int], int]:
    """Always the same, wherever the match is long enough."""
    return lambda copy, left: setting.k if copy.match >= setting.minimum else 0


def oracle_length(costs: Costs) -> Callable[[Copy, int], int]:
    """As much as will be accepted, and of that as much as pays best in this pass."""

    def length(copy: Copy, left: int) -> int:
        longest = min(copy.agreeing, left, _WIDEST - 1)
        return max(range(longest + 1), key=lambda k: ((k + 1) / costs.at(k + 1, copy.depth), -k))

    return length


def replay(trajectories: Sequence[Trajectory], costs: Costs) -> dict[str, Outcome]:
    """All of it for one curve, by category."""
    copies = [copies_of(trajectory) for trajectory in trajectories]
    settings = [Setting(k, minimum) for k in STATIC_LENGTHS for minimum in STATIC_MATCHES]
    static = {
        setting: speedups(trajectories, costs, fixed_costs(copies, costs, static_length(setting)))
        for setting in settings
    }
    auto = speedups(trajectories, costs, auto_costs(trajectories, costs))
    oracle = speedups(trajectories, costs, fixed_costs(copies, costs, oracle_length(costs)))
    outcomes = {}
    for category in auto:
        best = max(settings, key=lambda setting: static[setting][category])
        outcomes[category] = Outcome(auto[category], static[best][category], best, oracle[category])
    return outcomes


def agreeing(drafted: Sequence[int], following: Sequence[int]) -> int:
    """How many tokens of a draft agree with what follows, up to the first that does not."""
    for count, (guessed, token) in enumerate(zip(drafted, following, strict=False)):
        if guessed != token:
            return count
    return min(len(drafted), len(following))


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def speedups(trajectories: Sequence[Trajectory], costs: Costs, spent: Sequence[float]) -> dict[str, float]:
    """By category: what plain decoding takes, over what was spent on each trajectory."""
    plain: dict[str, float] = {}
    taken: dict[str, float] = {}
    for each, seconds in zip(trajectories, spent, strict=True):
        depths = range(len(each.prompt), len(each.prompt) + len(each.reply) - 1)
        seconds_plain = sum(costs.at(1, depth) for depth in depths)
        plain[each.category] = plain.get(each.category, 0.0) + seconds_plain
        taken[each.category] = taken.get(each.category, 0.0) + seconds
    return {category: plain[category] / seconds for category, seconds in taken.items()}


def read_trajectories(path: Path) -> tuple[Trajectory, ...]:
    """The file's samples. Raises SpecchatError where it is not such a file."""
    data = _json(path)
    try:
        samples = data["samples"]
        found = tuple(
            Trajectory(str(each["category"]), tuple(map(int, each["prompt"])), tuple(map(int, each["reply"])))
            for each in samples
        )
    except (KeyError, TypeError, ValueError) as error:
        raise SpecchatError(
            f'{path} holds no trajectories: give {{"samples": [{{"category", "prompt", "reply"}}, …]}}, '
            "as specchat bench record writes it."
        ) from error
    if not all(len(each.reply) > 1 and each.prompt for each in found) or not found:
        raise SpecchatError(f"{path} has a sample without a prompt or a reply of two tokens: remove it.")
    return found


def read_curves(path: Path) -> dict[str, Costs]:
    """The costs of the file by name. Raises SpecchatError where it is not such a file."""
    data = _json(path)
    try:
        found = {name: _by_depth(curves) for name, curves in data.items() if name != "about"}
    except (AttributeError, TypeError, ValueError) as error:
        raise SpecchatError(
            f'{path} holds no cost curves: give {{name: {{"1": milliseconds, "2": …}}}}, or by depth '
            '{name: {"300": {"1": …}, "900": {"1": …}}}.'
        ) from error
    for name, curves in found.items():
        for curve in curves.values():
            if 1 not in curve or len(curve) < 2 or min(curve.values()) <= 0 or min(curve) < 1:
                raise SpecchatError(f"The curve {name} of {path} needs times above 0, that of width 1 too.")
    return {name: Costs(curves) for name, curves in found.items()}


def _by_depth(curves: Mapping[str, Any]) -> dict[int, dict[int, float]]:
    """One curve, or several by depth."""
    deep = all(isinstance(each, dict) for each in curves.values())
    return {
        int(depth): {int(width): float(cost) for width, cost in curve.items()}
        for depth, curve in (curves if deep else {"0": curves}).items()
    }


def _json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SpecchatError(f"{path} cannot be read as JSON: {error}.") from error
    if not isinstance(data, dict):
        raise SpecchatError(f"{path} holds no object: name a file that specchat bench record wrote.")
    return data


def main(arguments: Sequence[str]) -> int:
    """Print a table for each curve, or with --json one object."""
    parser = Parser(prog="specchat bench replay", description=__doc__)
    parser.add_argument("trajectories", type=Path, help="a file that specchat bench record wrote")
    parser.add_argument("curves", type=Path, help='{name: {"1": milliseconds, "2": …}}')
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--course", action="store_true", help="show how auto nears the best as it learns")
    options = parser.parse_args(arguments)
    trajectories = read_trajectories(options.trajectories)
    curves = read_curves(options.curves)
    outcomes = {name: replay(trajectories, costs) for name, costs in curves.items()}
    if options.json:
        print(json.dumps({"curves": {name: _as_json(each) for name, each in outcomes.items()}}))
        return 0
    for name, each in outcomes.items():
        print(f"{name:<16}{'auto':>8}{'static':>8}{'oracle':>8}   best static")
        for category, outcome in each.items():
            setting = outcome.best_static_setting
            print(
                f"  {category:<14}{outcome.auto:>8.3f}{outcome.best_static:>8.3f}{outcome.oracle:>8.3f}"
                f"   k {setting.k}, match {setting.minimum}"
            )
        means = _means(each)
        print(f"  {'geometric mean':<14}" + "".join(f"{mean:>8.3f}" for mean in means.values()))
        print(f"  auto reaches {means['auto'] / means['oracle']:.0%} of the per-pass oracle's speed")
        if options.course:
            from app.bench.course import course, picture

            print(picture(course(trajectories, curves[name], each)))
    return 0


def _means(outcomes: Mapping[str, Outcome]) -> dict[str, float]:
    every = list(outcomes.values())
    return {
        "auto": geometric_mean([each.auto for each in every]),
        "best_static": geometric_mean([each.best_static for each in every]),
        "oracle": geometric_mean([each.oracle for each in every]),
    }


def _as_json(outcomes: Mapping[str, Outcome]) -> dict[str, object]:
    categories = {
        category: {
            "auto": each.auto,
            "best_static": each.best_static,
            "best_static_setting": {
                "k": each.best_static_setting.k,
                "minimum_match": each.best_static_setting.minimum,
            },
            "oracle": each.oracle,
        }
        for category, each in outcomes.items()
    }
    return {"categories": categories, "geomean": _means(outcomes)}
