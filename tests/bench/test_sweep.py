"""The sweep: every arm on every prompt, medians of ratios to the plain replies beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from app.assembly.assembly import Assembly
from app.bench.prompts import Prompt
from app.bench.sweep import PLAIN, Arm, Pair, Sweep, in_turn, medians, picture
from app.config.values import LoadSettings
from app.engine.events import Event, Finished, Pass
from tests.conftest import Ask
from tests.tui.engine import finished

ONE = finished([])
PASS = Pass("off", (), 0, 1, (), (), "", 0.0, 0.0, 0.0)


def reply(tokens: int, seconds: float) -> Finished:
    return replace(ONE, token_ids=(1,) * tokens, decode_seconds=seconds)


def test_a_speedup_is_the_median_over_rounds_of_rates_that_were_summed_first() -> None:
    fast = Arm("lookup", 4)
    pairs = [
        Pair(0, "chat", fast, reply(10, 1.0), reply(10, 0.5)),
        Pair(0, "chat", fast, reply(30, 3.0), reply(30, 2.5)),
        Pair(1, "chat", fast, reply(10, 2.0), reply(10, 1.0)),
        Pair(2, "chat", fast, reply(10, 1.0), reply(10, 4.0)),
    ]
    speeds = {speed.arm: speed for speed in medians(pairs)}
    assert speeds[PLAIN].speedup == 1.0
    assert speeds[fast].speedup == (40 / 3.0) / (40 / 4.0)
    drawn = picture(list(speeds.values()))
    assert "best fixed" in drawn and "1.33×" in drawn


def test_replies_take_turns_by_their_tokens() -> None:
    """Else a drift of the machine falls on one of the two, and looks like a speedup or a loss."""
    order = []

    def decoding(name: str, committed: int, passes: int) -> Iterator[Event]:
        for _ in range(passes):
            order.append(name)
            yield replace(PASS, committed=committed)
        yield reply(committed * passes, 1.0)

    first, second = in_turn([decoding("plain", 1, 6), decoding("auto", 3, 2)])
    assert (len(first.token_ids), len(second.token_ids)) == (6, 6)
    assert order == ["plain", "auto", "plain", "plain", "plain", "auto", "plain", "plain"]


def test_no_arm_plays_with_what_another_has_won_or_lost(tiny_path: Path) -> None:
    """Else a fixed length's losses empty auto's ledger, and auto looks worse than it is."""
    fixed, auto = Arm("lookup", 2), Arm("auto", None)
    prompts = [Prompt(f"p{number}", "chat", f"Say {number}") for number in range(3)]
    with Assembly(LoadSettings(name=str(tiny_path)), stop=lambda: False) as assembly:
        sweep = Sweep(assembly, [fixed, auto], 4)
        for pair in sweep.runs(prompts, 2):
            used = {id(engine.controller) for engine in sweep._engines}
            assert used == {id(sweep._controllers[arm]) for arm in (PLAIN, pair.arm)}


def test_every_arm_runs_on_the_model(
    ask: Ask, tiny_path: Path, tiny_draft_path: Path, tmp_path: Path
) -> None:
    prompts = tmp_path / "prompts.jsonl"
    lines = [{"id": f"p{n}", "category": "ab"[n % 2], "prompt": f"Say {n}"} for n in range(4)]
    prompts.write_text("\n".join(map(json.dumps, lines)))
    arguments = ("--model", tiny_path, "--draft", tiny_draft_path, "--prompts", prompts, "--json")
    outcome = ask("bench", "sweep", *arguments, "--each", 1, "--rounds", 2, "--tokens", 8, "--lengths", "2,4")
    assert outcome.code == 0, outcome.err
    result = json.loads(outcome.out)
    labels = {"plain", "lookup k 2", "lookup k 4", "draft k 2", "draft k 4", "auto"}
    assert {(row["category"], row["arm"]) for row in result["speeds"]} == {
        (category, label) for category in "ab" for label in labels
    }
    assert set(result["geomean"]) == labels
    assert ask("bench", "sweep", "--lengths", "2,x").code == 2
