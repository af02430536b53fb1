"""What share of a draft stands: this project's verification beside sample-and-compare, from the same rows.

Sample-and-compare draws a token from the target's row and keeps the drafted token only where both are equal.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from app.arguments import Parser, whole
from app.assembly import Assembly, Setup, template_for
from app.bench.progress import with_progress
from app.bench.prompts import Prompt, load_prompts
from app.bench.sweep import spread
from app.chat.message import Message
from app.chat.prompt import encode
from app.engine.sampling import Sampler
from app.engine.settings import Sampling
from app.engine.verify import block_rule, verify_sampled
from app.errors import SpecchatError, UsageError
from app.llama.context import Context
from app.llama.quantise import requantise
from app.models.locate import find_model
from proposers.base import Distribution
from proposers.draft import Draft

_RESAMPLES = 4000


@dataclass(frozen=True, slots=True)
class Counts:
    """Drafted tokens of one pass that each way accepts, as expectations given the draft.

    compared_sampled: sample-and-compare on the very tokens that `block` and `token` see. compared_argmax:
    on the draft model's likeliest tokens, a draft of its own.
    """

    block: float
    token: float
    compared_sampled: float
    compared_argmax: float


@dataclass(frozen=True, slots=True)
class FirstToken:
    """The chances that a pass's first drafted token is accepted, over all that could have been drafted:
    Σ min(p, q) by the block rule and the token rule, Σ p·q and p(argmax q) by sample-and-compare."""

    verified: float
    compared_sampled: float
    compared_argmax: float


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply's passes, by their figures."""

    category: str
    counts: tuple[Counts, ...]
    first: tuple[FirstToken, ...]


@dataclass(frozen=True, slots=True)
class Shares:
    """Accepted tokens per drafted token by each way, and how many times theirs the block rule's share is."""

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
        float(sum(min(pair) for pair in pairs)),
        float(sum(target * drafted for target, drafted in pairs)),
        probability(p, int(q.tokens[q.probabilities.argmax()])),
    )


class Bench:
    """A target and its draft, decoding as the engine does; each pass is looked at in every way."""

    def __init__(self, target: Context, draft: Draft, sampling: Sampling, k: int) -> None:
        self._target = target
        self._draft = draft
        self._sampler = Sampler(sampling)
        self._argmax = Sampler(Sampling(temperature=0.0))
        self._k = k

    def passes(
        self, prompt: Sequence[int], tokens: int, rng: np.random.Generator
    ) -> Iterator[tuple[Counts, FirstToken]]:
        """The passes of a reply of `tokens` tokens, or a few more, which the block rule commits."""
        target, draft = self._target, self._draft
        ends = target.model.end_tokens
        history = list(prompt)
        target.rollback(0)
        target.forward(history[:-1], rows=0)
        draft.begin(history)
        while len(history) < len(prompt) + tokens:
            likeliest = draft.propose(history, self._k, self._argmax, rng).tokens
            # Cuts the draft model's cache back, so that it can draft from here once more.
            draft.observe(history)
            compared = compared_accepted(likeliest, self._rows(history, likeliest))
            target.rollback(len(history) - 1)
            sampled = draft.propose(history, self._k, self._sampler, rng)
            x, q = sampled.tokens, sampled.q
            assert q is not None
            p = self._rows(history, x)
            counts = Counts(
                block_accepted(x, q, p), token_accepted(x, q, p), compared_accepted(x, p), compared
            )
            yield counts, first_token(q[0], p[0])
            committed = verify_sampled(block_rule, x, q, p, rng)
            if not ends.isdisjoint(committed):
                return
            history.extend(committed)
            target.rollback(len(history) - 1)
            draft.observe(history)

    def _rows(self, history: Sequence[int], draft: Sequence[int]) -> list[Distribution]:
        """The target's distributions (k + 1) along a draft, which its cache then holds."""
        rows = self._target.forward([history[-1], *draft], rows=1 + len(draft))
        return self._sampler.distributions(rows, history, draft)


def shares(category: str, replies: Sequence[Reply], k: int) -> Shares:
    """All passes of these replies taken together."""
    passes = sum(len(reply.counts) for reply in replies)
    block, token, sampled, argmax = (_totals(replies).sum(axis=0) / (k * passes)).tolist()
    over_sampled, over_argmax = _over(np.array([[block, token, sampled, argmax]]))[0].tolist()
    return Shares(category, passes, block, token, sampled, argmax, over_sampled, over_argmax)


def intervals(replies: Sequence[Reply]) -> NDArray[np.float64]:
    """95 % intervals (2, 2) of `over_sampled` and `over_argmax`: low and high, by a bootstrap.

    Whole replies are drawn, as the passes of one are alike; the ways stay paired.
    """
    totals = _totals(replies)
    drawn = np.random.default_rng(0).integers(len(totals), size=(_RESAMPLES, len(totals)))
    ratios = _over(totals[drawn].sum(axis=1))
    return np.asarray(np.quantile(ratios, (0.025, 0.975), axis=0).T)


def means(replies: Sequence[Reply]) -> FirstToken:
    """The first position's chances, over all passes."""
    table = [list(asdict(first).values()) for reply in replies for first in reply.first]
    return FirstToken(*np.mean(table, axis=0).tolist())


def _totals(replies: Sequence[Reply]) -> NDArray[np.float64]:
    """Accepted tokens by reply and by way, (n, 4)."""
    return np.array(
        [np.sum([list(asdict(each).values()) for each in reply.counts], axis=0) for reply in replies]
    )


