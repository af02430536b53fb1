"""What share of a draft is accepted, from the same rows: by this project's rules, and by sample-and-compare.

Sample-and-compare draws a token from the target's row and keeps the drafted token only where both are equal.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.arguments import whole
from app.assembly.assembly import Assembly
from app.bench.layer_choice import overlap
from app.bench.prompts import Prompt, load_prompts, spread
from app.bench.workbench import bench_parser, chat_tokens, grouped, open_assembly, print_rows, with_progress
from app.config.values import LoadSettings
from app.engine.sampling import Sampler
from app.engine.settings import LONGEST_DRAFT, Sampling
from app.engine.verify import block_rule, verify_sampled
from app.errors import SpecchatError, UsageError
from app.llama.context import Context
from app.llama.quantise import requantise
from app.models.locate import find_model
from proposers.base import Distribution
from proposers.draft import Draft

_RESAMPLES = 4000


class RuleCounts(NamedTuple):
    """Drafted tokens of one pass that each way accepts, as expectations given the draft.

    block, token: by this project's rules. compared_sampled: by sample-and-compare on the same tokens.
    compared_argmax: by sample-and-compare on the draft model's likeliest tokens, a draft of its own.
    """

    block: float
    token: float
    compared_sampled: float
    compared_argmax: float


class FirstToken(NamedTuple):
    """The chances that a pass's first drafted token is accepted, over all that could have been drafted:
    Σ min(p, q) by the block rule and the token rule, Σ p·q and p(argmax q) by sample-and-compare."""

    verified: float
    compared_sampled: float
    compared_argmax: float


class MeasuredReply(NamedTuple):
    """The figures of a reply's passes."""

    category: str
    counts: tuple[RuleCounts, ...]
    first: tuple[FirstToken, ...]


@dataclass(frozen=True, slots=True)
class Shares:
    """Accepted tokens per drafted token, by each way; and the block rule's share over the two others'."""

    category: str
    passes: int
    block: float
    token: float
    compared_sampled: float
    compared_argmax: float
    over_sampled: float
    over_argmax: float


def probability(distribution: Distribution, token: int) -> float:
    """The probability of one token; 0 where it was cut."""
    return float(distribution.probabilities[distribution.tokens == token].sum())


def block_accepted(draft: Sequence[int], q: Sequence[Distribution], p: Sequence[Distribution]) -> float:
    """Expected tokens that block verification accepts of a draft: Σ_i P(tau ≥ i), see verify.block_rule.

    tau is the last i whose uniform lies below h_i, so tau ≥ i unless all of h_i … h_k miss.
    """
    running, accepts = 1.0, list[float]()
    for index, token in enumerate(draft):
        running = min(1.0, running * probability(p[index], token) / probability(q[index], token))
        if index + 1 == len(draft):
            accepts.append(running)
            continue
        following = dict(zip(q[index + 1].tokens.tolist(), q[index + 1].probabilities.tolist(), strict=True))
        excess = sum(
            max(running * chance - following.get(each, 0.0), 0.0)
            for each, chance in zip(p[index + 1].tokens.tolist(), p[index + 1].probabilities, strict=True)
        )
        remaining = excess + 1.0 - running
        accepts.append(float(excess / remaining) if remaining > 0.0 else 1.0)
    return float(sum(1.0 - np.prod([1.0 - h for h in accepts[index:]]) for index in range(len(accepts))))


def token_accepted(draft: Sequence[int], q: Sequence[Distribution], p: Sequence[Distribution]) -> float:
    """Expected tokens that the token rule accepts of a draft, one after the other by min(1, p/q)."""
    ratios = [probability(p[index], x) / probability(q[index], x) for index, x in enumerate(draft)]
    return float(np.cumprod(np.minimum(ratios, 1.0)).sum())


def compared_accepted(draft: Sequence[int], p: Sequence[Distribution]) -> float:
    """Expected tokens that sample-and-compare accepts of a draft, one after the other by p."""
    return float(np.cumprod([probability(p[index], x) for index, x in enumerate(draft)]).sum())


