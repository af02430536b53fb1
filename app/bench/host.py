"""What a pass costs outside the models: verification on synthetic rows, and whole replies."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np

from app.arguments import Parser
from app.bench.workbench import LENGTH, Workbench
from app.engine.control import Controller
from app.engine.costs import WIDTHS, PassCosts
from app.engine.sampling import Sampler
from app.engine.settings import Sampling
from app.engine.verify import block_rule, match_chain, verify_sampled
from app.llama.settings import ContextSettings
from app.models.locate import find_model
from proposers.lookup import Lookup
from proposers.off import Off

SETTINGS = Sampling(temperature=0.8, top_k=40, top_p=0.95, min_p=0.0)
REPEATS = 300
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Row:
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
    """A controller that knows every pass to cost a plain one for each position, so that it drafts nothing."""
    seconds = {width: float(width) for width in (1, *WIDTHS)}
    return Controller([PassCosts(depth, seconds) for depth in range(0, LENGTH, 100)])


def idle(bench: Workbench, prompts: Sequence[tuple[int, ...]], label: str, sampling: Sampling) -> list[Row]:
    """What choosing takes where it comes to nothing: replies of off and lookup in turn."""
    off, auto = [], []
    for prompt in [*prompts] * ROUNDS:
        off.append(bench.reply(prompt, Off(), sampling=sampling).host_seconds_per_pass or 0.0)
        reply = bench.reply(prompt, Lookup(), sampling=sampling, controller=nothing_pays())
        assert reply.drafted == 0
        auto.append(reply.host_seconds_per_pass or 0.0)
    more = [ours - plain for ours, plain in zip(auto, off, strict=True)]
    return [
        Row(f"auto that drafts nothing, {label}", median(auto) * 1e6),
        Row(f"  more than off, {label}", median(more) * 1e6),
    ]


def replies(path: Path, seed: int = 0) -> list[Row]:
    """Host time of whole replies on a model, per proposer, greedy and at the default settings."""
    rows = []
    with Workbench(path, ContextSettings()) as bench:
        prompts = bench.prompts(4, 128)
        for label, sampling in (("greedy", Sampling(temperature=0.0)), ("default sampling", Sampling())):
            for name, proposer in bench.proposers().items():
                hosts = [
                    bench.reply(prompt, proposer, sampling=sampling).host_seconds_per_pass or 0.0
                    for prompt in prompts
                ]
                rows.append(Row(f"{name}, {label}", median(hosts) * 1e6))
            rows += idle(bench, prompts, label, sampling)
    return rows


def main(arguments: Sequence[str]) -> int:
    """Print the table, or with --json a list of rows."""
    parser = Parser(prog="specchat bench host", description=__doc__)
    parser.add_argument("--model", help="a .gguf (default: the bundled model)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    rows = [
        Row("8 rows of 152k, deterministic draft", synthetic(8, 152_064, sampled=False)),
        Row("8 rows of 152k, sampled draft", synthetic(8, 152_064, sampled=True)),
        *replies(find_model(options.model)),
    ]
    if options.json:
        print(json.dumps([asdict(row) for row in rows]))
        return 0
    print(f"{'pass':<40}{'host µs':>9}")
    for row in rows:
        print(f"{row.what:<40}{row.host_us:>9.0f}")
    return 0
