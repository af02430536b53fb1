"""The command line under test: what holds of each JSON object, and a `specchat` in a process of its own."""

from __future__ import annotations

import codecs
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

KEYS = {
    *("text", "token_ids", "origins", "prompt_tokens", "cached_tokens", "finish_reason", "seed"),
    *("passes", "drafted", "accepted", "trimmed", "acceptance_rate", "tokens_per_pass"),
    *("accepted_by_position", "by_proposer", "k_history", "prefill_s", "decode_s", "tokens_per_s"),
    *("plain_tokens_per_s", "speedup", "host_us_per_pass", "model", "draft", "exact"),
}
QUICK = ("--threads", "1", "--seed", "5")

Reply = dict[str, Any]


def check(reply: Reply) -> Reply:
    """What holds of every JSON object that `--json` prints."""
    assert set(reply) == KEYS
    tokens, origins, tallies = reply["token_ids"], reply["origins"], reply["by_proposer"].values()
    assert len(tokens) == len(origins) == reply["passes"] + reply["accepted"] - reply["trimmed"]
    for name in ("passes", "drafted", "accepted"):
        assert sum(tally[name] for tally in tallies) == reply[name]
    assert sum(reply["accepted_by_position"]) == reply["accepted"] <= reply["drafted"]
    assert reply["accepted_by_position"] == sorted(reply["accepted_by_position"], reverse=True)
    assert sum(reply["k_history"]) == reply["drafted"] and len(reply["k_history"]) == reply["passes"]
    assert set(origins) <= {*reply["by_proposer"], "plain", "bonus", "correction"} - {"off"}
    drafted = [origin for origin in origins if origin in reply["by_proposer"]]
    assert reply["accepted"] - reply["trimmed"] <= len(drafted) <= reply["accepted"]
    assert (reply["acceptance_rate"] is None) == (reply["drafted"] == 0)
    if reply["drafted"]:
        assert reply["acceptance_rate"] == reply["accepted"] / reply["drafted"]
    assert (reply["tokens_per_pass"] is None) == (reply["passes"] == 0)
    if reply["passes"]:
        assert reply["tokens_per_pass"] == pytest.approx(1 + reply["accepted"] / reply["passes"])
        assert reply["tokens_per_s"] == pytest.approx(len(tokens) / reply["decode_s"])
        assert reply["host_us_per_pass"] >= 0
    plain = set(reply["by_proposer"]) == {"off"}
    assert plain <= (reply["speedup"] == (1.0 if tokens else None))
    assert plain or reply["drafted"] or reply["speedup"] is None
    if reply["speedup"] is not None and tokens:
        assert reply["speedup"] == pytest.approx(reply["tokens_per_s"] / reply["plain_tokens_per_s"])
    return reply


def text_of(data: bytes) -> str:
    """The text of these bytes, less a last character that is not finished."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data)


def running(
    *arguments: str | Path,
    script: str = "import sys; from app.start import main; sys.exit(main())",
    stdin: int = subprocess.DEVNULL,
    stderr: int = subprocess.PIPE,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """A `specchat` in a process of its own, started."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env={**os.environ, "GGML_NO_BACKTRACE": "1", **(environment or {})},
    )
