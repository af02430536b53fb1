"""The process that loads llama.cpp for the doctor, and may die of it: one question, one answer.

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

from app.doctor.facts import AnswerFacts, BuildFacts, DeviceFacts, Refused
from app.errors import SpecchatError
from app.process.frames import write_frame

_PROMPT = "The harbour was quiet that morning, and the keeper of the light"
_TOKENS = 16
_CONTEXT = 128
# Rewinds that are made, how deep, and how many tokens each takes back.
_REWINDS, _DEPTH, _REJECTED = 7, 64, 4

# Each under the names that C and the C++ compilers of Linux and macOS, and of Windows, export it by.
HEAD_FUNCTIONS = (
    ("llama_get_embeddings",),
    ("llama_get_embeddings_ith",),
    ("llama_batch_ext_init",),
    ("llama_process",),
    ("llama_model_n_layer_nextn",),
    (
        "llama_set_embeddings_layer_inp",
        "_Z30llama_set_embeddings_layer_inpP13llama_contextjb",
        "?llama_set_embeddings_layer_inp@@YAXPEAUllama_context@@I_N@Z",
    ),
    (
        "llama_get_embeddings_layer_inp",
        "_Z30llama_get_embeddings_layer_inpP13llama_contextj",
        "?llama_get_embeddings_layer_inp@@YAPEAMPEAUllama_context@@I@Z",
    ),
    (
        "llama_set_embeddings_nextn",
        "_Z26llama_set_embeddings_nextnP13llama_contextbb",
        "?llama_set_embeddings_nextn@@YAXPEAUllama_context@@_N1@Z",
    ),
    (
        "llama_get_embeddings_nextn_ith",
        "_Z30llama_get_embeddings_nextn_ithP13llama_contexti",
        "?llama_get_embeddings_nextn_ith@@YAPEAMPEAUllama_context@@H@Z",
    ),
    (
        "llama_model_target_layer_ids",
        "_Z28llama_model_target_layer_idsPK11llama_model",
        "?llama_model_target_layer_ids@@YAPEBHPEBUllama_model@@@Z",
    ),
)


def main() -> None:
    """Answer the arguments "build NAME" or "answer PATH"; the name or path may be empty."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    question, name = sys.argv[1:]
    try:
        answer = build(name or None) if question == "build" else reply(name or None)
    # llama-cpp-python raises RuntimeError for a library that cannot be loaded.
    except (ImportError, OSError, RuntimeError, SpecchatError) as error:
        answer = Refused(str(error))
    write_frame(answers, answer)


def build(name: str | None) -> BuildFacts:
    """What is installed, and which file the chat opens for the name in the settings."""
    from app.llama.devices import build_facts, devices, ggml
    from app.llama.layouts import amx
    from app.llama.threads import candidate_threads
    from app.models.locate import find_model

    facts = build_facts()
    model = problem = ""
    try:
        model = str(find_model(name))
    except SpecchatError as error:
        problem = str(error)
    return BuildFacts(
        version=facts.version,
        backends=facts.backends,
        gpu_offload=facts.gpu_offload,
        cpu_features=facts.cpu_features,
        devices=tuple(
            DeviceFacts(each.name, each.description, each.kind, each.free, each.total) for each in devices()
        ),
        threads=candidate_threads(),
        missing=tuple(names[0] for names in HEAD_FUNCTIONS if not any(map(ggml, names))),
        model=model,
        problem=problem,
        amx=amx().fault or "",
    )


def reply(path: str | None) -> AnswerFacts | Refused:
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
        return AnswerFacts(
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