def first_token(q: Distribution, p: Distribution) -> FirstToken:
    """The closed forms at a pass's first position."""
    pairs = [(probability(p, token), chance) for token, chance in zip(q.tokens, q.probabilities, strict=True)]
    return FirstToken(
        overlap(p, q),
        float(sum(target * drafted for target, drafted in pairs)),
        probability(p, int(q.tokens[q.probabilities.argmax()])),
    )


def passes_of(
    target: Context,
    draft: Draft,
    sampling: Sampling,
    k: int,
    prompt: Sequence[int],
    tokens: int,
    rng: np.random.Generator,
) -> Iterator[tuple[RuleCounts, FirstToken]]:
    """The passes of a reply that is decoded as the engine does; each pass is judged in every way.

    The reply has `tokens` tokens, or a few more, unless it ends before.
    """
    sampler, argmax = Sampler(sampling), Sampler(Sampling(temperature=0.0))
    history = list(prompt)

    def rows(drafted: Sequence[int]) -> list[Distribution]:
        """The target's distributions (k + 1) along a draft, which its cache then holds."""
        logits = target.forward([history[-1], *drafted], rows=1 + len(drafted))
        return sampler.distributions(logits, history, drafted)

    target.rollback(0)
    target.forward(history[:-1], rows=0)
    draft.begin(history)
    while len(history) < len(prompt) + tokens:
        likeliest = draft.propose(history, k, argmax, rng).tokens
        # Cuts the draft model's cache back, so that it can draft from here once more.
        draft.observe(history)
        compared = compared_accepted(likeliest, rows(likeliest))
        target.rollback(len(history) - 1)
        sampled = draft.propose(history, k, sampler, rng)
        x, q = sampled.tokens, sampled.q
        assert q is not None
        p = rows(x)
        counts = block_accepted(x, q, p), token_accepted(x, q, p), compared_accepted(x, p), compared
        yield RuleCounts(*counts), first_token(q[0], p[0])
        committed = verify_sampled(block_rule, x, q, p, rng)
        if not target.model.end_tokens.isdisjoint(committed):
            return
        history.extend(committed)
        target.rollback(len(history) - 1)
        draft.observe(history)


def shares(category: str, replies: Sequence[MeasuredReply], k: int) -> Shares:
    """All passes of these replies taken together."""
    passes = sum(len(reply.counts) for reply in replies)
    accepted = _totals(replies).sum(axis=0) / (k * passes)
    return Shares(category, passes, *accepted.tolist(), *_over(accepted[None])[0].tolist())


def intervals(replies: Sequence[MeasuredReply]) -> NDArray[np.float64]:
    """95 % intervals (2, 2) of `over_sampled` and `over_argmax`: low and high, by a bootstrap.

    Whole replies are drawn, as the passes of one are alike; the ways stay paired.
    """
    totals = _totals(replies)
    drawn = np.random.default_rng(0).integers(len(totals), size=(_RESAMPLES, len(totals)))
    ratios = _over(totals[drawn].sum(axis=1))
    return np.asarray(np.quantile(ratios, (0.025, 0.975), axis=0).T)


def means(replies: Sequence[MeasuredReply]) -> FirstToken:
    """The first position's chances, over all passes."""
    return FirstToken(*np.mean([first for reply in replies for first in reply.first], axis=0).tolist())


def _totals(replies: Sequence[MeasuredReply]) -> NDArray[np.float64]:
    """Accepted tokens by reply and by way, (n, 4)."""
    return np.array([np.sum(reply.counts, axis=0) for reply in replies])


