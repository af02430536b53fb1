"""Plain decoding against llama.cpp's own: the engine's loop and a bare llama_decode loop in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from app.bench.workbench import bench_parser, finish, greedy_request, print_record
from app.engine.control import Controller
from app.engine.loop import Engine
from app.llama.context import Context
from app.llama.model import Model
from app.llama.raw_decode import raw_decode
from app.models.locate import find_model
from proposers.off import Off

_PROMPT = "The harbour was quiet that morning, and the keeper of the light"


@dataclass(frozen=True, slots=True)
class PlainSpeeds:
    """Tokens per second, medians; ratio: the median of engine over bare, pair by pair."""

    engine: float
    bare: float
    ratio: float
    host_us_per_pass: float
    pairs: int


def run(model: Model, pairs: int, tokens: int) -> PlainSpeeds:
    """Decode the same stretch with both, taking turns; greedy."""
    prompt = tuple(model.tokenise(_PROMPT))
    engine_rates, bare_rates, hosts = [], [], []
    with Context(model, 2048) as context:
        engine = Engine(context, (Off(),), Controller())
        for number in range(pairs + 1):
            finished = finish(engine.generate(greedy_request(prompt, tokens)))
            count = len(finished.token_ids)
            # From the same place on, and over the same number of tokens.
            context.rollback(len(prompt) - 1)
            bare = raw_decode(context, prompt[-1], count)
            if number > 0:  # the first pair warms up
                engine_rates.append(count / finished.decode_seconds)
                bare_rates.append(count / bare)
                hosts.append(finished.host_seconds_per_pass or 0.0)
    ratios = [ours / theirs for ours, theirs in zip(engine_rates, bare_rates, strict=True)]
    return PlainSpeeds(median(engine_rates), median(bare_rates), median(ratios), median(hosts) * 1e6, pairs)


def main(arguments: Sequence[str]) -> int:
    """Print the comparison, or with --json an object."""
    parser = bench_parser("plain", __doc__, tokens=128)
    parser.add_argument("--pairs", type=int, default=15, help="default: 15")
    options = parser.parse_args(arguments)
    with Model(find_model(options.model)) as model:
        result = run(model, options.pairs, options.tokens)
    return print_record(result, options.json)
