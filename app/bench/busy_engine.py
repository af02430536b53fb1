"""The engine that `specchat bench busy` times, in a process of its own: OpenMP reads its environment once.

Each line of stdin names a proposer. It answers once with it, and writes a line: tokens and seconds.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable

from app.bench.workbench import chat_tokens, greedy_request, open_assembly
from app.config.values import LoadSettings
from app.engine.events import Event, Pass

# A long reply that repeats itself in part, so that lookup has something to guess.
_PROMPT = "Count from one to two hundred in words, each number in a sentence of its own."
# Seconds of a reply at most: llama.cpp's defaults may need some for a single token.
_PATIENCE = 10.0


def main() -> None:
    """Arguments: the model or "", the number of threads or 0 for what is measured, tokens of a reply."""
    # Native code may write to file descriptor 1.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    model, threads, tokens = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with open_assembly(LoadSettings(model or None, threads=threads or None)) as assembly:
        prompt = chat_tokens(assembly.target, _PROMPT)
        engine = assembly.engine("off", len(prompt) + tokens)
        engine.calibrate(prompt[-1:])
        for line in sys.stdin:
            engine.sequence.proposers = assembly.proposers.choose(line.strip())
            answer = _timed(engine.generate(greedy_request(prompt, tokens)))
            print(json.dumps(answer), file=answers, flush=True)


def _timed(reply: Iterable[Event]) -> tuple[int, float]:
    """Tokens and seconds of the passes of a reply."""
    tokens, seconds = 0, 0.0
    for event in reply:
        if isinstance(event, Pass):
            tokens += event.committed
            seconds += event.seconds
        if seconds > _PATIENCE:
            break
    return tokens, seconds
