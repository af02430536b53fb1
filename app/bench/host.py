"""What a pass costs outside the models: verification on synthetic rows, and whole replies."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from app.bench.workbench import GREEDY, LENGTH, Workbench, bench_parser, print_rows
from app.engine.control import Controller
from app.engine.costs import WIDTHS, PassCosts
from app.engine.events import Finished
from app.engine.sampling import Sampler
from app.engine.settings import Sampling
from app.engine.verify import block_rule, match_chain, verify_sampled
from app.models.locate import find_model
from proposers.lookup import Lookup
from proposers.off import Off

SETTINGS = Sampling(temperature=0.8, top_k=40, top_p=0.95, min_p=0.0)
REPEATS = 300
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class HostTime:
    """Median microseconds a pass."""

    what: str
    host_us: float


def synthetic(rows: int, vocabulary: int, sampled: bool, seed: int = 0) -> float:
    """Microseconds to verify a draft of rows - 1 tokens that is wholly accepted, on random logits.

    sampled: the draft has distributions (the block rule), else it is deterministic.
    """
    rng = np.random.default_rng(seed)
    logits = (3 * rng.standard_normal((rows, vocabulary))).astype(np.float32)
    sampler = Sampler(SETTINGS)
    history = rng.integers(vocabulary, size=200).tolist()
    q = sampler.distributions(logits[:-1], history, [0] * (rows - 2))
    draft = [int(row.tokens[0]) for row in q]
    times = []
    for repeat in range(REPEATS):
        draws = np.random.default_rng(repeat)
        started = time.perf_counter()
        p = sampler.distributions(logits, history, draft)
        if sampled:
            verify_sampled(block_rule, draft, q, p, draws)
        else:
            match_chain(draft, lambda index, p=p, draws=draws: sampler.draw(p[index], draws))  # type: ignore[misc]
        times.append(time.perf_counter() - started)
    return median(times) * 1e6


def nothing_pays() -> Controller:
    """A controller for which a pass of n positions costs n plain ones, so that it drafts nothing."""
    seconds = {width: float(width) for width in (1, *WIDTHS)}
    return Controller([PassCosts(depth, seconds) for depth in range(0, LENGTH, 100)])


def idle(
    bench: Workbench, prompts: Sequence[tuple[int, ...]], label: str, sampling: Sampling
) -> Iterator[HostTime]:
    """What choosing costs where nothing is drafted: replies of off and lookup in turn."""
    off, auto = [], []
    for prompt in [*prompts] * ROUNDS:
        off.append(_host_us(bench.reply(prompt, Off(), sampling=sampling)))
        reply = bench.reply(prompt, Lookup(), sampling=sampling, controller=nothing_pays())
        assert reply.drafted == 0
        auto.append(_host_us(reply))
    yield HostTime(f"auto that drafts nothing, {label}", median(auto))
    more = median(ours - plain for ours, plain in zip(auto, off, strict=True))
    yield HostTime(f"… more than off, {label}", more)


def replies(path: Path) -> Iterator[HostTime]:
    """Host time of whole replies on a model, per proposer, greedy and at the default settings."""
    with Workbench(path) as bench:
        prompts = bench.prompts(4, 128)
        for label, sampling in (("greedy", GREEDY), ("default sampling", Sampling())):
            for name, proposer in bench.proposers().items():
                hosts = [_host_us(bench.reply(prompt, proposer, sampling=sampling)) for prompt in prompts]
                yield HostTime(f"{name}, {label}", median(hosts))
            yield from idle(bench, prompts, label, sampling)


def _host_us(reply: Finished) -> float:
    return (reply.host_seconds_per_pass or 0.0) * 1e6


def main(arguments: Sequence[str]) -> int:
    """Print the table, or with --json a list of rows."""
    options = bench_parser("host", __doc__).parse_args(arguments)
    rows = [
        HostTime("8 rows of 152k, deterministic draft", synthetic(8, 152_064, sampled=False)),
        HostTime("8 rows of 152k, sampled draft", synthetic(8, 152_064, sampled=True)),
        *replies(find_model(options.model)),
    ]
    return print_rows(rows, options.json)