def _over(totals: NDArray[np.float64]) -> NDArray[np.float64]:
    """What the block rule accepts (n, 4) over what sample-and-compare does, (n, 2); not finite over 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(totals[:, :1] / totals[:, 2:])


def table(rows: Sequence[Shares], bounds: NDArray[np.float64], first: FirstToken) -> str:
    """The shares by category, with the total last, and what is known of the total."""
    width = max(len(row.category) for row in rows)
    lines = [
        f"{'':<{width}}          accepted per drafted token             block rule over",
        f"{'':<{width}}                      sample-and-compare     sample-and-compare",
        f"{'':<{width}}  passes  block  token  sampled   argmax      sampled   argmax",
    ]
    lines += [
        f"{row.category:<{width}}{row.passes:>8}{row.block:>7.1%}{row.token:>7.1%}{row.compared_sampled:>9.1%}"
        f"{row.compared_argmax:>9.1%}{row.over_sampled:>12.2f}×{row.over_argmax:>8.2f}×"
        for row in rows
    ]
    sampled, argmax = (f"{low:.2f} to {high:.2f}" for low, high in bounds.tolist())
    lines += [
        f"95 % interval over replies: {sampled} times sampled drafts, {argmax} times argmax drafts.",
        f"First drafted token: Σ min(p, q) {first.verified:.1%}, Σ p·q {first.compared_sampled:.1%}, "
        f"p(argmax q) {first.compared_argmax:.1%}.",
    ]
    return "\n".join(lines)


def replies_to(
    assembly: Assembly, prompts: Sequence[Prompt], sampling: Sampling, k: int, tokens: int, seed: int
) -> Iterator[Reply]:
    """A reply to each prompt that the context has room for, of `tokens` tokens at least unless it ends."""
    engine = assembly.engine("draft")
    (draft,) = engine.sequence.proposers
    assert isinstance(draft, Draft)
    bench = Bench(engine.target, draft, sampling, k)
    template = template_for(assembly.target)
    for number, prompt in enumerate(prompts):
        ids = encode([Message("user", prompt.prompt)], template, assembly.target)
        if len(ids) + tokens + 2 * k < engine.target.capacity:
            passes = bench.passes(ids, tokens, np.random.default_rng([seed, number]))
            counts, first = zip(*passes, strict=True)
            yield Reply(prompt.category, counts, first)


def pair(model: str | None, draft: str | None, folder: Path) -> Setup:
    """Target and draft as named. A draft that is not is a Q4_0 copy of the target's file, and where neither
    is, the target is an F32 copy of the bundled model; copies are written into `folder`."""
    path = find_model(model)
    if draft is not None:
        return Setup(model=str(path), draft=draft)
    small = requantise(path, folder / "draft.gguf", "Q4_0")
    large = path if model is not None else requantise(path, folder / "target.gguf", "F32")
    return Setup(model=str(large), draft=str(small))


def _ratios(sampled: float, argmax: float) -> dict[str, float | None]:
    """As JSON has them: null over nothing."""
    pairs = ("over_sampled", sampled), ("over_argmax", argmax)
    return {name: ratio if np.isfinite(ratio) else None for name, ratio in pairs}


def main(arguments: Sequence[str]) -> int:
    """Print the table, or with --json an object."""
    parser = Parser(prog="specchat bench acceptance", description=__doc__)
    add = parser.add_argument
    add("--model", help="the target, a .gguf (default: an F32 copy of the bundled model, 0.6 GB)")
    add("--draft", help="the draft, a .gguf (default: a Q4_0 copy of the target)")
    add("--prompts", type=Path, help="JSON Lines (default: the project's own)")
    add("--each", type=whole(1), default=3, help="prompts of each category, shortest first (default: 3)")
    add("--tokens", type=whole(1), default=64, help="of each reply (default: 64)")
    add("--k", type=whole(1, 32), default=4, help="tokens drafted in each pass (default: 4)")
    add("--temp", type=float, default=0.8, help="temperature of target and draft (default: 0.8)")
    add("--seed", type=whole(0), default=0, help="of the replies (default: 0)")
    add("--json", action="store_true")
    options = parser.parse_args(arguments)
    sampling = Sampling(temperature=options.temp)
    if sampling.temperature == 0.0:
        raise UsageError("At temperature 0 all ways accept the same tokens: give --temp above 0.")
    shortest = sorted(load_prompts(options.prompts), key=lambda prompt: len(prompt.prompt))
    prompts = spread(shortest, options.each)
    with tempfile.TemporaryDirectory() as folder:
        setup = pair(options.model, options.draft, Path(folder))
        with Assembly(setup, stop=lambda: False) as assembly:
            found = replies_to(assembly, prompts, sampling, options.k, options.tokens, options.seed)
            measured = list(with_progress(found, len(prompts), "replies"))
    if not measured:
        raise SpecchatError("No prompt fits the context: give shorter prompts, or fewer --tokens.")
    rows = [
        shares(category, [reply for reply in measured if reply.category == category], options.k)
        for category in dict.fromkeys(reply.category for reply in measured)
    ]
    rows.append(shares("total", measured, options.k))
    bounds, first = intervals(measured), means(measured)
    if options.json:
        result = {
            "k": options.k,
            "temperature": sampling.temperature,
            "shares": [asdict(row) | _ratios(row.over_sampled, row.over_argmax) for row in rows],
            "low": _ratios(*bounds[:, 0].tolist()),
            "high": _ratios(*bounds[:, 1].tolist()),
            "first_token": asdict(first),
        }
        print(json.dumps(result))
        return 0
    # The longer the draft, the larger the ratios: what is rejected early costs all that follows.
    print(f"Drafts of {options.k} at temperature {sampling.temperature:g}")
    print(table(rows, bounds, first))
    return 0
