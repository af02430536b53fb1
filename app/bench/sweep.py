"""Fixed draft lengths against auto, by category, on a real model: runs in turn, medians, a picture over k."""

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
from app.engine.control import ThroughputController
from app.engine.events import Finished, Request
from app.engine.loop import Engine
from app.engine.settings import Sampling
from app.errors import UsageError

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
class Speed:
    """An arm in a category: speedup over plain decoding, the median of the rounds; each round sums its
    tokens and its seconds first, plain decoding's of the same round among them."""

    category: str
    arm: Arm
    speedup: float
    tokens_per_second: float


class Sweep:
    """Decodes each prompt with every arm in turn, again and again."""

    def __init__(self, assembly: Assembly, arms: Sequence[Arm], tokens: int) -> None:
        self._assembly = assembly
        self._arms = (PLAIN, *arms)
        self._tokens = tokens
        self._template = template_for(assembly.target)
        self._engine = assembly.engine("off")
        # What each automatic arm has learned stays its own.
        self._controllers = {arm: ThroughputController() for arm in self._arms if arm.k is None}
        for controller in self._controllers.values():
            controller.calibrate(self._engine.calibrate([max(assembly.target.bos, 0)], 2.0))

    def runs(self, prompts: Sequence[Prompt], rounds: int) -> Iterator[tuple[int, str, Arm, Finished]]:
        """Every reply: its round, its prompt's category, its arm. The arms' order turns with each."""
        turn = 0
        for number in range(rounds):
            for prompt in prompts:
                ids = tuple(encode([Message("user", prompt.prompt)], self._template, self._assembly.target))
                if len(ids) + self._tokens > self._engine.target.capacity:
                    continue
                turn += 1
                shift = turn % len(self._arms)
                for arm in (*self._arms[shift:], *self._arms[:shift]):
                    yield number, prompt.category, arm, self._reply(self._engine, ids, arm)

    def _reply(self, engine: Engine, ids: tuple[int, ...], arm: Arm) -> Finished:
        engine.proposers = self._assembly.proposers(arm.proposer, engine.target.capacity)
        if arm.k is None:
            engine.controller = self._controllers[arm]
        request = Request(ids, Sampling(temperature=0.0), seed=0, max_tokens=self._tokens, k=arm.k)
        *_, finished = engine.generate(request)
        assert isinstance(finished, Finished)
        return finished


def summarised(runs: Sequence[tuple[int, str, Arm, Finished]]) -> list[Speed]:
    """Each arm's speed in each category."""
    totals: dict[tuple[str, Arm, int], tuple[int, float]] = {}
    for number, category, arm, finished in runs:
        tokens, seconds = totals.get((category, arm, number), (0, 0.0))
        totals[category, arm, number] = (
            tokens + len(finished.token_ids),
            seconds + finished.decode_seconds,
        )
    rates = {key: tokens / seconds for key, (tokens, seconds) in totals.items()}
    keys = dict.fromkeys((category, arm) for category, arm, _ in totals)
    rounds = sorted({number for _, _, number in totals})
    return [
        Speed(
            category,
            arm,
            median(rates[category, arm, number] / rates[category, PLAIN, number] for number in rounds),
            median(rates[category, arm, number] for number in rounds),
        )
        for category, arm in keys
    ]


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
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    lengths = _lengths(options.lengths)
    names = ("lookup", "draft") if options.draft else ("lookup",)
    arms = [*(Arm(name, k) for name in names for k in lengths), Arm("auto", None)]
    prompts = spread(load_prompts(options.prompts), options.each)
    with Assembly(Setup(model=options.model, draft=options.draft), stop=lambda: False) as assembly:
        replies = Sweep(assembly, arms, options.tokens).runs(prompts, options.rounds)
        expected = options.rounds * len(prompts) * (len(arms) + 1)
        runs = list(with_progress(replies, expected, "replies"))
    speeds = summarised(runs)
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
