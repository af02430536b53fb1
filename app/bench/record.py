"""Greedy replies of a model to a file of prompts, as token ids: what replay runs on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from app.assembly import Assembly, Setup
from app.bench.prompts import Prompt, load_prompts
from app.bench.recorded import RecordedReply
from app.bench.workbench import (
    bench_parser,
    chat_tokens,
    finish,
    greedy_request,
    open_assembly,
    with_progress,
)
from app.errors import SpecchatError


def record(assembly: Assembly, prompts: Sequence[Prompt], tokens: int) -> Iterator[RecordedReply]:
    """The plain reply to each prompt that leaves room for it. Those of a single token are left out."""
    engine = assembly.engine("off")
    for prompt in prompts:
        ids = chat_tokens(assembly.target, prompt.prompt)
        if len(ids) + tokens <= engine.target.capacity:
            reply = finish(engine.generate(greedy_request(ids, tokens))).token_ids
            if len(reply) > 1:
                yield RecordedReply(prompt.category, ids, reply)


def main(arguments: Sequence[str]) -> int:
    """Write the file."""
    parser = bench_parser("record", __doc__, tokens=192, json=False)
    parser.add_argument("prompts", type=Path, help="JSON Lines with id, category and prompt")
    parser.add_argument("output", type=Path, help="the .json to write")
    options = parser.parse_args(arguments)
    prompts = load_prompts(options.prompts)
    with open_assembly(Setup(model=options.model)) as assembly:
        replies = record(assembly, prompts, options.tokens)
        samples = [asdict(each) for each in with_progress(replies, len(prompts), "prompts")]
        about = f"Greedy replies of {assembly.name}, at most {options.tokens} tokens each."
    if not samples:
        raise SpecchatError("No prompt fits the context: give shorter prompts, or fewer --tokens.")
    try:
        options.output.write_text(json.dumps({"about": about, "samples": samples}), encoding="utf-8")
    except OSError as error:
        raise SpecchatError(f"{options.output} cannot be written: {error.strerror}.") from error
    print(f"Written: {options.output} ({len(samples)} replies)")
    return 0
