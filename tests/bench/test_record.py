"""What record writes, replay reads: the replies are those that the model gives."""

from __future__ import annotations

import json
from pathlib import Path

from app.bench.record import read_replies
from tests.conftest import Ask


def test_replies_are_recorded_and_can_be_replayed(ask: Ask, tiny_path: Path, tmp_path: Path) -> None:
    prompts, recorded = tmp_path / "prompts.jsonl", tmp_path / "out.json"
    lines = [{"id": f"p{n}", "category": "chat", "prompt": f"Say {n}"} for n in range(3)]
    too_long = {"id": "long", "category": "chat", "prompt": "word " * 2000}
    prompts.write_text("\n".join(map(json.dumps, [*lines, too_long])))
    outcome = ask("bench", "record", prompts, recorded, "--model", tiny_path, "--tokens", 20)
    assert outcome.code == 0 and "3 replies" in outcome.out
    replies = read_replies(recorded)
    assert [len(each.reply) for each in replies] == [20, 20, 20]
    options = ("--model", tiny_path, "--temp", 0, "--max-tokens", 20, "--proposer", "off", "--json")
    reply = json.loads(ask("-p", "Say 1", *options).out)
    assert tuple(reply["token_ids"]) == replies[1].reply
    curves = tmp_path / "curves.json"
    curves.write_text(json.dumps({"one": {"1": 1.0, "8": 2.0}}))
    assert ask("bench", "replay", recorded, curves).code == 0


def test_nothing_that_fits_is_said(ask: Ask, tiny_path: Path, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(json.dumps({"id": "long", "category": "chat", "prompt": "word " * 2000}))
    outcome = ask("bench", "record", prompts, tmp_path / "out.json", "--model", tiny_path)
    assert outcome.code == 3 and "fits" in outcome.err
