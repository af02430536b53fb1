"""Greedy replies of a model to a file of prompts, as token ids: what replay runs on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from app.arguments import Parser, whole
from app.assembly.assembly import Assembly
from app.assembly.template import template_for
from app.bench.progress import with_progress
from app.bench.prompts import Prompt, load_prompts
from app.bench.replay import Trajectory
from app.chat.message import Message
from app.chat.prompt import encode
from app.config.values import LoadSettings
from app.engine.events import Finished, Request
from app.engine.settings import Sampling
from app.errors import SpecchatError


def record(assembly: Assembly, prompts: Sequence[Prompt], tokens: int) -> Iterator[Trajectory]:
    """The plain greedy reply to each prompt that leaves room for it; one of a single token tells nothing."""
    engine = assembly.engine("off")
    template = template_for(assembly.target)
    for prompt in prompts:
        ids = encode([Message("user", prompt.prompt)], template, assembly.target)
        if len(ids) + tokens > engine.target.capacity:
            continue
        request = Request(tuple(ids), Sampling(temperature=0.0), seed=0, max_tokens=tokens)
        *_, finished = engine.generate(request)
        assert isinstance(finished, Finished)
        if len(finished.token_ids) > 1:
            yield Trajectory(prompt.category, tuple(ids), finished.token_ids)


def main(arguments: Sequence[str]) -> int:
    """Write the file, with a line that says how far it is and how long it will take."""
    parser = Parser(prog="specchat bench record", description=__doc__)
    parser.add_argument("prompts", type=Path, help="JSON Lines with id, category and prompt")
    parser.add_argument("output", type=Path, help="the .json to write")
    parser.add_argument("--model", help="a .gguf (default: the bundled model)")
    parser.add_argument("--tokens", type=whole(2), default=192, help="of each reply (default: 192)")
    options = parser.parse_args(arguments)
    prompts = load_prompts(options.prompts)
    samples = []
    with Assembly(LoadSettings(name=options.model), stop=lambda: False) as assembly:
        replies = record(assembly, prompts, options.tokens)
        for each in with_progress(replies, len(prompts), "prompts"):
            samples.append({"category": each.category, "prompt": each.prompt, "reply": each.reply})
        about = f"Greedy replies of {assembly.name}, at most {options.tokens} tokens each."
    if not samples:
        raise SpecchatError("No prompt fits the context: give shorter prompts, or fewer --tokens.")
    try:
        options.output.write_text(json.dumps({"about": about, "samples": samples}), encoding="utf-8")
    except OSError as error:
        raise SpecchatError(f"{options.output} cannot be written: {error.strerror}.") from error
    print(f"Written: {options.output} ({len(samples)} replies)")
    return 0
