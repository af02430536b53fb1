"""Plain decoding against llama.cpp's own: the engine's loop and a bare llama_decode loop in turn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median

from app.arguments import Parser
from app.engine.control import Controller
from app.engine.events import Finished, Request
from app.engine.loop import Engine
from app.engine.settings import Sampling
from app.llama.context import Context
from app.llama.model import Model
from app.llama.raw_decode import raw_decode
from app.models.locate import find_model
from proposers.off import Off


@dataclass(frozen=True, slots=True)
class Comparison:
    """Tokens per second, medians; ratio: the median of engine over bare, pair by pair."""

    engine: float
    bare: float
    ratio: float
    host_us_per_pass: float
    pairs: int


def run(model: Model, pairs: int, tokens: int) -> Comparison:
    """Decode the same stretch with both, taking turns; greedy."""
    prompt = tuple(model.tokenise("The harbour was quiet that morning, and the keeper of the light"))
    engine_rates, bare_rates, hosts = [], [], []
    with Context(model, 2048) as context:
        engine = Engine(context, (Off(),), Controller())
        for seed in range(pairs + 1):
            request = Request(prompt, Sampling(temperature=0.0), seed, max_tokens=tokens)
            *_, finished = engine.generate(request)
            assert isinstance(finished, Finished)
            # From the same place on, and over the same number of tokens.
            context.rollback(len(prompt) - 1)
            bare = raw_decode(context, prompt[-1], len(finished.token_ids))
            if seed > 0:  # the first pair warms up
                engine_rates.append(len(finished.token_ids) / finished.decode_seconds)
                bare_rates.append(len(finished.token_ids) / bare)
                hosts.append(finished.host_seconds_per_pass or 0.0)
    ratios = [ours / theirs for ours, theirs in zip(engine_rates, bare_rates, strict=True)]
    return Comparison(median(engine_rates), median(bare_rates), median(ratios), median(hosts) * 1e6, pairs)


def main(arguments: Sequence[str]) -> int:
    """Print the comparison, or with --json an object."""
    parser = Parser(prog="specchat bench plain", description=__doc__)
    parser.add_argument("--model", help="a .gguf (default: the bundled model)")
    parser.add_argument("--pairs", type=int, default=15, help="default: 15")
    parser.add_argument("--tokens", type=int, default=128, help="tokens of each run (default: 128)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    with Model(find_model(options.model)) as model:
        result = run(model, options.pairs, options.tokens)
    if options.json:
        print(json.dumps(asdict(result)))
    else:
        print(f"engine {result.engine:8.1f} tok/s (median of {result.pairs} runs, in turn with the other)")
        print(f"bare   {result.bare:8.1f} tok/s (llama_decode and an argmax, nothing else)")
        print(f"ratio  {result.ratio:8.3f}       (median of the pairs)")
        print(f"host   {result.host_us_per_pass:8.0f} µs a pass outside llama.cpp")
    return 0
