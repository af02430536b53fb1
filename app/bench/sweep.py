"""Fixed draft lengths against auto, by category, on a real model: medians, and a picture over k.

Each reply is decoded beside a plain one, one pass here, one pass there, on two contexts of one model: a
machine's speed drifts within a second by more than the ways differ.
"""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import geometric_mean, median

from app.arguments import whole
from app.assembly.assembly import Assembly
from app.bench.prompts import Prompt, load_prompts, spread
from app.bench.workbench import (
    bench_parser,
    chat_tokens,
    greedy_request,
    grouped,
    open_assembly,
    with_progress,
)
from app.config.values import LoadSettings
from app.engine.control import Controller
from app.engine.events import Event, Finished, Pass, Prefill
from app.engine.loop import Engine
from app.engine.settings import LONGEST_DRAFT
from app.errors import UsageError

LENGTHS = (1, 2, 4, 8, 16)
_BAR = 30
_CALIBRATION_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to decode. k None: the controller's choice, pass by pass."""

    proposer: str
    k: int | None

    @property
    def label(self) -> str:
        if self.proposer == "off":
            return "plain"
        return "auto" if self.k is None else f"{self.proposer} k {self.k}"


PLAIN = Arm("off", None)


@dataclass(frozen=True, slots=True)
class Pair:
    """One reply of an arm and the plain one beside it."""

    round: int
    category: str
    arm: Arm
    plain: Finished
    reply: Finished


@dataclass(frozen=True, slots=True)
class ArmSpeed:
    """An arm in a category: medians over the rounds of its speed, and of its speed over plain decoding's
    beside it. Each round sums tokens and seconds first."""

    category: str
    arm: Arm
    speedup: float
    tokens_per_second: float


class Sweep:
    """Decodes each prompt with every arm, round after round."""

    def __init__(self, assembly: Assembly, arms: Sequence[Arm], tokens: int) -> None:
        self._assembly = assembly
        self._arms = tuple(arms)
        self._tokens = tokens
        self._engines = (assembly.engine("off"), assembly.engine("off"))
        self._capacity = min(engine.target.capacity for engine in self._engines)
        # Each arm keeps what it has learned, and its own ledger.
        self._controllers = {arm: Controller() for arm in (PLAIN, *arms)}
        costs = self._engines[0].calibrate([max(assembly.target.bos, 0)], _CALIBRATION_SECONDS)
        for controller in self._controllers.values():
            controller.costs.calibrate(costs)

    def runs(self, prompts: Sequence[Prompt], rounds: int) -> Iterator[Pair]:
        """Every reply. Which of a pair begins, and on which context, changes from pair to pair."""
        encoded = [(each.category, chat_tokens(self._assembly.target, each.prompt)) for each in prompts]
        for number in range(rounds):
            turn = number
            for category, ids in encoded:
                if len(ids) + self._tokens > self._capacity:
                    continue
                for arm in self._arms:
                    turn += 1
                    yield self._pair(number, category, ids, arm, swapped=turn % 2 == 1)

    def _pair(self, number: int, category: str, ids: tuple[int, ...], arm: Arm, swapped: bool) -> Pair:
        arms = (arm, PLAIN) if swapped else (PLAIN, arm)
        finished = in_turn(
            [self._reply(engine, ids, each) for engine, each in zip(self._engines, arms, strict=True)]
        )
        plain, reply = reversed(finished) if swapped else finished
        return Pair(number, category, arm, plain, reply)

    def _reply(self, engine: Engine, ids: tuple[int, ...], arm: Arm) -> Iterator[Event]:
        engine.sequence.proposers = self._assembly.proposers.choose(arm.proposer)
        engine.controller = self._controllers[arm]
        return engine.generate(greedy_request(ids, self._tokens, arm.k))


def in_turn(replies: Sequence[Iterator[Event]]) -> list[Finished]:
    """Make several replies at once: the one with the fewest tokens, read and written, makes the next step."""
    tokens = dict.fromkeys(range(len(replies)), 0)
    finished: dict[int, Finished] = {}
    while tokens:
        index = min(tokens, key=tokens.__getitem__)
        event = next(replies[index])
        if isinstance(event, Prefill):
            tokens[index] = event.done
        elif isinstance(event, Pass):
            tokens[index] += event.committed
        elif isinstance(event, Finished):
            finished[index] = event
            del tokens[index]
    return [finished[index] for index in range(len(replies))]


