"""Replay: its accounting by hand, and what the controller reaches on recorded replies."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from app.bench.record import CostTable, RecordedReply, read_costs, read_replies
from app.bench.replay import main, picture
from app.bench.simulation import (
    Auto,
    FixedSetting,
    Replay,
    agreeing,
    copies_of,
    fixed_length,
    means,
    oracle_length,
    reply_cost,
    speedups,
)
from app.engine.control import Controller, DraftOption
from app.errors import SpecchatError
from proposers.acceptance import CopyAcceptance

SHARED = Path(__file__).parents[3] / "shared" / "data"
COSTS = CostTable({0: {width: 10.0 + 2.0 * (width - 1) for width in range(1, 34)}})


def test_the_accounting_is_that_of_a_calculation_by_hand() -> None:
    """Else every speedup of the table is another quantity than the one that it is called."""
    # Prompt 1 2 3 4 5 9; the reply's first token 1 comes from the prefill. Behind it the copy of one
    # matched token says 2 3 4 5 9: drafted 4 of which 2 3 agree, then 7 comes; 8 and 6 have no match.
    sample = RecordedReply("chat", (1, 2, 3, 4, 5, 9), (1, 2, 3, 7, 8, 6))
    copies = copies_of(sample)
    assert [(each.match, each.agreeing) for each in copies[:3]] == [(1, 2), (2, 1), (3, 0)]
    spent = reply_cost(copies, COSTS, fixed_length(FixedSetting(4, 1)))
    assert spent == 18.0 + 10.0 + 10.0
    assert speedups([sample], COSTS, [spent]) == {"chat": 5 * 10.0 / 38.0}
    assert reply_cost(copies, COSTS, fixed_length(FixedSetting(4, 2))) == 10.0 + 16.0 + 20.0
    assert reply_cost(copies, COSTS, oracle_length(COSTS)) == 14.0 + 10.0 + 10.0


def test_nothing_learned_can_be_worse_than_the_ledger_allows() -> None:
    """A poisoned or stale file of knowledge, or a text that turns: 2 % and one pass, never more."""
    # Every token was seen before, and what followed it then never follows again.
    prompt = tuple(token for first in range(60) for token in (first, 1000 + first))
    reply = tuple(token for first in range(60) for token in (first, 2000 + first))
    sample = RecordedReply("adversary", prompt, reply)
    for costs in (COSTS, CostTable({0: {width: 7.0 * width**0.7 for width in range(1, 34)}})):
        auto = Auto(costs)
        spent = sum(auto.reply_cost(sample) for _ in range(5))
        plain = 5 * (len(reply) - 1) * costs.at(1, 0)
        assert spent <= 1.02 * plain + costs.at(1, 0) + 1e-6


def test_knowledge_survives_and_nonsense_is_refused() -> None:
    learned = CopyAcceptance()
    knowledge = tuple(0.1 * index for index in range(len(learned.acceptance_state)))
    assert learned.restore_acceptance(knowledge) and learned.acceptance_state == knowledge
    for nonsense in ((), knowledge[:-1], (*knowledge[:-1], float("nan")), (*knowledge[:-1], float("inf"))):
        assert not learned.restore_acceptance(nonsense)
        assert learned.acceptance_state == knowledge


@pytest.mark.parametrize("agreement", [0.5, 0.8, 0.95])
def test_auto_comes_near_the_fixed_setting_that_hindsight_finds_best(agreement: float) -> None:
    """Where there is nothing to know but one draft length, learning must find it, to some per cent."""
    rng = random.Random(5)
    replies = []
    for _ in range(24):
        prompt = [*range(1000, 1300)]
        rng.shuffle(prompt)
        place = 0
        reply: list[int] = []
        while len(reply) < 120:
            # Two tokens to know the place by, then a copy that goes on with even odds.
            reply += prompt[place : place + 2]
            place += 2
            while place < 298 and rng.random() < agreement:
                reply.append(prompt[place])
                place += 1
            place = rng.randrange(298)
        replies.append(RecordedReply("copies", tuple(prompt), tuple(reply)))
    stages = Replay(replies, COSTS).stages()
    assert len(stages) == 8
    late = [each.over_static for each in stages[4:]]
    assert sum(late) / len(late) > 0.93
    assert all(each.over_oracle <= 1.0 + 1e-9 for each in stages)
    assert picture(stages).count("│") == 9


@pytest.mark.skipif(not SHARED.exists(), reason="the recorded replies are not here")
def test_auto_beats_the_best_fixed_setting_of_each_category() -> None:
    """The promise of the controller: 1.03 of what hindsight would have fixed, and never below plain."""
    replies = read_replies(SHARED / "trajectories.json")
    ratios = []
    for costs in read_costs(SHARED / "cost_curves.json").values():
        found = Replay(replies, costs).by_category()
        mean = means(found)
        assert min(each.auto for each in found.values()) >= 0.985
        assert mean["auto"] <= mean["oracle"]
        ratios.append(mean["auto"] / mean["best_static"])
    assert min(ratios) >= 0.99
    assert sum(ratios) / len(ratios) >= 1.03


# Milliseconds of a pass at two depths on a CPU, with flash attention and without: a document makes wide
# passes three times as expensive with it.
BY_DEPTH = {
    "flash attention": {
        "300": {"1": 8.7, "2": 11.1, "4": 19.3, "8": 32.3, "16": 59.3, "32": 118.6},
        "900": {"1": 15.2, "2": 24.1, "4": 45.5, "8": 78.9, "16": 150.7, "32": 296.5},
    },
    "none": {
        "300": {"1": 4.7, "2": 7.8, "4": 10.1, "8": 14.8, "16": 22.2, "32": 38.5},
        "900": {"1": 5.6, "2": 9.4, "4": 11.7, "8": 18.8, "16": 29.5, "32": 54.8},
    },
}


@pytest.mark.skipif(not SHARED.exists(), reason="the recorded replies are not here")
@pytest.mark.parametrize("name", BY_DEPTH)
def test_where_depth_makes_passes_expensive_auto_is_near_the_best_fixed_setting(
    name: str, tmp_path: Path
) -> None:
    """Lost otherwise: a third of the speed behind a document, for costs that were measured behind nothing."""
    (tmp_path / "c.json").write_text(json.dumps(BY_DEPTH))
    replies = read_replies(SHARED / "trajectories.json")
    for found in Replay(replies, read_costs(tmp_path / "c.json")[name]).by_category().values():
        assert found.auto >= 0.98 * found.best_static


def test_json_is_as_documented_and_repeatable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples = [
        {"category": name, "prompt": [1, 2, 3, 4] * 4, "reply": [1, 2, 3, 4] * 8} for name in ("chat", "code")
    ]
    (tmp_path / "t.json").write_text(json.dumps({"about": "", "samples": samples}))
    (tmp_path / "c.json").write_text(json.dumps({"about": "", "one": {"1": 5.0, "2": 6.0, "8": 12.0}}))
    outputs = []
    for _ in range(2):
        assert main([str(tmp_path / "t.json"), str(tmp_path / "c.json"), "--json"]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    curve = json.loads(outputs[0])["curves"]["one"]
    assert set(curve) == {"categories", "geomean"} and set(curve["categories"]) == {"chat", "code"}
    assert set(curve["categories"]["chat"]) == {"auto", "best_static", "best_static_setting", "oracle"}
    assert curve["geomean"]["auto"] > 1.5


@pytest.mark.parametrize("text", ["{", "[]", '{"samples": [{"prompt": [1]}]}', '{"samples": []}'])
def test_a_file_that_is_none_says_so(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(SpecchatError):
        read_replies(path)


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 3}', '{"a": {"2": 1.0}}', '{"a": {"1": 0, "2": 1}}'])
def test_a_curve_that_is_none_says_so(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(text)
    with pytest.raises(SpecchatError):
        read_costs(path)


def test_a_controller_without_a_curve_drafts_nothing() -> None:
    controller = Controller()
    assert controller.choose([DraftOption("lookup", [0.9, 0.8])]).k == 0


@pytest.mark.parametrize("changed", [False, True], ids=["word by word", "one name changed"])
def test_a_repetition_late_in_a_chat_is_copied_though_an_early_one_was_wrong(changed: bool) -> None:
    """Lost otherwise: "repeat the code above" at plain speed, though every token could be copied."""
    rng = random.Random(3)
    code = [rng.randrange(5000, 9000) for _ in range(260)]
    # Every token of the first part was seen before, and what followed it then never follows again.
    misleading = tuple(token for first in range(120) for token in (first, 1000 + first))
    early = tuple(token for first in range(120) for token in (first, 2000 + first))
    repeated = [token if not changed or place % 50 else 4000 for place, token in enumerate(code)]
    auto = Auto(COSTS)
    history = [*misleading, *code, early[0]]
    auto.begin(history)
    reply = (*early, *repeated)
    done, spent = 1, {}
    while done < len(reply):
        following = reply[done:]
        drafted = auto.draft(history, len(following) - 1)
        accepted = agreeing(drafted, following)
        seconds = COSTS.at(1 + len(drafted), len(history) - 1)
        spent[done] = seconds
        history.extend(following[: accepted + 1])
        done += accepted + 1
        auto.observe(history, drafted, accepted, seconds)
    late = len(early) + 40
    own = sum(seconds for place, seconds in spent.items() if place >= late)
    tokens = len(reply) - min(place for place in spent if place >= late)
    copies = copies_of(RecordedReply("repeat", (*misleading, *code), reply))
    fixed = min(reply_cost(copies[late - 1 :], COSTS, fixed_length(FixedSetting(k, 1))) for k in range(33))
    fixed /= len(reply) - late
    assert own / tokens < fixed / 0.9
