"""What speculation may cost, on a simulated machine on which the time of plain decoding is known."""

from __future__ import annotations

import math
import random

import pytest

from app.engine.control import Controller, DraftOption
from app.engine.costs import PassCosts
from app.engine.ledger import FIRST_RUN
from app.engine.settings import LONGEST_DRAFT
from tests.engine.simulation import Machine

STEADY = {width: 0.010 * (1 + 0.25 * (width - 1)) for width in range(1, LONGEST_DRAFT + 2)}
# As quantised weights on a CPU: two positions cost twice one, eight less than six.
JUMPING = {1: 7.2, 2: 15.5, 3: 19.5, 4: 22.6, 5: 27.1, 6: 29.0, 7: 29.2, 8: 28.4, 9: 34.3} | {
    width: 34.3 + 1.4 * (width - 9) for width in range(10, LONGEST_DRAFT + 2)
}
JUMPING = {width: cost / 1000 for width, cost in JUMPING.items()}
# A proposer that is sure of itself, whatever comes of it.
SURE = [0.95**position for position in range(1, LONGEST_DRAFT + 1)]


class Text:
    """What a proposer meets: guesses that are right with odds that change, and how many were in a row."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._odds = rng.choice((0.0, 0.0, 0.2, 0.5, 0.9))
        self.run = 0

    def accepted(self, drafted: int) -> int:
        """How many of these tokens are right; where none is sent, whether the guess would have been."""
        if self._rng.random() < 0.02:
            self._odds = self._rng.choice((0.0, 0.2, 0.5, 0.9, 1.0))
        right = 0
        while right < max(drafted, 1) and self._rng.random() < self._odds:
            right += 1
        self.run = self.run + right if right == max(drafted, 1) else 0
        return min(right, drafted)


def bound(machine: Machine, tokens: int) -> float:
    """The promise of app/engine/ledger.py: 2 %, and drafted passes by the logarithm of the length.

    One plain pass more for the machine's own noise, which is there without any draft.
    """
    tries = 2 + math.log2(max(tokens / FIRST_RUN, 1.0))
    return 0.02 * machine.plain + tries * machine.costliest + machine.costs[1]


@pytest.mark.parametrize("seeds", [range(first, first + 100) for first in range(0, 1000, 100)])
def test_the_ledgers_promise_holds_with_wrong_memories_on_a_machine_that_drifts(seeds: range) -> None:
    """Lost otherwise: replies slower than plain decoding, for an evening, for what another machine measured.

    1,000 replies. What is remembered is off by factors from 0.3 to 3, another one for each width.
    """
    for seed in seeds:
        rng = random.Random(seed)
        costs = rng.choice((STEADY, JUMPING))
        remembered = {width: cost * math.exp(rng.uniform(-1.2, 1.1)) for width, cost in costs.items()}
        controller = Controller([PassCosts(0, remembered)])
        machine = Machine(costs, rng, drift=0.2, hiccups=0.3, noise=0.05, back=0.1)
        text, tokens = Text(rng), 0
        for number in range(250):
            controller.costs.set_depth(number)
            k = controller.choose([DraftOption("lookup", SURE, hit_streak=text.run)]).k
            accepted = text.accepted(k)
            controller.observe(machine.make(k, accepted))
            tokens += accepted + 1
            assert machine.spent - machine.plain <= bound(machine, tokens), seed


@pytest.mark.parametrize("costs", [STEADY, JUMPING], ids=["steady", "jumping"])
def test_an_adversary_that_knows_the_rule_gains_little(costs: dict[int, float]) -> None:
    """It is right just until a draft is made in debt, and wrong with every token of it."""
    controller = Controller()
    controller.costs.calibrate(PassCosts(0, costs))
    machine = Machine(costs, random.Random(1))
    run = tries = 0
    for number in range(20_000):
        k = controller.choose([DraftOption("lookup", SURE, hit_streak=run)]).k
        tries += k > 0
        run = 0 if k else run + 1
        controller.observe(machine.make(k, 0))
        assert machine.spent - machine.plain <= bound(machine, number + 1)
    assert tries > 5


@pytest.mark.parametrize("costs", [STEADY, JUMPING], ids=["steady", "jumping"])
def test_credit_comes_back_where_a_repetition_is_evident(costs: dict[int, float]) -> None:
    """Lost otherwise: the whole gain of "repeat the code above", after one early rejection."""
    controller = Controller()
    controller.costs.calibrate(PassCosts(0, costs))
    machine = Machine(costs, random.Random(1))
    run = 0
    while k := controller.choose([DraftOption("lookup", SURE)]).k:
        controller.observe(machine.make(k, 0))
    # The ledger is empty; from here on every guess is right.
    certain = [0.998**position for position in range(1, LONGEST_DRAFT + 1)]
    before, tokens = machine.spent, 0
    while tokens < 200:
        k = controller.choose([DraftOption("lookup", certain, hit_streak=run)]).k
        controller.observe(machine.make(k, k))
        run += k + 1
        tokens += k + 1
        if tokens <= 40:
            before = machine.spent
            counted = tokens
    reached = (tokens - counted) / (machine.spent - before)
    best = max((k + 1) / costs[k + 1] for k in range(LONGEST_DRAFT + 1))
    assert reached > 0.9 * best
