"""The benchmark of acceptance: wrong, it would boast of a verification that is no better than others'."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from app.bench.acceptance import (
    FirstToken,
    MeasuredReply,
    RuleCounts,
    block_accepted,
    compared_accepted,
    first_token,
    intervals,
    means,
    passes_of,
    shares,
    token_accepted,
)
from app.engine.settings import Sampling
from app.engine.verify import block_rule, match_chain, token_rule, verify_sampled
from app.llama.context import Context
from app.llama.model import Model
from app.llama.settings import ContextSettings
from proposers.base import Distribution
from proposers.draft import Draft
from tests.conftest import Ask
from tests.enumeration import Law, law

# No prompt of a single token is long enough to tell a cut cache from a whole one.
PROMPT = (5, 90, 17, 33, 120, 64, 8, 201)
IDS = np.array([151_000, 3, 40_000, 7])


def random_row(rng: np.random.Generator) -> Distribution:
    """Some of four tokens, in any order."""
    kept = rng.permutation(4)[: rng.integers(1, 5)]
    weights = rng.exponential(size=len(kept))
    return Distribution(IDS[kept], weights / weights.sum())


def drafted(
    seed: int, same: bool = False
) -> tuple[list[int], tuple[Distribution, ...], tuple[Distribution, ...]]:
    """A draft of one to four tokens with its rows of q, and the target's rows behind it."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 5))
    q = tuple(random_row(rng) for _ in range(k))
    p = (*q, random_row(rng)) if same else tuple(random_row(rng) for _ in range(k + 1))
    return [int(rng.choice(row.tokens, p=row.probabilities)) for row in q], q, p


def expected(committed: Law) -> float:
    return sum(chance * (len(tokens) - 1) for tokens, chance in committed.items())


@pytest.mark.parametrize("seed", range(60))
def test_expectations_are_those_of_the_rules_that_run(seed: int) -> None:
    """Every outcome of the rules' own code, with its probability."""
    draft, q, p = drafted(seed, same=seed % 10 == 0)
    by_block = law(lambda rng: tuple(verify_sampled(block_rule, draft, q, p, rng)))
    by_token = law(lambda rng: tuple(verify_sampled(token_rule, draft, q, p, rng)))
    assert block_accepted(draft, q, p) == pytest.approx(expected(by_block), abs=1e-12)
    assert token_accepted(draft, q, p) == pytest.approx(expected(by_token), abs=1e-12)

    def compare(rng: np.random.Generator) -> tuple[int, ...]:
        rows = [dict(zip(row.tokens.tolist(), row.probabilities.tolist(), strict=True)) for row in p]
        return tuple(match_chain(draft, lambda index: draw(rows[index], rng)))

    assert compared_accepted(draft, p) == pytest.approx(expected(law(compare)), abs=1e-12)


def draw(row: dict[int, float], rng: np.random.Generator) -> int:
    """A token of a row, by comparisons that can be enumerated."""
    uniform, reached = rng.random(), 0.0
    *others, last = row
    for token in others:
        reached += row[token]
        if uniform < reached:
            return token
    return last


@pytest.mark.parametrize("seed", range(20))
def test_first_token_is_the_mean_over_all_that_could_be_drafted(seed: int) -> None:
    rng = np.random.default_rng(seed)
    q, p = random_row(rng), random_row(rng)
    first = first_token(q, p)
    after = random_row(rng)
    pairs = [([token], chance) for token, chance in zip(q.tokens.tolist(), q.probabilities, strict=True)]
    verified = sum(chance * block_accepted(draft, (q,), (p, after)) for draft, chance in pairs)
    compared = sum(chance * compared_accepted(draft, (p, after)) for draft, chance in pairs)
    likeliest = max(pairs, key=lambda pair: pair[1])[0]
    assert first.verified == pytest.approx(verified)
    assert first.compared_sampled == pytest.approx(compared)
    assert first.compared_argmax == compared_accepted(likeliest, (p, after))


@pytest.mark.parametrize("seed", range(20))
def test_a_draft_that_is_the_target_is_accepted_whole_and_compared_by_chance(seed: int) -> None:
    draft, q, p = drafted(seed, same=True)
    assert block_accepted(draft, q, p) == pytest.approx(len(draft))
    assert token_accepted(draft, q, p) == pytest.approx(len(draft))
    assert first_token(q[0], p[0]).compared_sampled == pytest.approx(float((q[0].probabilities ** 2).sum()))


def reply(category: str, *counts: tuple[float, float, float, float]) -> MeasuredReply:
    return MeasuredReply(
        category, tuple(RuleCounts(*each) for each in counts), (FirstToken(1, 0.5, 0.5),) * len(counts)
    )


