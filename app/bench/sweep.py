"""Fixed draft lengths against auto, by category, on a real model: medians, and a picture over k.

Each reply is decoded beside a plain one, one pass here, one pass there, on two contexts of one model: a
machine's speed drifts within a second by more than what is to be told apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from app.arguments import Parser, whole
from app.assembly import Assembly, Setup, template_for
from app.bench.progress import with_progress
from app.bench.prompts import Prompt, load_prompts
from app.bench.replay import geometric_mean
from app.chat.message import Message
from app.chat.prompt import encode
from app.engine.control import Controller
from app.engine.events import Event, Finished, Pass, Prefill, Request
from app.engine.loop import Engine
from app.engine.settings import Sampling
from app.errors import UsageError
from app.llama.settings import ContextSettings

LENGTHS = (1, 2, 4, 8, 16)
_BAR = 30


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
class Speed:
    """An arm in a category: speedup over plain decoding, the median of the rounds; each round sums its
    tokens and its seconds first, those of the plain replies beside them among them."""

    category: str
    arm: Arm
    speedup: float
    tokens_per_second: float


class Sweep:
    """Decodes each prompt with every arm, again and again."""

    def __init__(self, assembly: Assembly, arms: Sequence[Arm], tokens: int) -> None:
        self._assembly = assembly
        self._arms = tuple(arms)
        self._tokens = tokens
        self._template = template_for(assembly.target)
        self._engines = (assembly.engine("off"), assembly.engine("off"))
        self._capacity = min(engine.target.capacity for engine in self._engines)
        # What each arm has learned, and won and lost, stays its own.
        self._controllers = {arm: Controller() for arm in (PLAIN, *arms)}
        costs = self._engines[0].calibrate([max(assembly.target.bos, 0)], 2.0)
        for controller in self._controllers.values():
            controller.costs.calibrate(costs)

    def runs(self, prompts: Sequence[Prompt], rounds: int) -> Iterator[Pair]:
        """Every reply. Which of a pair begins, and on which context, changes from pair to pair."""
        for number in range(rounds):
            turn = number
            for prompt in prompts:
                ids = tuple(encode([Message("user", prompt.prompt)], self._template, self._assembly.target))
                if len(ids) + self._tokens > self._capacity:
                    continue
                for arm in self._arms:
                    turn += 1
                    yield self._pair(number, prompt.category, ids, arm, swapped=turn % 2 == 1)

    def _pair(self, number: int, category: str, ids: tuple[int, ...], arm: Arm, swapped: bool) -> Pair:
        arms = (arm, PLAIN) if swapped else (PLAIN, arm)
        finished = in_turn(
            [self._reply(engine, ids, each) for engine, each in zip(self._engines, arms, strict=True)]
        )
        plain, reply = reversed(finished) if swapped else finished
        return Pair(number, category, arm, plain, reply)

    def _reply(self, engine: Engine, ids: tuple[int, ...], arm: Arm) -> Iterator[Event]:
        engine.sequence.proposers = self._assembly.proposers(arm.proposer, self._capacity)
        engine.controller = self._controllers[arm]
        request = Request(ids, Sampling(temperature=0.0), seed=0, max_tokens=self._tokens, k=arm.k)
        return engine.generate(request)


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


def summarised(pairs: Sequence[Pair]) -> list[Speed]:
    """Each arm's speed in each category, plain decoding's first."""
    rounds: dict[tuple[str, Arm, int], list[Pair]] = {}
    for pair in pairs:
        rounds.setdefault((pair.category, pair.arm, pair.round), []).append(pair)
    rates: dict[tuple[str, Arm], list[tuple[float, float]]] = {}
    for (category, arm, _), each in rounds.items():
        plain, own = _rate([pair.plain for pair in each]), _rate([pair.reply for pair in each])
        rates.setdefault((category, PLAIN), []).append((plain, plain))
        rates.setdefault((category, arm), []).append((plain, own))
    return [
        Speed(category, arm, median(own / plain for plain, own in each), median(own for _, own in each))
        for (category, arm), each in rates.items()
    ]


def _rate(replies: Sequence[Finished]) -> float:
    """Tokens a second over several replies."""
    return sum(len(each.token_ids) for each in replies) / sum(each.decode_seconds for each in replies)


def picture(speeds: Sequence[Speed]) -> str:
    """For each category a bar an arm; the best fixed length is marked, and auto."""
    lines = []
    longest = max(speed.speedup for speed in speeds)
    width = max(len(speed.arm.label) for speed in speeds)
    for category in dict.fromkeys(speed.category for speed in speeds):
        arms = sorted((each for each in speeds if each.category == category), key=_order)
        fixed = [each for each in arms if each.arm.k is not None]
        best = max(fixed, key=lambda each: each.speedup, default=None)
        lines.append(category)
        for each in arms:
            bar = "█" * max(1, round(_BAR * each.speedup / longest))
            mark = "best fixed" if each is best else "◂" if each.arm.label == "auto" else ""
            lines.append(f"  {each.arm.label:<{width}} {each.speedup:>5.2f}×  {bar} {mark}".rstrip())
    return "\n".join(lines)


def means(speeds: Sequence[Speed]) -> Mapping[str, float]:
    """The geometric mean over categories by arm."""
    by_label: dict[str, list[float]] = {}
    for speed in speeds:
        by_label.setdefault(speed.arm.label, []).append(speed.speedup)
    return {label: geometric_mean(speedups) for label, speedups in by_label.items()}


def _order(speed: Speed) -> tuple[bool, str, int]:
    return speed.arm != PLAIN, speed.arm.proposer, 99 if speed.arm.k is None else speed.arm.k


def spread(prompts: Sequence[Prompt], count: int) -> list[Prompt]:
    """The first `count` prompts of each category."""
    taken: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        of_category = taken.setdefault(prompt.category, [])
        if len(of_category) < count:
            of_category.append(prompt)
    return [prompt for each in taken.values() for prompt in each]


def main(arguments: Sequence[str]) -> int:
    """Print the picture and the means, or with --json an object."""
    parser = Parser(prog="specchat bench sweep", description=__doc__)
    parser.add_argument("--model", help="a .gguf (default: the bundled model)")
    parser.add_argument("--draft", help="a draft model: swept too")
    parser.add_argument("--prompts", type=Path, help="JSON Lines (default: the project's own)")
    parser.add_argument("--each", type=whole(1), default=2, help="prompts of each category (default: 2)")
    parser.add_argument("--rounds", type=whole(1), default=3, help="default: 3")
    parser.add_argument("--tokens", type=whole(2), default=128, help="of each reply (default: 128)")
    lengths_help = 'fixed k, with commas; "" for auto alone'
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)), help=lengths_help)
    parser.add_argument("--flash-attention", choices=("auto", "on", "off"), default="auto")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    lengths = _lengths(options.lengths)
    names = ("lookup", "draft") if options.draft else ("lookup",)
    arms = [*(Arm(name, k) for name in names for k in lengths), Arm("auto", None)]
    prompts = spread(load_prompts(options.prompts), options.each)
    attention = ContextSettings(flash_attention=options.flash_attention)
    setup = Setup(model=options.model, draft=options.draft, context_settings=attention)
    with Assembly(setup, stop=lambda: False) as assembly:
        replies = Sweep(assembly, arms, options.tokens).runs(prompts, options.rounds)
        expected = options.rounds * len(prompts) * len(arms)
        pairs = list(with_progress(replies, expected, "replies"))
    speeds = summarised(pairs)
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
    try:
        lengths = [int(part) for part in text.split(",") if text]
    except ValueError:
        lengths = [0]
    if not all(1 <= k <= 32 for k in lengths):
        raise UsageError("--lengths takes whole numbers from 1 to 32 with commas, such as 1,2,4,8.")
    return lengths
