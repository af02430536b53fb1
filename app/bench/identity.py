"""Greedy replies in exact mode: the same token ids with every proposer and every draft length."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from app.bench.workbench import Workbench, bench_parser, print_rows
from app.commands.status import StatusLine
from app.engine.events import Finished
from app.engine.loop import Engine
from app.errors import SpecchatError
from app.models.locate import find_model
from proposers.lookup import Lookup

TOKENS = 128
LENGTHS: tuple[int | None, ...] = (1, 2, 4, 8, 16, None)


@dataclass(frozen=True, slots=True)
class Variant:
    """A proposer and a draft length (None: the controller's); "swap" changes proposers in mid-reply."""

    proposer: str
    k: int | None


@dataclass(frozen=True, slots=True)
class IdenticalReplies:
    """How many of a variant's replies are those of plain decoding."""

    proposer: str
    k: str
    identical: int
    replies: int


VARIANTS = (*(Variant(name, k) for name in ("lookup", "draft", "skip") for k in LENGTHS), Variant("swap", 4))


def run(
    bench: Workbench, prompt: tuple[int, ...], variant: Variant, seed: int, tokens: int = TOKENS
) -> Finished:
    """The prompt's greedy reply with a variant; seed decides when `swap` swaps."""
    proposers = bench.proposers()
    if variant.proposer != "swap":
        return bench.reply(prompt, proposers[variant.proposer], k=variant.k, tokens=tokens)
    rng, pool = random.Random(seed), list(proposers.values())

    def swap(engine: Engine) -> None:
        if rng.random() < 0.2:
            engine.sequence.proposers = (rng.choice(pool),)

    return bench.reply(prompt, Lookup(), k=variant.k, tokens=tokens, each=swap)


def compare(
    bench: Workbench,
    prompt: tuple[int, ...],
    variants: Sequence[Variant],
    seed: int = 0,
    tokens: int = TOKENS,
) -> dict[Variant, Finished]:
    """Replies of the variants that differ from plain decoding's; empty where none does."""
    plain = bench.reply(prompt, bench.proposers()["off"], tokens=tokens)
    replies = {variant: run(bench, prompt, variant, seed, tokens) for variant in variants}
    return {variant: reply for variant, reply in replies.items() if reply.token_ids != plain.token_ids}


def main(arguments: Sequence[str]) -> int:
    """Print a line for each variant; exit code 1 where any reply differs."""
    parser = bench_parser("identity", __doc__, json=False)
    parser.add_argument("--prompts", type=int, default=20, help="of the project's own (default: 20)")
    options = parser.parse_args(arguments)
    differing: dict[Variant, int] = dict.fromkeys(VARIANTS, 0)
    line = StatusLine(shown=True)
    with Workbench(find_model(options.model), exact=True) as bench:
        prompts = bench.prompts(options.prompts, TOKENS)
        if not prompts:
            raise SpecchatError("No prompt fits the context: give --prompts a larger number.")
        for number, prompt in enumerate(prompts, start=1):
            for variant in compare(bench, prompt, VARIANTS, number):
                differing[variant] += 1
            line.show(f"{number} of {len(prompts)} prompts, {sum(differing.values())} replies differ")
    line.end()
    rows = [
        IdenticalReplies(variant.proposer, str(variant.k or "auto"), len(prompts) - count, len(prompts))
        for variant, count in differing.items()
    ]
    print_rows(rows)
    return 1 if any(differing.values()) else 0
