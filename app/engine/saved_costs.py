"""Measured costs of passes as plain numbers, to be saved between runs."""

from __future__ import annotations

from collections.abc import Sequence

from app.engine.costs import PassCosts


def costs_to_numbers(measured: Sequence[PassCosts]) -> tuple[float, ...]:
    """For each depth its tokens, the load, the number of widths, and each width with its seconds."""
    return tuple(
        number
        for each in measured
        for number in (
            float(each.depth),
            each.load,
            float(len(each.seconds)),
            *(part for width, cost in sorted(each.seconds.items()) for part in (float(width), cost)),
        )
    )


def costs_from_numbers(numbers: Sequence[float]) -> tuple[PassCosts, ...]:
    """The costs in these numbers; () if they are invalid."""
    found: list[PassCosts] = []
    place = 0
    while place + 3 <= len(numbers):
        depth, load, count = numbers[place : place + 3]
        end = place + 3 + 2 * int(count)
        widths, costs = numbers[place + 3 : end : 2], numbers[place + 4 : end : 2]
        valid = (
            count == int(count) >= 1
            and depth == int(depth) >= 0
            and len(widths) == len(costs) == count
            and all(width == int(width) and 1 <= width <= 4096 for width in widths)
            and all(0.0 < cost < 3600.0 for cost in costs)
            and 1.0 in widths
        )
        if not valid:
            return ()
        seconds = {int(width): cost for width, cost in zip(widths, costs, strict=True)}
        found.append(PassCosts(int(depth), seconds, load))
        place = end
    return tuple(found) if place == len(numbers) else ()
