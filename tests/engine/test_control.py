"""The controller: which draft length it chooses, given costs and what was accepted."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from app.engine.control import Controller, DraftOption
from app.engine.costs import PassCosts
from app.engine.settings import LONGEST_DRAFT
from tests.engine.simulation import a_pass

# A proposer that is sure of itself, whatever comes of it: the worst that a controller can be told.
FORECAST = [0.95**position for position in range(1, LONGEST_DRAFT + 1)]


def chosen_k(controller: Controller, forecast: list[float]) -> int:
    return controller.choose([DraftOption("lookup", forecast)]).k


def run(
    controller: Controller, costs: dict[int, float], acceptance: float, passes: int
) -> tuple[float, list[int]]:
    """Tokens per unit of time, and the draft lengths chosen; each token is accepted with a fixed chance."""
    rng = random.Random(3)
    tokens = seconds = 0.0
    chosen = []
    for _ in range(passes):
        k = chosen_k(controller, [acceptance**position for position in range(1, LONGEST_DRAFT + 1)])
        accepted = 0
        while accepted < k and rng.random() < acceptance:
            accepted += 1
        controller.observe(a_pass(k, accepted, costs[k + 1]))
        tokens += accepted + 1
        seconds += costs[k + 1]
        chosen.append(k)
    return tokens / seconds, chosen


def calibrated(costs: dict[int, float]) -> Controller:
    controller = Controller()
    controller.costs.calibrate(PassCosts(0, costs))
    return controller


def known(controller: Controller) -> dict[int, float]:
    """What the controller takes passes at the beginning of a context to cost."""
    return dict(controller.costs.measured[0].seconds)


def best(costs: dict[int, float], acceptance: float) -> float:
    """The best expected rate over every k, by the formula."""
    return max(rate(costs, acceptance, k) for k in range(LONGEST_DRAFT + 1))


def rate(costs: dict[int, float], acceptance: float, k: int) -> float:
    return sum(acceptance**j for j in range(k + 1)) / costs[k + 1]


LINEAR = {width: 1.0 + 0.25 * (width - 1) for width in range(1, LONGEST_DRAFT + 2)}
# Width 2 costs twice width 1, 8 less than 6: as quantised weights on a CPU do.
JUMPING = {1: 7.2, 2: 15.5, 3: 19.5, 4: 22.6, 5: 27.1, 6: 29.0, 7: 29.2, 8: 28.4, 9: 34.3} | {
    width: 34.3 + 1.4 * (width - 9) for width in range(10, LONGEST_DRAFT + 2)
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
    steep = {width: float(width) for width in range(1, LONGEST_DRAFT + 2)}
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


def test_a_small_promise_is_not_taken() -> None:
    """The best of many noisy estimates promises too much: what looks even is mostly a loss."""
    controller = calibrated(LINEAR)
    for gain, taken in ((0.03, False), (0.08, True)):
        option = DraftOption("lookup", [(1.0 + gain) * LINEAR[2] - 1.0])
        choice = controller.choose([option])
        assert (choice.k > 0) is controller.worth_syncing(option) is taken
        assert choice.values[0].gain == pytest.approx(gain)
        assert choice.values[0].refused == (None if taken else "small")


def test_a_gain_that_is_refused_has_its_reason() -> None:
    """Else a person sees a gain that is not taken, and trusts neither."""
    assert Controller().choose([DraftOption("lookup", FORECAST)]).pause == "measuring"
    # The first position alone brings nothing, and the long draft costs more than two plain passes.
    steep = {1: 1.0, 2: 2.0, 3: 2.2, 4: 2.4, 5: 2.6, 33: 3.0}
    controller = calibrated(steep)
    sure = DraftOption("lookup", [0.9, 0.9, 0.9, 0.9])
    choice = controller.choose([sure])
    assert (choice.k, choice.values[0].refused, choice.pause) == (0, "risky", None)
    assert choice.values[0].gain > 0.05
    # A draft that was rejected is paid back first; what right guesses would have brought is shown.
    controller.observe(a_pass(4, 0, 2.6))
    choice = controller.choose([sure])
    assert (choice.k, choice.values[0].refused) == (0, "paused")
    # Where a shorter draft can be paid, that one is shown.
    controller = calibrated({width: 1.0 + 0.25 * (width - 1) for width in range(1, 34)})
    choice = controller.choose([DraftOption("lookup", [0.99**j for j in range(1, 17)])])
    assert (choice.values[0].k, choice.values[0].refused) == (choice.k, None) and choice.k == 4


def test_a_limit_is_kept_and_nothing_is_drafted_without_costs() -> None:
    """A draft beyond the room left crashes; one chosen blind is a gamble."""
    controller = calibrated(LINEAR)
    assert chosen_k(controller, FORECAST) > 3
    assert chosen_k(controller, FORECAST[:3]) <= 3
    controller = Controller()
    assert chosen_k(controller, FORECAST) == 0
    controller.costs.calibrate(PassCosts(0, {}))
    assert chosen_k(controller, FORECAST) == 0


@pytest.mark.parametrize("costs", [LINEAR, JUMPING], ids=["linear", "jumping"])
@pytest.mark.parametrize("taught_first", [0, 300, 3000])
def test_an_adversary_costs_at_most_the_budget(costs: dict[int, float], taught_first: int) -> None:
    """Random text, or a text that teaches high acceptance and turns, may not make decoding slower."""
    controller = calibrated(costs)
    spent = plain = 0.0
    for number in range(5000):
        k = chosen_k(controller, FORECAST)
        accepted = k if number < taught_first else 0
        controller.observe(a_pass(k, accepted, costs[k + 1]))
        spent += costs[k + 1]
        plain += (accepted + 1) * costs[1]
        assert spent <= 1.02 * plain + costs[1] + 1e-9


def test_a_pass_is_filled_up_to_a_cheaper_width() -> None:
    """Where eight positions cost less than six, five drafted tokens are best checked in a pass of eight."""
    controller = calibrated({**JUMPING, 8: 25.0})
    assert controller.padding(drafted=5, room=10) == 2
    assert controller.padding(drafted=5, room=1) == 0
    assert controller.padding(drafted=7, room=10) == 0
    assert controller.padding(drafted=0, room=10) == 0
    assert calibrated(LINEAR).padding(drafted=5, room=10) == 0


def test_a_wider_pass_counts_for_the_width_that_it_had() -> None:
    """Else the cost of eight positions is learned as that of six, which then look cheap."""
    controller = calibrated(LINEAR)
    before = known(controller)
    for _ in range(50):
        controller.observe(replace(a_pass(5, 5, 20.0), padded=2))
    after = known(controller)
    assert after[8] / before[8] > 2 * after[6] / before[6]


def test_a_draft_that_has_much_to_read_first_waits_until_it_is_earned() -> None:
    """Reading a long prompt for one pass would cost more than the ledger allows."""
    controller = calibrated(LINEAR)
    controller.record_sync("draft", tokens=10, seconds=1.0)
    controller.observe(replace(a_pass(4, 4, 3.0), proposer="draft", proposer_seconds=0.4))
    ready = DraftOption("draft", [0.9, 0.81, 0.7, 0.6], lag=0)
    assert controller.choose([ready]).k > 0
    lagging = ready._replace(lag=1000)
    choice = controller.choose([lagging])
    assert choice.k == 0
    assert choice.values[0].refused == "unread" and choice.values[0].gain > 0.05
    assert controller.worth_syncing(lagging)
    assert not controller.worth_syncing(DraftOption("draft", [0.01], lag=1000))


def test_a_draft_model_goes_on_while_it_is_sure_and_stops_where_it_no_longer_pays() -> None:
    """The k that is best on average is too long for an unsure start, and too short for a sure one."""
    controller = calibrated(LINEAR)
    for _ in range(20):
        controller.observe(replace(a_pass(4, 4, 2.4), proposer="draft", proposer_seconds=0.4))
    forecast = [0.7**j for j in range(1, LONGEST_DRAFT + 1)]
    fixed = controller.choose([DraftOption("draft", forecast)])
    free = controller.choose([DraftOption("draft", forecast, stops_early=True)])
    assert free.k == 2 * fixed.k
    assert fixed.threshold == 0.0 < free.threshold < 1.0


def test_the_longer_draft_is_within_the_ledger_too() -> None:
    """Twice the k must not cost twice what is left to spend."""
    controller = calibrated(LINEAR)
    spent = plain = 0.0
    for _ in range(3000):
        k = controller.choose([DraftOption("draft", FORECAST, stops_early=True)]).k
        seconds = LINEAR[k + 1] + 0.3 * k
        controller.observe(
            replace(
                a_pass(k, 0, seconds),
                proposer="draft",
                target_seconds=LINEAR[k + 1],
                proposer_seconds=0.3 * k,
            )
        )
        spent += seconds
        plain += LINEAR[1]
    # The first draft's own cost is not known before it was made.
    assert spent <= 1.02 * plain + LINEAR[1] + 0.3 * LONGEST_DRAFT


def test_a_pass_that_is_slower_after_a_wider_one_is_charged_to_the_draft() -> None:
    """Else plain decoding looks slower than it is, and drafts that lose time seem to pay.

    llama.cpp rebuilds its graph whenever the width changes, which takes a tenth of a small model's pass.
    """
    back = 0.1 * LINEAR[1]
    for forecast in (FORECAST, [0.5, 0.3]):
        controller = calibrated(LINEAR)
        spent = plain = 0.0
        before = 1
        for _ in range(5000):
            k = chosen_k(controller, forecast)
            seconds = LINEAR[k + 1] + (back if k == 0 and before > 1 else 0.0)
            controller.observe(a_pass(k, 0, seconds))
            before = k + 1
            spent += seconds
            plain += LINEAR[1]
            # The first ten are not charged in full: it is learned from them.
            assert spent <= 1.02 * plain + LINEAR[1] + 10 * back + 1e-9
        assert known(controller)[1] == pytest.approx(LINEAR[1], rel=0.01)


def test_a_draft_has_to_earn_the_slower_pass_after_it_once() -> None:
    """Else a single draft looks better than it is, and one right after another worse."""
    controller = calibrated(LINEAR)
    option = DraftOption("lookup", [1.08 * LINEAR[2] - 1.0])
    for _ in range(60):
        controller.observe(a_pass(1, 1, LINEAR[2]))
        assert chosen_k(controller, [*option.forecast]) == 1
        controller.observe(a_pass(0, 0, 1.1 * LINEAR[1]))
    assert controller.choose([option]).k == 0
    assert not controller.worth_syncing(option)


@pytest.mark.parametrize("costs", [LINEAR, JUMPING], ids=["linear", "jumping"])
def test_a_good_evening_does_not_pay_for_a_bad_page(costs: dict[int, float]) -> None:
    """Else what hours of copying gained is lost again on one text, which then is slower than plain."""
    controller = calibrated(costs)
    for _ in range(3000):
        k = chosen_k(controller, FORECAST)
        controller.observe(a_pass(k, k, costs[k + 1]))
    lost = 0.0
    for number in range(1, 1001):
        k = chosen_k(controller, FORECAST)
        controller.observe(a_pass(k, 0, costs[k + 1]))
        lost += costs[k + 1] - costs[1]
        assert lost <= 3 * costs[LONGEST_DRAFT + 1] + (1 + 0.02 * number) * costs[1]


def test_a_prompt_that_a_draft_model_read_is_earned_before_it_reads_another() -> None:
    """Lost otherwise: seconds at the beginning of each reply, for a draft that then brings nothing."""
    controller = calibrated(LINEAR)
    option = DraftOption("draft", FORECAST, lag=1000)
    assert controller.worth_syncing(option)
    controller.record_sync("draft", tokens=1000, seconds=20.0)
    assert not controller.worth_syncing(option)
    # Reading is no debt of the ledger's: what is read is used.
    assert chosen_k(controller, FORECAST) > 0
    for _ in range(10):
        controller.observe(a_pass(7, 7, LINEAR[8], "draft"))
    assert controller.worth_syncing(option)


def test_what_is_read_again_after_a_draft_is_part_of_its_price() -> None:
    """Where memory cannot be cut each rejection makes the next pass wider: drafts may lose by it."""
    gains = []
    for replayed in (0, 3, 12):
        controller = calibrated(LINEAR)
        for _ in range(40):
            controller.observe(replace(a_pass(4, 2, LINEAR[5 + replayed]), replayed=replayed))
            controller.observe(replace(a_pass(0, 0, LINEAR[1 + replayed]), replayed=replayed))
            # Another plain pass tells how fast the machine is.
            controller.observe(a_pass(0, 0, LINEAR[1]))
        choice = controller.choose([DraftOption("lookup", [0.8**position for position in range(1, 9)])])
        gains.append(choice.values[0].gain)
        assert controller.costs.measured[0].seconds[5] == pytest.approx(LINEAR[5], rel=0.01)
    assert gains[0] > gains[1] + 0.1 > gains[2] + 0.2
    assert controller.reread_limit == 4
