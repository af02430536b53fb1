"""How auto nears the best fixed setting and the oracle while it learns, on recorded replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from app.bench.replay import (
    Costs,
    Outcome,
    Trajectory,
    auto_costs,
    copies_of,
    fixed_costs,
    oracle_length,
    static_length,
)

_PARTS = 8
_BAR = 30


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the trajectories, in their order: auto's speed over that of the fixed setting which is best
    for each category in hindsight, and over the oracle's."""

    over_static: float
    over_oracle: float


def course(
    trajectories: Sequence[Trajectory], costs: Costs, outcomes: Mapping[str, Outcome]
) -> list[Stretch]:
    """The trajectories in up to eight parts. outcomes: what replay found for the same curve."""
    copies = [copies_of(each) for each in trajectories]
    auto = auto_costs(trajectories, costs)
    oracle = fixed_costs(copies, costs, oracle_length(costs))
    static = [
        fixed_costs([along], costs, static_length(outcomes[each.category].best_static_setting))[0]
        for each, along in zip(trajectories, copies, strict=True)
    ]
    parts = min(_PARTS, len(trajectories))
    borders = [len(trajectories) * part // parts for part in range(parts + 1)]
    return [
        Stretch(sum(static[start:end]) / sum(auto[start:end]), sum(oracle[start:end]) / sum(auto[start:end]))
        for start, end in pairwise(borders)
    ]


def picture(stretches: Sequence[Stretch]) -> str:
    """A bar a stretch, as long as auto's share of the oracle's speed; the mark is the best fixed setting."""
    lines = ["  as it learns: over the best fixed setting (│), of the oracle (the full width)"]
    for number, each in enumerate(stretches, start=1):
        filled = round(_BAR * min(each.over_oracle, 1.0))
        mark = min(_BAR - 1, round(_BAR * each.over_oracle / each.over_static))
        bar = ["█"] * filled + ["·"] * (_BAR - filled)
        bar[mark] = "│"
        lines.append(f"  {number:>3}  {each.over_static:>6.3f}×  {''.join(bar)} {each.over_oracle:>5.0%}")
    return "\n".join(lines)
