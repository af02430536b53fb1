"""`specchat bench NAME`: each benchmark is a module beside this one with a `main`."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from app.errors import UsageError

BENCHMARKS = {
    "plain": "plain decoding against llama.cpp's bare loop, in turn",
    "host": "time of a pass outside the models",
    "busy": "decoding beside other busy processes, and the same with llama.cpp's defaults",
    "lookup": "time of a lookup step as the history grows",
    "replay": "recorded replies over cost curves, without a model: auto, fixed lengths, the oracle",
    "record": "replies of a model to a file of prompts, for replay",
    "sweep": "fixed draft lengths against auto on a model, by category",
    "documents": "reading a document and answering: the default beside flash attention on and off",
    "rewind": "going back in a model's memory: after a rejected draft, to the last turn, from the beginning",
    "compare": "the proposers in turn on your prompt or the project's: speed, and whether the text stays",
    "acceptance": "the share of a draft that is accepted: this verification beside sample-and-compare",
    "tui": "the chat on a terminal: its speed beside specchat -p, first frame, keys, pastes",
    "picture": "README's picture of the chat",
    "device": "what this machine's GPU does: layers, memory, the same tokens, sampling, calibration",
    "identity": "greedy replies in exact mode are the same with every proposer",
}


def main(arguments: Sequence[str]) -> int:
    """Run the named benchmark; returns its exit code."""
    name = arguments[0] if arguments else ""
    if name in ("-h", "--help"):
        print("\n".join(f"specchat bench {known:<12}{about}" for known, about in BENCHMARKS.items()))
        return 0
    if name not in BENCHMARKS:
        raise UsageError(f"There is no benchmark {name!r}: choose one of {', '.join(BENCHMARKS)}.")
    code: int = importlib.import_module(f"app.bench.{name}").main(arguments[1:])
    return code
