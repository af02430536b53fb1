"""Recorded replies over cost curves, without a model: auto beside every fixed setting and an oracle.

See simulation.py for what is computed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from app.bench.record import read_costs, read_replies
from app.bench.simulation import LearningStage, Replay, Speedups, means
from app.bench.workbench import bench_parser, print_rows

_BAR = 30


def main(arguments: Sequence[str]) -> int:
    """Print a table for each curve, or with --json one object."""
    parser = bench_parser("replay", __doc__, model=False)
    parser.add_argument("replies", type=Path, help="a file that specchat bench record wrote")
    parser.add_argument("curves", type=Path, help='{name: {"1": milliseconds, "2": …}}')
    parser.add_argument("--course", action="store_true", help="show how auto nears the best as it learns")
    options = parser.parse_args(arguments)
    replies = read_replies(options.replies)
    replays = {name: Replay(replies, costs) for name, costs in read_costs(options.curves).items()}
    found = {name: replay.by_category() for name, replay in replays.items()}
    if options.json:
        print(json.dumps({"curves": {name: _as_json(each) for name, each in found.items()}}))
        return 0
    for name, each in found.items():
        print(name)
        print_rows(list(each.values()))
        mean = means(each)
        share = mean["auto"] / mean["oracle"]
        print(f"geometric means: {', '.join(f'{label} {value:.3f}' for label, value in mean.items())}")
        print(f"auto reaches {share:.0%} of the oracle's speed")
        if options.course:
            print(picture(replays[name].stages()))
    return 0


def picture(stages: Sequence[LearningStage]) -> str:
    """A bar for each stage, as long as auto's share of the oracle's speed; the mark is the best fixed
    setting."""
    lines = ["as it learns: over the best fixed setting (│), of the oracle (the full width)"]
    for number, each in enumerate(stages, start=1):
        filled = round(_BAR * min(each.over_oracle, 1.0))
        mark = min(_BAR - 1, round(_BAR * each.over_oracle / each.over_static))
        bar = ["█"] * filled + ["·"] * (_BAR - filled)
        bar[mark] = "│"
        lines.append(f"{number:>3}  {each.over_static:>6.3f}×  {''.join(bar)} {each.over_oracle:>5.0%}")
    return "\n".join(lines)


def _as_json(found: Mapping[str, Speedups]) -> dict[str, object]:
    categories = {category: asdict(each) for category, each in found.items()}
    for each in categories.values():
        del each["category"]
    return {"categories": categories, "geomean": means(found)}
