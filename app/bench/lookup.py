"""What a step of lookup costs as the history grows: index one more token and propose again."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import quantiles
from time import perf_counter_ns
from typing import cast

import numpy as np

from app.arguments import Parser
from proposers.base import RowSampler
from proposers.lookup import Lookup

SIZES = (1_024, 4_096, 16_384, 65_536, 131_072)
VOCABULARY = 49_152
LIMIT = 16
"""Tokens asked for at each step."""


@dataclass(frozen=True, slots=True)
class Row:
    """Microseconds of one step, which is one token, at a history of `size` tokens."""

    text: str
    size: int
    median_us: float
    p90_us: float


def random_text(length: int, rng: random.Random) -> list[int]:
    """Tokens that hardly ever repeat: the automaton at its widest."""
    return [rng.randrange(VOCABULARY) for _ in range(length)]


def repetitive_text(length: int, rng: random.Random) -> list[int]:
    """Frequent words, quoted stretches and the loops that models fall into: matches of every length."""
    text: list[int] = []
    while len(text) < length:
        kind = rng.random()
        if kind < 0.5 or not text:
            text += [min(int(rng.paretovariate(0.9)), VOCABULARY) for _ in range(rng.randint(10, 60))]
        else:
            start = rng.randrange(len(text))
            quoted = text[start : start + rng.randint(5, 80)]
            text += quoted if kind < 0.95 else quoted[:12] * 10
    return text[:length]


TEXTS: dict[str, Callable[[int, random.Random], list[int]]] = {
    "random": random_text,
    "repetitive": repetitive_text,
}


def run(sizes: Sequence[int] = SIZES, steps: int = 2_000, seed: int = 0) -> list[Row]:
    """Time `steps` steps from each size on, sizes growing, on each kind of text."""
    rows = []
    for name, make in TEXTS.items():
        text = make(max(sizes) + steps, random.Random(seed))
        lookup = Lookup()
        for size in sorted(sizes):
            lookup.begin(text[:size])
            times = _steps(lookup, text[:size], text[size : size + steps])
            deciles = quantiles(times, n=10)
            rows.append(Row(name, size, deciles[4], deciles[8]))
    return rows


def _steps(lookup: Lookup, history: list[int], following: Sequence[int]) -> list[float]:
    """Microseconds of each step."""
    # A copy is deterministic: neither sampler nor generator is ever asked.
    sampler, rng = cast(RowSampler, None), np.random.default_rng(0)
    times = []
    for token in following:
        history.append(token)
        start = perf_counter_ns()
        lookup.observe(history)
        lookup.propose(history, LIMIT, sampler, rng)
        times.append((perf_counter_ns() - start) / 1_000)
    return times


def main(arguments: Sequence[str]) -> int:
    """Print the table, or with --json a list of rows."""
    parser = Parser(prog="specchat bench lookup", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    rows = run()
    if options.json:
        print(json.dumps([asdict(row) for row in rows]))
        return 0
    print(f"{'text':<12}{'history':>9}{'median µs':>11}{'p90 µs':>9}")
    for row in rows:
        print(f"{row.text:<12}{row.size:>9,}{row.median_us:>11.2f}{row.p90_us:>9.2f}")
    return 0
