"""Token identity on the bundled model: greedy replies in exact mode, whatever is drafted and how far."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.bench.identity import TOKENS, VARIANTS, compare
from app.bench.workbench import Workbench
from app.llama.settings import ContextSettings
from proposers.draft import Draft

PROMPTS = 10


@pytest.fixture(scope="module")
def bench(bundled: Path) -> Iterator[Workbench]:
    with Workbench(bundled, ContextSettings(exact=True)) as made:
        yield made


@pytest.fixture(scope="module")
def prompts(bench: Workbench) -> list[tuple[int, ...]]:
    return sorted(bench.prompts(64, TOKENS), key=len)[:PROMPTS]


@pytest.mark.parametrize("number", range(PROMPTS))
def test_greedy_replies_are_identical(bench: Workbench, prompts: list[tuple[int, ...]], number: int) -> None:
    """Speculation in exact mode may not change a single token of a real reply.

    Each prompt meets one variant; 20 prompts with every variant are `specchat bench identity`.
    """
    variant = VARIANTS[number * 2 % len(VARIANTS)]
    assert compare(bench, prompts[number], [variant], number) == {}


def test_a_draft_that_is_the_target_accepts_everything_for_1000_tokens(bench: Workbench) -> None:
    """A draft's cache that is cut one token too far starves acceptance while outputs look fine."""
    fork = Draft(bench.context(bench.model))
    drafted = accepted = tokens = 0
    for prompt in sorted(bench.prompts(64, TOKENS), key=len):
        finished = bench.reply(prompt, fork, k=8, tokens=TOKENS)
        drafted += finished.drafted
        accepted += finished.accepted
        tokens += len(finished.token_ids)
        if tokens >= 1000:
            break
    assert tokens >= 1000
    assert accepted == drafted
