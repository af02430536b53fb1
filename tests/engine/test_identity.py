"""Token identity on the bundled model: greedy replies in exact mode, whatever is drafted and how far."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.bench.identity import TOKENS, VARIANTS, Variant, compare
from app.bench.workbench import LENGTH, Workbench
from app.llama.context import Context
from app.llama.settings import ContextSettings
from proposers.draft import Draft

PROMPTS = 10
# Of the default run: every proposer, and short, long and changing drafts.
FEW = [
    Variant("lookup", 4),
    Variant("draft", 16),
    Variant("skip", None),
    Variant("swap", 4),
]


@pytest.fixture(scope="module")
def bench(bundled: Path) -> Iterator[Workbench]:
    with Workbench(bundled, exact=True, threads=1) as made:
        yield made


@pytest.fixture(scope="module")
def prompts(bench: Workbench) -> list[tuple[int, ...]]:
    return sorted(bench.prompts(64, TOKENS), key=len)[:PROMPTS]


def test_greedy_replies_begin_identically(bench: Workbench, prompts: list[tuple[int, ...]]) -> None:
    """Speculation in exact mode may not change a single token of a real reply."""
    assert compare(bench, prompts[0], FEW, tokens=24) == {}


@pytest.mark.long
@pytest.mark.parametrize("number", range(PROMPTS))
def test_greedy_replies_are_identical(bench: Workbench, prompts: list[tuple[int, ...]], number: int) -> None:
    """The same for whole replies: each prompt meets one variant.

    20 prompts with every variant are `specchat bench identity`.
    """
    variant = VARIANTS[number * 2 % len(VARIANTS)]
    assert compare(bench, prompts[number], [variant], number) == {}


@pytest.mark.parametrize("least", [64, pytest.param(1000, marks=pytest.mark.long)])
def test_a_draft_that_is_the_target_accepts_everything(bench: Workbench, least: int) -> None:
    """A draft's cache that is cut one token too far starves acceptance while outputs look fine."""
    target = bench.assembly.target
    context = bench.enter_context(Context(target, LENGTH, ContextSettings(exact=True)))
    twin = Draft(context)
    drafted = accepted = tokens = 0
    for prompt in sorted(bench.prompts(64, TOKENS), key=len):
        finished = bench.reply(prompt, twin, k=8, tokens=min(TOKENS, least))
        drafted += finished.drafted
        accepted += finished.accepted
        tokens += len(finished.token_ids)
        if tokens >= least:
            break
    assert tokens >= least
    assert accepted == drafted