def _over(totals: NDArray[np.float64]) -> NDArray[np.float64]:
    """What the block rule accepts (n, 4) over what sample-and-compare does, (n, 2); not finite over 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(totals[:, :1] / totals[:, 2:])


def replies_to(
    assembly: Assembly, prompts: Sequence[Prompt], sampling: Sampling, k: int, tokens: int, seed: int
) -> Iterator[MeasuredReply]:
    """A reply to each prompt that the context has room for, of `tokens` tokens at least unless it ends."""
    engine = assembly.engine("draft")
    (draft,) = engine.sequence.proposers
    assert isinstance(draft, Draft)
    for number, prompt in enumerate(prompts):
        ids = chat_tokens(assembly.target, prompt.prompt)
        if len(ids) + tokens + 2 * k < engine.target.capacity:
            rng = np.random.default_rng([seed, number])
            counts, first = zip(*passes_of(engine.target, draft, sampling, k, ids, tokens, rng), strict=True)
            yield MeasuredReply(prompt.category, counts, first)


def pair(model: str | None, draft: str | None, folder: Path) -> LoadSettings:
    """Target and draft of these names. Without a draft a Q4_0 copy of the target drafts; without both the
    target is an F32 copy of the bundled model. Copies are written into `folder`."""
    path = find_model(model)
    if draft is not None:
        return LoadSettings(name=str(path), draft=draft)
    small = requantise(path, folder / "draft.gguf", "Q4_0")
    large = path if model is not None else requantise(path, folder / "target.gguf", "F32")
    return LoadSettings(name=str(large), draft=str(small))


def _ratios(sampled: float, argmax: float) -> dict[str, float | None]:
    """As JSON has them: null over nothing."""
    pairs = ("over_sampled", sampled), ("over_argmax", argmax)
    return {name: ratio if np.isfinite(ratio) else None for name, ratio in pairs}


def main(arguments: Sequence[str]) -> int:
    """Print the table, or with --json an object."""
    parser = bench_parser("acceptance", __doc__, model=False, tokens=64)
    add = parser.add_argument
    add("--model", help="the target, a .gguf (default: an F32 copy of the bundled model, 0.6 GB)")
    add("--draft", help="the draft, a .gguf (default: a Q4_0 copy of the target)")
    add("--prompts", type=Path, help="JSON Lines (default: the project's own)")
    add("--each", type=whole(1), default=3, help="prompts of each category, shortest first (default: 3)")
    add("--k", type=whole(1, LONGEST_DRAFT), default=4, help="tokens drafted in each pass (default: 4)")
    add("--temp", type=float, default=0.8, help="temperature of target and draft (default: 0.8)")
    add("--seed", type=whole(0), default=0, help="of the replies (default: 0)")
    options = parser.parse_args(arguments)
    sampling = Sampling(temperature=options.temp)
    if sampling.temperature == 0.0:
        raise UsageError("At temperature 0 all ways accept the same tokens: give --temp above 0.")
    shortest = sorted(load_prompts(options.prompts), key=lambda prompt: len(prompt.prompt))
    prompts = spread(shortest, options.each)
    with (
        tempfile.TemporaryDirectory() as folder,
        open_assembly(pair(options.model, options.draft, Path(folder))) as assembly,
    ):
        found = replies_to(assembly, prompts, sampling, options.k, options.tokens, options.seed)
        measured = list(with_progress(found, len(prompts), "replies"))
    if not measured:
        raise SpecchatError("No prompt fits the context: give shorter prompts, or fewer --tokens.")
    groups = {**grouped(measured, lambda reply: reply.category), "total": measured}
    rows = [shares(category, replies, options.k) for category, replies in groups.items()]
    bounds, first = intervals(measured), means(measured)
    if options.json:
        result = {
            "k": options.k,
            "temperature": sampling.temperature,
            "shares": [asdict(row) | _ratios(row.over_sampled, row.over_argmax) for row in rows],
            "low": _ratios(*bounds[:, 0].tolist()),
            "high": _ratios(*bounds[:, 1].tolist()),
            "first_token": first._asdict(),
        }
        print(json.dumps(result))
        return 0
    # The longer the draft, the larger the ratios: what is rejected early costs all that follows.
    print(f"Share of drafts of {options.k} tokens that is accepted, at temperature {sampling.temperature:g}")
    print_rows(rows)
    over_sampled, over_argmax = (f"{low:.2f} to {high:.2f}" for low, high in bounds.tolist())
    print(
        f"95 % interval over replies: {over_sampled} over sampled drafts, {over_argmax} over argmax drafts."
    )
    print(
        f"First drafted token: Σ min(p, q) {first.verified:.1%}, Σ p·q {first.compared_sampled:.1%}, "
        f"p(argmax q) {first.compared_argmax:.1%}."
    )
    return 0
