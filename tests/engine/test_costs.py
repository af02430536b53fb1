"""What passes are believed to cost: never less than was measured, never by a measurement made elsewhere."""

from __future__ import annotations

import random
from itertools import pairwise
from statistics import mean

import pytest

from app.engine.control import Controller, DraftOption
from app.engine.costs import WIDTHS, CostCurve, PassCosts, interpolated
from app.engine.settings import LONGEST_DRAFT
from tests.engine.simulation import Machine, a_pass

LINEAR = {width: 1.0 + 0.25 * (width - 1) for width in range(1, LONGEST_DRAFT + 2)}


def curve(*measured: PassCosts) -> CostCurve:
    costs = CostCurve(LONGEST_DRAFT + 1)
    for each in measured:
        costs.calibrate(each)
    return costs


def test_between_measurements_it_is_linear_and_beyond_them_expensive() -> None:
    """Else a width that was never run looks cheap, and is drafted for."""
    seconds = interpolated({1: 1.0, 4: 4.0, 8: 5.0}, 16)
    assert seconds[1:9] == pytest.approx([1.0, 2.0, 3.0, 4.0, 4.25, 4.5, 4.75, 5.0])
    # As much per token as the widest: no draft gains by it.
    assert seconds[16] == pytest.approx(10.0)


def test_noise_never_prices_a_wide_pass_below_a_narrower_one() -> None:
    """Else a calibration of three widths drafts 32 tokens, for what looks like less than a plain pass."""
    lost = []
    for seed in range(300):
        rng = random.Random(seed)
        noisy = {width: LINEAR[width] * rng.gauss(1.0, 0.03) for width in (1, 2, 8)}
        costs = curve(PassCosts(0, noisy))
        assert all(first <= second for first, second in pairwise([costs.plain / costs.scale, *costs.drafted]))
        controller = Controller()
        controller.costs.calibrate(PassCosts(0, noisy))
        forecast = [0.8**j for j in range(1, LONGEST_DRAFT + 1)]
        k = controller.choose([DraftOption("lookup", forecast)]).k
        # Only among what was measured can it be wrong.
        best = max(range(8), key=lambda k: sum(0.8**j for j in range(k + 1)) / LINEAR[k + 1])
        rates = [sum(0.8**j for j in range(each + 1)) / LINEAR[each + 1] for each in (k, best)]
        lost.append(1.0 - rates[0] / rates[1])
    assert mean(lost) < 0.01


def test_only_what_was_run_is_kept_for_another_day() -> None:
    """Else a straight line of today is a measurement of tomorrow."""
    costs = curve(PassCosts(0, {1: 1.0, 4: 2.0}, 0.5))
    assert costs.measured == (PassCosts(0, {1: 1.0, 4: 2.0}, 0.5),)
    costs.observe(6, 3.0)
    assert costs.measured[0].seconds == pytest.approx({1: 1.0, 4: 2.0, 6: 3.0})


def test_a_pass_costs_more_the_deeper_it_stands() -> None:
    """Else a slope measured at depth 0 loses what a document would have gained."""
    shallow = {1: 4.7, 2: 7.8, 4: 10.1, 8: 14.8, 16: 22.2, 32: 38.5}
    deep = {1: 5.6, 2: 9.4, 4: 11.7, 8: 18.8, 16: 29.5, 32: 54.8}
    costs = curve(PassCosts(300, shallow), PassCosts(900, deep))
    for depth, expected in ((0, 14.8), (300, 14.8), (600, 16.8), (900, 18.8), (5000, 18.8)):
        costs.set_depth(depth)
        assert costs.price(8) == pytest.approx(expected, rel=1e-6), depth
    prices = []
    for depth in range(0, 2000, 100):
        costs.set_depth(depth)
        prices.append([costs.price(width) for width in WIDTHS])
    assert all(
        a <= b + 1e-9 for first, second in pairwise(prices) for a, b in zip(first, second, strict=True)
    )


def test_a_machine_that_was_busy_when_it_was_measured_shallow() -> None:
    """Plain passes are no cheaper the deeper they stand: else the machine was slower when it was measured."""
    busy = {width: 3.0 * cost for width, cost in LINEAR.items()}
    costs = curve(PassCosts(0, busy), PassCosts(2000, {1: 1.5, 8: 5.0}))
    costs.set_depth(0)
    assert costs.plain == pytest.approx(1.5)
    assert costs.price(8) / costs.plain == pytest.approx(LINEAR[8])


def test_nothing_is_known_at_a_depth_before_plain_passes_were_timed_there() -> None:
    """Else a remembered second is the measure of what is gained and lost."""
    costs = CostCurve(LONGEST_DRAFT + 1)
    costs.remember(
        [PassCosts(0, LINEAR), PassCosts(3000, {width: 2 * each for width, each in LINEAR.items()})]
    )
    assert not costs.known
    for _ in range(2):
        costs.observe(1, 0.02)
    assert costs.known and costs.plain == pytest.approx(0.02)
    costs.set_depth(3000)
    assert not costs.known
    for _ in range(2):
        costs.observe(1, 0.03)
    assert costs.known and costs.plain == pytest.approx(0.03)
    assert costs.price(8) / costs.plain == pytest.approx(LINEAR[8])


def test_what_is_remembered_wrongly_is_forgotten() -> None:
    """Else a width that looks expensive by another machine's numbers is never tried on this one."""
    costs = CostCurve(LONGEST_DRAFT + 1)
    costs.remember([PassCosts(0, {1: 1.0, 2: 1.9, 8: 7.5, 17: 16.0})])
    costs.calibrate(PassCosts(0, {1: 1.0, 2: 1.1, 8: 1.9}))
    assert costs.unmeasured(0) == tuple(width for width in WIDTHS if width not in (2, 8))
    agreeing = CostCurve(LONGEST_DRAFT + 1)
    agreeing.remember([PassCosts(0, {1: 2.0, 2: 2.4, 8: 4.0, 17: 6.0})])
    agreeing.calibrate(PassCosts(0, {1: 1.0, 2: 1.2, 8: 2.1}))
    assert agreeing.price(17) == pytest.approx(3.0)


def test_a_first_plain_pass_that_was_held_up_is_soon_outweighed() -> None:
    """Else plain decoding looks ten times slower than it is, and every draft like a gain."""
    controller = Controller([PassCosts(0, LINEAR)])
    machine = Machine({width: 0.01 * each for width, each in LINEAR.items()}, random.Random(0))
    controller.observe(a_pass(0, 0, 0.11))
    controller.observe(machine.make(0, 0))
    assert controller.costs.measured[0].seconds[1] == pytest.approx(0.01)


def test_a_width_that_was_only_run_at_another_depth_costs_as_many_plain_passes_as_there() -> None:
    """Else the first two widths measured after a document hide what is known about the others."""
    costs = curve(PassCosts(0, LINEAR), PassCosts(2000, {1: 2.0, 2: 3.0}))
    costs.set_depth(2000)
    # Two positions have become longer by a fifth: 1.5 plain passes where they took 1.25.
    assert costs.price(9) == pytest.approx(2.0 * LINEAR[9] * 1.2)
    assert set(costs.measured[1].seconds) == {1, 2}
