"""What a step of lookup costs as the history grows: index one more token and propose again."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import quantiles
from time import perf_counter_ns
from typing import cast

import numpy as np

from app.bench.workbench import bench_parser, print_rows
from proposers.base import RowSampler
from proposers.lookup import Lookup

SIZES = (1_024, 4_096, 16_384, 65_536, 131_072)
STEPS = 2_000
VOCABULARY = 49_152
# Tokens asked for at each step.
LIMIT = 16


@dataclass(frozen=True, slots=True)
class LookupTime:
    """Microseconds of a step, which is one token, after so many tokens."""

    text: str
    history: int
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


def run() -> Iterator[LookupTime]:
    """Time the steps from each size on, on each kind of text."""
    for name, make in (("random", random_text), ("repetitive", repetitive_text)):
        text = make(max(SIZES) + STEPS, random.Random(0))
        lookup = Lookup()
        for size in SIZES:
            lookup.begin(text[:size])
            times = _step_times(lookup, text[:size], text[size : size + STEPS])
            deciles = quantiles(times, n=10)
            yield LookupTime(name, size, deciles[4], deciles[8])


def _step_times(lookup: Lookup, history: list[int], following: Sequence[int]) -> list[float]:
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
    options = bench_parser("lookup", __doc__, model=False).parse_args(arguments)
    return print_rows(list(run()), options.json)
