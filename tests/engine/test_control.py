"""The controller: which draft length it chooses, given costs and what was accepted."""

from __future__ import annotations

import random

import pytest

from app.engine.control import LONGEST, ThroughputController
from app.engine.events import Pass


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


def taught(costs: dict[int, float], acceptance: float, passes: int = 400) -> ThroughputController:
    """A controller that saw drafts of LONGEST tokens, each token accepted with a fixed chance."""
    rng = random.Random(3)
    controller = ThroughputController()
    controller.calibrate(costs)
    for _ in range(passes):
        accepted = 0
        while accepted < LONGEST and rng.random() < acceptance:
            accepted += 1
        controller.observe(a_pass(LONGEST, accepted, costs[LONGEST + 1]))
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
def test_the_draft_length_is_near_the_best(costs: dict[int, float], acceptance: float) -> None:
    """A marginal test would stop before the cheap width, a fixed k lose where nothing is accepted."""
    k = taught(costs, acceptance).choose("lookup", LONGEST)
    assert rate(costs, acceptance, k) > 0.93 * best(costs, acceptance)


def test_nothing_is_drafted_where_checking_costs_more_than_it_brings() -> None:
    """Slower than plain decoding and staying on is the fault people report most."""
    steep = {width: float(width) for width in range(1, LONGEST + 2)}
    assert taught(steep, 0.3).choose("lookup", LONGEST) == 0


def test_a_draft_is_tried_again_after_a_while() -> None:
    """An early bad guess must not switch speculation off for good."""
    controller = taught(LINEAR, 0.0)
    chosen = []
    for _ in range(100):
        chosen.append(controller.choose("lookup", LONGEST))
        controller.observe(a_pass(0, 0, LINEAR[1]))
    assert chosen[0] == 0
    assert max(chosen) > 0


def test_a_limit_is_kept_and_nothing_is_drafted_without_costs() -> None:
    """A draft beyond the room left crashes; one chosen blind is a gamble."""
    assert taught(LINEAR, 0.95).choose("lookup", 3) <= 3
    controller = ThroughputController()
    assert controller.choose("lookup", LONGEST) == 0
    controller.calibrate({})
    assert controller.calibrated
    assert controller.choose("lookup", LONGEST) == 0
