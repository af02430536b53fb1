"""Greedy replies in exact mode: the same token ids with every proposer and every draft length."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from app.arguments import Parser
from app.bench.workbench import Workbench
from app.engine.events import Finished, Pass
from app.engine.loop import Engine
from app.errors import SpecchatError
from app.llama.settings import ContextSettings
from app.models.locate import find_model
from proposers.lookup import Lookup

TOKENS = 128
LENGTHS: tuple[int | None, ...] = (1, 2, 4, 8, 16, None)


@dataclass(frozen=True, slots=True)
class Variant:
    """A proposer and a draft length (None: the controller's); "swap" changes proposers in mid-reply."""

    proposer: str
    k: int | None


VARIANTS = (*(Variant(name, k) for name in ("lookup", "draft", "skip") for k in LENGTHS), Variant("swap", 4))


def run(
    bench: Workbench, prompt: tuple[int, ...], variant: Variant, seed: int, tokens: int = TOKENS
) -> Finished:
    """The prompt's greedy reply with a variant; seed decides when `swap` swaps."""
    proposers = bench.proposers()
    if variant.proposer != "swap":
        return bench.reply(prompt, proposers[variant.proposer], k=variant.k, tokens=tokens)
    rng, pool = random.Random(seed), list(proposers.values())

    def swap(engine: Engine, entry: Pass) -> None:
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
    parser = Parser(prog="specchat bench identity", description=__doc__)
    parser.add_argument("--model", help="a .gguf (default: the bundled model)")
    parser.add_argument("--prompts", type=int, default=20, help="of the project's own (default: 20)")
    options = parser.parse_args(arguments)
    differing: dict[Variant, int] = dict.fromkeys(VARIANTS, 0)
    with Workbench(find_model(options.model), ContextSettings(exact=True)) as bench:
        prompts = bench.prompts(options.prompts, TOKENS)
        if not prompts:
            raise SpecchatError("No prompt fits the context: give --prompts a larger number.")
        for number, prompt in enumerate(prompts, start=1):
            for variant in compare(bench, prompt, VARIANTS, number):
                differing[variant] += 1
            print(
                f"\r{number} of {len(prompts)} prompts, {sum(differing.values())} replies differ",
                end="",
                file=sys.stderr,
                flush=True,
            )
    print(file=sys.stderr)
    print(f"{'proposer':<10}{'k':>6}{'identical':>12}")
    for variant, count in differing.items():
        shown = "auto" if variant.k is None else str(variant.k)
        print(f"{variant.proposer:<10}{shown:>6}{len(prompts) - count:>7} of {len(prompts)}")
    return 1 if any(differing.values()) else 0
