"""× plain: what a reply gained, on a simulated machine with known costs."""

from __future__ import annotations

import random
from dataclasses import replace
from statistics import median

import pytest

from app.engine.control import Controller, DraftOption
from app.engine.costs import PassCosts
from app.engine.plain import PlainEstimator
from app.engine.settings import LONGEST_DRAFT
from tests.engine.simulation import Machine, a_pass

COSTS = {width: 0.010 * (1 + 0.25 * (width - 1)) for width in range(1, LONGEST_DRAFT + 2)}


def shown_over_true(simulated: Machine, tokens: int) -> float:
    """The speedup that is shown for a reply, over the true one."""
    rng = simulated.rng
    controller, estimator = Controller(), PlainEstimator()
    controller.costs.calibrate(PassCosts(0, COSTS))
    odds, made, kept, seconds = 0.1, 0, 0, 0.0
    while kept < tokens:
        # What a chat is: prose, and copies in between.
        if rng.random() < 0.03:
            odds = rng.choice((0.1, 0.6, 0.8, 0.9, 0.97))
        controller.costs.set_depth(kept)
        k = (
            controller.choose([DraftOption("lookup", [odds**j for j in range(1, LONGEST_DRAFT + 1)])]).k
            if made > 5
            else 0
        )
        accepted = 0
        while accepted < k and rng.random() < odds:
            accepted += 1
        entry = simulated.make(k, accepted)
        controller.observe(entry)
        estimator.record(entry)
        made += 1
        kept += accepted + 1
        seconds += entry.seconds
    plain = estimator.seconds_per_token()
    assert plain is not None
    true = (simulated.plain + simulated.held_up) / (simulated.spent + simulated.held_up)
    return kept * plain / seconds / true


@pytest.mark.parametrize("period", [4.0, 8.0])
def test_the_speedup_is_true_while_the_machine_drifts_and_is_held_up(period: float) -> None:
    """Lost otherwise: the figure that the whole panel is for. A plain pass goes from 8 to 12 ms and back, and
    something holds a pass up for 100 ms now and then."""
    faults = []
    for seed in range(60):
        machine = Machine(COSTS, random.Random(seed), drift=0.2, period=period, hiccups=0.1, back=0.05)
        faults.append(abs(shown_over_true(machine, 800) - 1.0))
    assert median(faults) < 0.005
    assert max(faults) < 0.02


def test_a_pass_of_a_new_width_that_was_held_up_is_seen_by_the_wider_ones() -> None:
    """Lost otherwise: 2 % of a short reply, where the only pass of its width hit a hiccup."""
    estimator = PlainEstimator()
    for _ in range(20):
        estimator.record(a_pass(0, 0, 0.010))
        estimator.record(a_pass(0, 0, 0.010))
        estimator.record(a_pass(8, 8, 0.020))
    estimator.record(a_pass(4, 4, 0.015 + 0.1))
    # The 0.095 s above what the wider pass takes would have held up plain decoding as well.
    assert 225 * (estimator.seconds_per_token() or 0.0) == pytest.approx(225 * 0.010 + 0.095)


def test_on_a_steady_machine_it_is_exact() -> None:
    for seed in range(10):
        machine = Machine(COSTS, random.Random(seed))
        assert shown_over_true(machine, 200) == pytest.approx(1.0, abs=1e-6)


def test_a_reply_that_drafts_nothing_is_as_fast_as_plain_less_what_choosing_took() -> None:
    """Lost otherwise: "0.80×" for a reply in which nothing was drafted, measured at another moment."""
    estimator = PlainEstimator()
    seconds = 0.0
    for number in range(50):
        entry = replace(a_pass(0, 0, 0.010 + 0.0001 * number), speculation_seconds=0.00005)
        estimator.record(entry)
        seconds += entry.seconds
    plain = estimator.seconds_per_token()
    assert plain is not None and 0.99 < 50 * plain / seconds < 1.0


def test_without_plain_passes_nothing_is_claimed() -> None:
    """Lost otherwise: a speedup against nothing."""
    estimator = PlainEstimator()
    assert estimator.seconds_per_token() is None
    for _ in range(20):
        estimator.record(a_pass(4, 4, 0.02))
    assert estimator.seconds_per_token() is None
    for _ in range(3):
        estimator.add_plain_pass(0.01)
    assert estimator.seconds_per_token() == pytest.approx(0.01)


def test_a_plain_pass_behind_a_draft_is_no_measure_of_plain_decoding() -> None:
    """Lost otherwise: a gain that is the draft's own doing."""
    estimator = PlainEstimator()
    for _ in range(10):
        estimator.record(a_pass(0, 0, 0.010))
    for _ in range(10):
        estimator.record(a_pass(2, 2, 0.015))
        estimator.record(a_pass(0, 0, 0.013))
    # 40 tokens in all that were not plain: they count as 10 ms each.
    assert estimator.seconds_per_token() == pytest.approx(0.010)


def test_a_long_reply_has_no_more_spans_than_a_short_one() -> None:
    """Lost otherwise: a panel that gets slower with the length of the reply."""
    estimator = PlainEstimator()
    for number in range(20_000):
        estimator.record(a_pass(0 if number % 3 else 2, 0, 0.1))
    assert estimator.seconds_per_token() == pytest.approx(0.1)
    assert len(estimator._spans) <= 128