def medians(pairs: Sequence[Pair]) -> list[ArmSpeed]:
    """Each arm's speed in each category, plain decoding's first."""
    rates: dict[tuple[str, Arm], list[tuple[float, float]]] = {}
    for (category, arm, _), each in grouped(
        pairs, lambda pair: (pair.category, pair.arm, pair.round)
    ).items():
        plain, own = _rate([pair.plain for pair in each]), _rate([pair.reply for pair in each])
        rates.setdefault((category, PLAIN), []).append((plain, plain))
        rates.setdefault((category, arm), []).append((plain, own))
    return [
        ArmSpeed(category, arm, median(own / plain for plain, own in each), median(own for _, own in each))
        for (category, arm), each in rates.items()
    ]


def _rate(replies: Sequence[Finished]) -> float:
    """Tokens a second over several replies."""
    return sum(len(each.token_ids) for each in replies) / sum(each.decode_seconds for each in replies)


def picture(speeds: Sequence[ArmSpeed]) -> str:
    """A bar for each arm in each category; the best fixed length and auto are marked."""
    lines = []
    longest = max(speed.speedup for speed in speeds)
    width = max(len(speed.arm.label) for speed in speeds)
    for category, found in grouped(speeds, lambda speed: speed.category).items():
        fixed = [each for each in found if each.arm.k is not None]
        best = max(fixed, key=lambda each: each.speedup, default=None)
        lines.append(category)
        for each in sorted(found, key=_order):
            bar = "█" * max(1, round(_BAR * each.speedup / longest))
            mark = "best fixed" if each is best else "◂" if each.arm.label == "auto" else ""
            lines.append(f"  {each.arm.label:<{width}} {each.speedup:>5.2f}×  {bar} {mark}".rstrip())
    return "\n".join(lines)


def means(speeds: Sequence[ArmSpeed]) -> Mapping[str, float]:
    """The geometric mean over categories by arm."""
    arms = grouped(speeds, lambda speed: speed.arm.label)
    return {label: geometric_mean([each.speedup for each in found]) for label, found in arms.items()}


def _order(speed: ArmSpeed) -> tuple[bool, str, int]:
    return speed.arm != PLAIN, speed.arm.proposer, speed.arm.k or LONGEST_DRAFT + 1


def main(arguments: Sequence[str]) -> int:
    """Print the picture and the means, or with --json an object."""
    parser = bench_parser("sweep", __doc__, rounds=3, tokens=128)
    add = parser.add_argument
    add("--draft", help="a draft model: swept too")
    add("--prompts", type=Path, help="JSON Lines (default: the project's own)")
    add("--each", type=whole(1), default=2, help="prompts of each category (default: 2)")
    add("--lengths", default=",".join(map(str, LENGTHS)), help='fixed k, with commas; "" for auto alone')
    add("--flash-attention", choices=("auto", "on", "off"), default="auto")
    options = parser.parse_args(arguments)
    names = ("lookup", "draft") if options.draft else ("lookup",)
    arms = [*(Arm(name, k) for name in names for k in _lengths(options.lengths)), Arm("auto", None)]
    prompts = spread(load_prompts(options.prompts), options.each)
    settings = LoadSettings(options.model, options.draft, flash_attention=options.flash_attention)
    with open_assembly(settings) as assembly:
        replies = Sweep(assembly, arms, options.tokens).runs(prompts, options.rounds)
        expected = options.rounds * len(prompts) * len(arms)
        speeds = medians(list(with_progress(replies, expected, "replies")))
    if options.json:
        rows = [{**asdict(speed), "arm": speed.arm.label} for speed in speeds]
        print(json.dumps({"speeds": rows, "geomean": means(speeds)}))
        return 0
    print(picture(speeds))
    print("geometric mean over categories")
    for label, mean in means(speeds).items():
        print(f"  {label:<14}{mean:>6.3f}×")
    return 0


def _lengths(text: str) -> list[int]:
    parse = whole(1, LONGEST_DRAFT)
    try:
        return [parse(part) for part in text.split(",") if text]
    except ArgumentTypeError as error:
        raise UsageError(
            f"--lengths takes whole numbers from 1 to {LONGEST_DRAFT} with commas, such as 1,2,4,8."
        ) from error
