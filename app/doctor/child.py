"""The process that loads llama.cpp for the doctor, and may die of it. It answers one question.

The answer goes out as a frame on file descriptor 1, which native code cannot write to meanwhile.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from statistics import median

from app.doctor.facts import Installation, Refused, TrialAnswer
from app.errors import SpecchatError
from app.process.frames import write_frame

_PROMPT = "The harbour was quiet that morning, and the keeper of the light"
_TOKENS = 16
_CONTEXT = 128
# How many rewinds are made, how deep, and how many tokens each takes back.
_REWINDS, _DEPTH, _REJECTED = 7, 64, 4

# What heads read hidden states with. For C++ functions: how the compilers of Linux and macOS, and of Windows,
# write their parameters into the names that a library exports.
_C_FUNCTIONS = (
    "llama_get_embeddings",
    "llama_get_embeddings_ith",
    "llama_batch_ext_init",
    "llama_process",
    "llama_model_n_layer_nextn",
)
_CPP_FUNCTIONS = (
    ("llama_set_embeddings_layer_inp", "P13llama_contextjb", "YAXPEAUllama_context@@I_N@Z"),
    ("llama_get_embeddings_layer_inp", "P13llama_contextj", "YAPEAMPEAUllama_context@@I@Z"),
    ("llama_set_embeddings_nextn", "P13llama_contextbb", "YAXPEAUllama_context@@_N1@Z"),
    ("llama_get_embeddings_nextn_ith", "P13llama_contexti", "YAPEAMPEAUllama_context@@H@Z"),
    ("llama_model_target_layer_ids", "PK11llama_model", "YAPEBHPEBUllama_model@@@Z"),
)
HEAD_FUNCTIONS = {
    **{name: (name,) for name in _C_FUNCTIONS},
    **{name: (name, f"_Z{len(name)}{name}{one}", f"?{name}@@{other}") for name, one, other in _CPP_FUNCTIONS},
}
"""The names that a function may be exported by."""


def main() -> None:
    """TrialAnswer the arguments "installation NAME" or "answer PATH"; the name or path may be empty."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    question, name = sys.argv[1:]
    try:
        answer = installation(name or None) if question == "installation" else reply(name or None)
    # llama-cpp-python raises RuntimeError for a library that cannot be loaded.
    except (ImportError, OSError, RuntimeError, SpecchatError) as error:
        answer = Refused(str(error))
    write_frame(answers, answer)


def installation(name: str | None) -> Installation:
    """What is installed, and which file the chat opens for the name in the settings."""
    from app.llama.devices import build_facts, devices, ggml
    from app.llama.layouts import amx
    from app.llama.threads import candidate_threads
    from app.models.locate import find_model

    build = build_facts()
    model = problem = ""
    try:
        model = str(find_model(name))
    except SpecchatError as error:
        problem = str(error)
    missing = tuple(name for name, names in HEAD_FUNCTIONS.items() if not any(map(ggml, names)))
    return Installation(build, devices(), candidate_threads(), missing, model, problem, amx=amx().fault or "")


def reply(path: str | None) -> TrialAnswer | Refused:
    """Load that model, by default the bundled one, and decode a few tokens."""
    import numpy as np

    from app.engine.rewind_timing import STARTS, time_rejection
    from app.llama.context import Context
    from app.llama.fallback import remembered_fallback
    from app.llama.settings import ContextSettings, ModelSettings
    from app.models.estimate import snapshots_worth
    from app.models.gguf import read_header
    from app.models.locate import bundled_model, open_model
    from app.models.skip import content_digest

    file = Path(path) if path else bundled_model()
    if file is None:
        return Refused("not installed", absent=True)
    header = read_header(file)
    lives = remembered_fallback(content_digest(header), ModelSettings(), ContextSettings())
    settings = replace(lives.context, snapshots=snapshots_worth(header))
    started = time.perf_counter()
    with open_model(file, lives.model) as model, Context(model, _CONTEXT, settings) as context:
        loaded = time.perf_counter()
        row = context.forward(model.tokenise(_PROMPT))[-1]
        finite = bool(np.isfinite(row).all())
        decoding = time.perf_counter()
        for _ in range(_TOKENS):
            row = context.forward([int(row.argmax())])[-1]
            finite = finite and bool(np.isfinite(row).all())
        seconds = time.perf_counter() - decoding
        tokens = list(islice(cycle(model.tokenise(_PROMPT)), _CONTEXT))
        costs = [
            time_rejection(context, tokens, _DEPTH + number % STARTS, _REJECTED, _REJECTED).cost
            for number in range(_REWINDS)
        ]
        return TrialAnswer(
            file.name,
            loaded - started,
            _TOKENS,
            seconds,
            finite,
            memory=context.memory_kind,
            copy_bytes=context.state_bytes if context.copies else 0,
            rejected=_REJECTED,
            rewind_cost=median(costs),
        )
