"""Calibration: what passes cost, though the machine's speed drifts and time and room are short."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from app.engine.calibration import calibrate, curve
from app.engine.control import Controller
from app.engine.costs import WIDTHS, PassCosts
from app.engine.events import Pass, Request
from app.engine.loop import Engine
from app.engine.settings import Sampling
from app.llama.context import Context
from app.llama.model import Model
from proposers.lookup import Lookup
from proposers.off import Off


def test_a_width_is_compared_with_the_plain_pass_beside_it() -> None:
    """Else a machine that slows down while it is measured makes wide passes look dear, for good."""
    costs = curve(plain=[0.010, 0.010, 0.015], ratios={2: [1.5], 8: [4.0]})
    assert costs == pytest.approx({1: 0.010, 2: 0.015, 8: 0.040})


def test_a_pass_that_was_held_up_does_not_count() -> None:
    """Else one hiccup hides a width that would have paid."""
    assert curve([1.0], {4: [9.0, 2.0]})[4] == 2.0
    assert curve([1.0, 7.0, 1.0], {4: [2.1, 9.0, 2.0]}) == {1: 1.0, 4: 2.1}


def test_it_leaves_the_cache_as_it_was(tiny_path: Path) -> None:
    with Model(tiny_path) as model, Context(model, 64) as target:
        target.forward([5, 6, 7])
        measured = calibrate(target, [5], WIDTHS, math.inf)
        assert target.length == measured.depth == 3
    assert set(measured.seconds) == {1, *WIDTHS}
    assert all(seconds > 0.0 for seconds in measured.seconds.values())


def test_widths_without_room_are_left_out(tiny_path: Path) -> None:
    """Else a chat whose context is nearly full ends with an error."""
    with Model(tiny_path) as model, Context(model, 12) as target:
        target.forward([5] * 4)
        assert set(calibrate(target, [5], WIDTHS, math.inf).seconds) == {1, 2, 3, 4, 6, 8}
        target.forward([5] * 8)
        assert calibrate(target, [5], WIDTHS, math.inf).seconds == {}


def test_without_time_the_narrowest_is_measured(tiny_path: Path) -> None:
    """Else a large model is not answered for seconds after it was loaded, or never speculates at all."""
    with Model(tiny_path) as model, Context(model, 64) as target:
        assert set(calibrate(target, [5], WIDTHS, 0.0).seconds) == {1, 2}


def test_no_wider_pass_than_there_is_time_for(tiny_path: Path) -> None:
    """Else each question waits for a pass of 17 that takes ten times its budget, on a slow device."""
    with Model(tiny_path) as model, Context(model, 64) as target:
        assert set(calibrate(target, [5], (17, 33), 0.0).seconds) == {1}


class Watched(Context):
    """A context that notes the widths of its passes."""

    def forward(self, tokens: Sequence[int], rows: int = 1) -> NDArray[np.float32]:
        self.widths = [*getattr(self, "widths", []), rows]
        return super().forward(tokens, rows)


def test_what_cannot_be_measured_in_time_is_not_begun(tiny_path: Path) -> None:
    """Else a model of a second for each pass makes plain ones before every question, for nothing."""
    prompt = (5, 6, 7, 8)
    known = [PassCosts(3, {1: 20.0, 2: 30.0}), PassCosts(4000, {1: 30.0, 2: 60.0})]
    with Model(tiny_path) as model, closing(Watched(model, 64)) as target:
        engine = Engine(target, (Lookup(),), Controller(known))
        for event in engine.generate(Request(prompt, Sampling(), seed=1, max_tokens=1)):
            if isinstance(event, Pass):
                break
        assert target.widths == [0, 1]
        # What was remembered is checked all the same: this machine is faster.
        target.rollback(3)
        again = Engine(target, (Lookup(),), Controller(known))
        assert set(again.calibrate([5], 5.0).seconds) >= {1, 2, 8}


def test_what_an_earlier_run_measured_wrongly_is_measured_anew(tiny_path: Path) -> None:
    """Else what was learned at night, or on another CPU, decides on the busy machine of the day. What is kept
    where it was right: test_costs.py."""
    with Model(tiny_path) as model, Context(model, 64) as target:
        first = calibrate(target, [5], WIDTHS, math.inf).seconds
        before = {width: seconds * (1.0 if width == 1 else 30.0) for width, seconds in first.items()}
        # A width that is measured at no time here: it is there as long as the rest is believed.
        engine = Engine(target, (Off(),), Controller([PassCosts(0, {**before, 7: before[6]})]))
        engine.calibrate([5], math.inf)
        (measured,) = engine.controller.costs.measured
    assert 7 not in measured.seconds
    assert {1, *WIDTHS} <= set(measured.seconds)