def test_shares_are_of_all_drafted_tokens_together() -> None:
    """Means of ratios would let a short reply weigh as much as a long one."""
    measured = [reply("a", (4, 3, 2, 1), (2, 2, 0, 1)), reply("a", (3, 3, 1, 1))]
    row = shares("a", measured, k=4)
    assert (row.passes, row.block, row.token) == (3, 9 / 12, 8 / 12)
    assert (row.compared_sampled, row.compared_argmax) == (3 / 12, 3 / 12)
    assert row.over_sampled == pytest.approx(3.0)
    assert means(measured) == FirstToken(1, 0.5, 0.5)


def test_the_interval_is_as_wide_as_the_replies_differ() -> None:
    alike = [reply("a", (3, 3, 2, 1))] * 8
    assert intervals(alike) == pytest.approx(np.array([[1.5, 1.5], [3.0, 3.0]]))
    differing = [reply("a", (3, 3, 1 + number % 2, 1)) for number in range(8)]
    (low, high), argmax = intervals(differing).tolist()
    assert 1.5 <= low < 2.0 < high <= 3.0
    assert argmax == pytest.approx([3.0, 3.0])


@pytest.fixture
def contexts(tiny_path: Path, tiny_draft_path: Path) -> Iterator[tuple[Context, Context, Context]]:
    """A target, a copy of it, and a model that often agrees with it."""
    settings = ContextSettings(threads=1, exact=True)
    with (
        Model(tiny_path) as model,
        Model(tiny_draft_path) as other,
        Context(model, 256, settings) as target,
        Context(model, 256, settings) as copy,
        Context(other, 256, settings) as draft,
    ):
        yield target, copy, draft


def passes(
    target: Context, draft: Context, k: int, prompt: Sequence[int] = PROMPT
) -> list[tuple[RuleCounts, FirstToken]]:
    return list(passes_of(target, Draft(draft), Sampling(), k, prompt, 60, np.random.default_rng(1)))


def test_the_target_as_its_own_draft_is_accepted_whole(contexts: tuple[Context, Context, Context]) -> None:
    """A cache that holds one wrong token of the other draft would show here."""
    target, copy, _ = contexts
    measured = passes(target, copy, 4)
    assert len(measured) == 12
    for counts, first in measured:
        assert counts.block == pytest.approx(4.0)
        assert counts.token == pytest.approx(4.0)
        assert first.verified == pytest.approx(1.0)
        assert first.compared_sampled <= first.compared_argmax < 1.0 + 1e-9
    assert sum(counts.compared_sampled for counts, _ in measured) < 40


def test_the_argmax_draft_is_one_of_its_own(contexts: tuple[Context, Context, Context]) -> None:
    """Of one token, it is accepted with the target's probability of the draft model's likeliest."""
    target, _, draft = contexts
    measured = passes(target, draft, 1)
    for counts, first in measured:
        assert counts.compared_argmax == pytest.approx(first.compared_argmax, abs=1e-12)
        assert counts.block == pytest.approx(counts.token)
    assert any(counts.compared_argmax != counts.compared_sampled for counts, _ in measured)


def test_shares_of_a_pair_lie_between_nothing_and_all(
    ask: Ask, tiny_path: Path, tiny_draft_path: Path, tmp_path: Path
) -> None:
    prompts = tmp_path / "prompts.jsonl"
    lines = [{"id": f"p{n}", "category": "ab"[n % 2], "prompt": f"Say {n}"} for n in range(4)]
    lines.append({"id": "long", "category": "c", "prompt": "x" * 1000})
    prompts.write_text("\n".join(map(json.dumps, lines)))
    arguments = ("--model", tiny_path, "--prompts", prompts, "--tokens", 24, "--k", 3)
    outcome = ask("bench", "acceptance", *arguments, "--draft", tiny_draft_path, "--json")
    assert outcome.code == 0, outcome.err
    result = json.loads(outcome.out)
    assert [row["category"] for row in result["shares"]] == ["a", "b", "total"]
    of_a, of_b, total = (row["passes"] for row in result["shares"])
    assert total == of_a + of_b
    for row in result["shares"]:
        for name in ("block", "token", "compared_sampled", "compared_argmax"):
            assert 0.0 <= row[name] <= 1.0
        assert row["over_sampled"] == pytest.approx(row["block"] / row["compared_sampled"])
    over = result["shares"][-1]["over_argmax"]
    assert result["low"]["over_argmax"] <= over <= result["high"]["over_argmax"]
    shown = ask("bench", "acceptance", *arguments)
    assert shown.code == 0, shown.err
    assert "total" in shown.out and "Σ min(p, q)" in shown.out
    assert ask("bench", "acceptance", "--temp", 0).code == 2
