"""The controller: which draft length it chooses, given costs and what was accepted."""

from __future__ import annotations

import random

import pytest

from app.engine.control import LONGEST, ThroughputController
from app.engine.events import Pass

# A proposer that is sure of itself, whatever comes of it: the worst that a controller can be told.
FORECAST = [0.95**position for position in range(1, LONGEST + 1)]


def a_pass(drafted: int, accepted: int, seconds: float) -> Pass:
    return Pass(
        proposer="lookup",
        drafted=(7,) * drafted,
        accepted=accepted,
        committed=accepted + 1,
        tokens=(7,) * (accepted + 1),
        origins=("lookup",) * accepted + ("bonus",),
        text="",
        seconds=seconds,
        target_seconds=seconds,
        proposer_seconds=0.0,
    )


def chosen_k(controller: ThroughputController, forecast: list[float]) -> int:
    return controller.choose([("lookup", forecast)]).k


def run(
    controller: ThroughputController, costs: dict[int, float], acceptance: float, passes: int
) -> tuple[float, list[int]]:
    """Tokens per unit of time, and the draft lengths chosen; each token is accepted with a fixed chance."""
    rng = random.Random(3)
    tokens = seconds = 0.0
    chosen = []
    for _ in range(passes):
        k = chosen_k(controller, [acceptance**position for position in range(1, LONGEST + 1)])
        accepted = 0
        while accepted < k and rng.random() < acceptance:
            accepted += 1
        controller.observe(a_pass(k, accepted, costs[k + 1]))
        tokens += accepted + 1
        seconds += costs[k + 1]
        chosen.append(k)
    return tokens / seconds, chosen


def calibrated(costs: dict[int, float]) -> ThroughputController:
    controller = ThroughputController()
    controller.calibrate(costs)
    return controller


def best(costs: dict[int, float], acceptance: float) -> float:
    """The best expected rate over every k, by the formula."""
    return max(rate(costs, acceptance, k) for k in range(LONGEST + 1))


def rate(costs: dict[int, float], acceptance: float, k: int) -> float:
    return sum(acceptance**j for j in range(k + 1)) / costs[k + 1]


LINEAR = {width: 1.0 + 0.25 * (width - 1) for width in range(1, LONGEST + 2)}
# Width 2 costs twice width 1, 8 less than 6: as quantised weights on a CPU do.
JUMPING = {1: 7.2, 2: 15.5, 3: 19.5, 4: 22.6, 5: 27.1, 6: 29.0, 7: 29.2, 8: 28.4, 9: 34.3} | {
    width: 34.3 + 1.4 * (width - 9) for width in range(10, LONGEST + 2)
}


@pytest.mark.parametrize("acceptance", [0.2, 0.5, 0.7, 0.85, 0.95])
@pytest.mark.parametrize("costs", [LINEAR, JUMPING], ids=["linear", "jumping"])
def test_the_rate_is_near_the_best(costs: dict[int, float], acceptance: float) -> None:
    """A marginal test would stop before the cheap width, a fixed k lose where nothing is accepted."""
    controller = calibrated(costs)
    run(controller, costs, acceptance, 1500)
    reached, _ = run(controller, costs, acceptance, 1500)
    assert reached > 0.9 * best(costs, acceptance)


def test_nothing_is_drafted_where_checking_costs_more_than_it_brings() -> None:
    """Slower than plain decoding and staying on is the fault people report most."""
    steep = {width: float(width) for width in range(1, LONGEST + 2)}
    _, chosen = run(calibrated(steep), steep, 0.3, 1000)
    assert not any(chosen)


def test_a_machine_that_slows_down_is_noticed() -> None:
    """Costs of an idle machine are those of no other: a choice by them loses for the whole evening."""
    controller = calibrated(LINEAR)
    # Another program takes the cores that made wide passes cheap.
    busy = {width: 2.0 * width for width in LINEAR}
    run(controller, busy, 0.5, 300)
    _, chosen = run(controller, busy, 0.5, 300)
    assert sum(k > 0 for k in chosen) < 30


def test_a_limit_is_kept_and_nothing_is_drafted_without_costs() -> None:
    """A draft beyond the room left crashes; one chosen blind is a gamble."""
    controller = calibrated(LINEAR)
    assert chosen_k(controller, FORECAST) > 3
    assert chosen_k(controller, FORECAST[:3]) <= 3
    controller = ThroughputController()
    assert chosen_k(controller, FORECAST) == 0
    controller.calibrate({})
    assert controller.calibrated
    assert chosen_k(controller, FORECAST) == 0


@pytest.mark.parametrize("costs", [LINEAR, JUMPING], ids=["linear", "jumping"])
@pytest.mark.parametrize("taught_first", [0, 300, 3000])
def test_an_adversary_costs_at_most_the_budget(costs: dict[int, float], taught_first: int) -> None:
    """Random text, or a text that teaches high acceptance and turns, may not make decoding slower."""
    controller = ThroughputController()
    controller.calibrate(costs)
    spent = plain = 0.0
    for number in range(5000):
        k = chosen_k(controller, FORECAST)
        accepted = k if number < taught_first else 0
        controller.observe(a_pass(k, accepted, costs[k + 1]))
        spent += costs[k + 1]
        plain += (accepted + 1) * costs[1]
        assert spent <= 1.02 * plain + costs[1] + 1e-9
