"""The engine that `specchat bench busy` times: a process of its own, since OpenMP reads its environment once.

For each proposer's name on a line of stdin it answers once, and writes a line: tokens and seconds.
"""

from __future__ import annotations

import json
import os
import sys

from app.assembly import Assembly, Setup, template_for
from app.chat.message import Message
from app.chat.prompt import encode
from app.engine.events import Pass, Request
from app.engine.loop import Engine
from app.engine.settings import Sampling
from app.llama.settings import ContextSettings

# Long, and partly a repetition, so that lookup has something to guess.
_PROMPT = "Count from one to two hundred in words, each number in a sentence of its own."
# Seconds of a reply at most: llama.cpp's defaults may need some for a single token.
_PATIENCE = 10.0


def main() -> None:
    """Arguments: the model or "", the number of threads or 0 for what is measured, tokens of a reply."""
    # Native code may write to file descriptor 1.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    model, threads, tokens = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    setup = Setup(model=model or None, context_settings=ContextSettings(threads=threads or None))
    with Assembly(setup, stop=lambda: False) as assembly:
        prompt = tuple(encode([Message("user", _PROMPT)], template_for(assembly.target), assembly.target))
        engine = assembly.engine("off", len(prompt) + tokens)
        engine.calibrate(prompt[-1:])
        request = Request(prompt, Sampling(temperature=0.0), seed=0, max_tokens=tokens)
        for line in sys.stdin:
            engine.sequence.proposers = assembly.proposers(line.strip(), engine.target.capacity)
            print(json.dumps(_answered(engine, request)), file=answers, flush=True)


def _answered(engine: Engine, request: Request) -> tuple[int, float]:
    """Tokens and seconds of the passes of a reply."""
    tokens, seconds = 0, 0.0
    for event in engine.generate(request):
        if isinstance(event, Pass):
            tokens += event.committed
            seconds += event.seconds
        if seconds > _PATIENCE:
            break
    return tokens, seconds
