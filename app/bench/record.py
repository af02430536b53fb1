"""Greedy replies of a model to a file of prompts, as token ids: what replay runs on, with costs of passes."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from app.assembly.assembly import Assembly
from app.bench.prompts import Prompt, load_prompts
from app.bench.workbench import (
    bench_parser,
    chat_tokens,
    finish,
    greedy_request,
    open_assembly,
    with_progress,
)
from app.config.values import LoadSettings
from app.engine.costs import interpolated
from app.engine.settings import LONGEST_DRAFT
from app.errors import SpecchatError

_WIDEST = LONGEST_DRAFT + 1


@dataclass(frozen=True, slots=True)
class RecordedReply:
    """category: what the prompt asks for. prompt, reply: token ids."""

    category: str
    prompt: tuple[int, ...]
    reply: tuple[int, ...]


class CostTable:
    """Time of a pass by width and depth: curves at some depths, straight lines between and beyond them."""

    def __init__(self, curves: Mapping[int, Mapping[int, float]]) -> None:
        """curves: by depth, each from width to time. With a single curve depth does not matter."""
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


def read_replies(path: Path) -> tuple[RecordedReply, ...]:
    """The replies in a file of `specchat bench record`. Raises SpecchatError for any other file."""
    try:
        found = tuple(
            RecordedReply(
                str(each["category"]), tuple(map(int, each["prompt"])), tuple(map(int, each["reply"]))
            )
            for each in _read_object(path)["samples"]
        )
    except (KeyError, TypeError, ValueError) as error:
        raise SpecchatError(
            f'{path} holds no replies: give {{"samples": [{{"category", "prompt", "reply"}}, …]}}, '
            "as specchat bench record writes it."
        ) from error
    if not found or not all(len(each.reply) > 1 and each.prompt for each in found):
        raise SpecchatError(f"{path} has a sample without a prompt or a reply of two tokens: remove it.")
    return found


def read_costs(path: Path) -> dict[str, CostTable]:
    """The costs of the file by name. Raises SpecchatError where it holds none."""
    try:
        found = {name: _by_depth(curves) for name, curves in _read_object(path).items() if name != "about"}
    except (AttributeError, TypeError, ValueError) as error:
        raise SpecchatError(
            f'{path} holds no cost curves: give {{name: {{"1": milliseconds, "2": …}}}}, or by depth '
            '{name: {"300": {"1": …}, "900": {"1": …}}}.'
        ) from error
    for name, curves in found.items():
        for curve in curves.values():
            if 1 not in curve or len(curve) < 2 or min(curve.values()) <= 0 or min(curve) < 1:
                raise SpecchatError(f"The curve {name} of {path} needs times above 0, that of width 1 too.")
    return {name: CostTable(curves) for name, curves in found.items()}


def _by_depth(curves: Mapping[str, Any]) -> dict[int, dict[int, float]]:
    """One curve, or several by depth."""
    deep = all(isinstance(each, dict) for each in curves.values())
    return {
        int(depth): {int(width): float(cost) for width, cost in curve.items()}
        for depth, curve in (curves if deep else {"0": curves}).items()
    }


def _read_object(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SpecchatError(f"{path} cannot be read as JSON: {error}.") from error
    if not isinstance(data, dict):
        raise SpecchatError(f"{path} holds no object: name a file that specchat bench record wrote.")
    return data


def record(assembly: Assembly, prompts: Sequence[Prompt], tokens: int) -> Iterator[RecordedReply]:
    """The plain reply to each prompt that leaves room for it. Those of a single token are left out."""
    engine = assembly.engine("off")
    for prompt in prompts:
        ids = chat_tokens(assembly.target, prompt.prompt)
        if len(ids) + tokens <= engine.target.capacity:
            reply = finish(engine.generate(greedy_request(ids, tokens))).token_ids
            if len(reply) > 1:
                yield RecordedReply(prompt.category, ids, reply)


def main(arguments: Sequence[str]) -> int:
    """Write the file."""
    parser = bench_parser("record", __doc__, tokens=192, json=False)
    parser.add_argument("prompts", type=Path, help="JSON Lines with id, category and prompt")
    parser.add_argument("output", type=Path, help="the .json to write")
    options = parser.parse_args(arguments)
    prompts = load_prompts(options.prompts)
    with open_assembly(LoadSettings(name=options.model)) as assembly:
        replies = record(assembly, prompts, options.tokens)
        samples = [asdict(each) for each in with_progress(replies, len(prompts), "prompts")]
        about = f"Greedy replies of {assembly.name}, at most {options.tokens} tokens each."
    if not samples:
        raise SpecchatError("No prompt fits the context: give shorter prompts, or fewer --tokens.")
    try:
        options.output.write_text(json.dumps({"about": about, "samples": samples}), encoding="utf-8")
    except OSError as error:
        raise SpecchatError(f"{options.output} cannot be written: {error.strerror}.") from error
    print(f"Written: {options.output} ({len(samples)} replies)")
    return 0
