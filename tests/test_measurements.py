"""What was learned is there in the next run, and no state of its file can do harm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.bench.record import CostTable
from app.bench.simulation import Auto, agreeing
from app.engine.costs import PassCosts
from app.engine.saved_costs import costs_from_numbers, costs_to_numbers
from app.measurements import VERSION, Measurements

COSTS = (PassCosts(0, {1: 0.01, 2: 0.012, 9: 0.03}, 0.5), PassCosts(2048, {1: 0.02, 8: 0.05}))


def test_what_was_put_is_there_in_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "measurements.json"
    measurements = Measurements(path)
    measurements.put("costs", costs_to_numbers(COSTS))
    measurements.save()
    assert costs_from_numbers(Measurements(path).get("costs")) == COSTS
    assert Measurements(path).get("other") == ()


def test_two_runs_keep_what_both_learned(tmp_path: Path) -> None:
    first, second = Measurements(tmp_path / "k.json"), Measurements(tmp_path / "k.json")
    first.put("one", (1.0,))
    second.put("two", (2.0,))
    first.save()
    second.save()
    assert Measurements(tmp_path / "k.json").get("one") == (1.0,)
    assert Measurements(tmp_path / "k.json").get("two") == (2.0,)


def test_forgetting_removes_the_file(tmp_path: Path) -> None:
    measurements = Measurements(tmp_path / "k.json")
    measurements.put("one", (1.0,))
    measurements.save()
    measurements.forget()
    assert not (tmp_path / "k.json").exists() and Measurements(tmp_path / "k.json").get("one") == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "[" * 100_000,
        json.dumps({"version": VERSION + 1, "known": {"one": [1]}}),
        json.dumps({"version": VERSION, "known": {"one": ["x"], "two": None, "three": [True]}}),
        '{"version": 1, "known": {"one": [NaN], "two": [Infinity]}}',
    ],
)
def test_a_damaged_file_is_no_knowledge(tmp_path: Path, text: str) -> None:
    path = tmp_path / "k.json"
    path.write_text(text)
    measurements = Measurements(path)
    assert all(measurements.get(name) == () for name in ("one", "two", "three"))
    measurements.put("one", (3.0,))
    measurements.save()
    assert Measurements(path).get("one") == (3.0,)


def test_a_folder_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    measurements = Measurements(tmp_path / "file" / "k.json")
    measurements.put("one", (1.0,))
    measurements.save()
    assert measurements.get("one") == (1.0,)


@pytest.mark.parametrize(
    "numbers",
    [
        (),
        (1.0,),
        (0.0, 0.0, 1.0, 1.0),
        (0.0, 0.0, 1.0, 2.0, 0.1),
        (0.0, 0.0, 2.0, 1.0, -1.0, 2.0, 1.0),
        (0.0, 0.0, 2.0, 1.0, 0.1, 2.5, 0.2),
        (-1.0, 0.0, 1.0, 1.0, 0.1),
        (0.0, 0.0, 1.5, 1.0, 0.1, 0.2),
        (0.0, 0.0, 1.0, 1.0, 0.1, 7.0),
        (0.0, 0.0, 1e300, 1.0, 0.1),
    ],
)
def test_numbers_that_are_no_measurements_give_none(numbers: tuple[float, ...]) -> None:
    assert costs_from_numbers(numbers) == ()


@pytest.mark.parametrize("sign", [6.0, -6.0])
def test_poisoned_acceptance_costs_no_more_than_the_ledger_allows(sign: float) -> None:
    """Random text, and weights that are sure of every copy: 2 % and one plain pass, never more."""
    costs = {width: 7.0 * width**0.8 for width in range(1, 34)}
    auto = Auto(CostTable({0: costs}), (sign,) * 17)
    prompt = [token for first in range(100) for token in (first, 1000 + first)]
    reply = [token for first in range(100) for token in (first, 2000 + first)]
    history = [*prompt, reply[0]]
    auto.begin(history)
    spent, done = 0.0, 1
    while done < len(reply):
        following = reply[done:]
        drafted = auto.draft(history, len(following) - 1)
        accepted = agreeing(drafted, following)
        history.extend(following[: accepted + 1])
        done += accepted + 1
        auto.observe(history, drafted, accepted, costs[1 + len(drafted)])
        spent += costs[1 + len(drafted)]
        assert spent <= (1.02 * (done - 1) + 1) * costs[1] + 1e-6
