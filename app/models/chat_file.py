"""Says why a GGUF file is not a chat model, so that no list offers what cannot answer."""

from __future__ import annotations

import re
from pathlib import Path

from app.models.gguf import Header

# general.type, where it is not "model" (gguf-py's GGUFType).
_TYPES = {
    "adapter": "an adapter (LoRA) for another model; choose the model that it was made for.",
    "imatrix": "an importance matrix, which is used to quantise a model; choose the model itself.",
    "mmproj": "a projector for images or sound; choose the model that it belongs to.",
}
_EMBEDDING = "an embedding model, which turns text into vectors and writes none; choose a chat model."
_HEAD = "head that drafts for another model; choose the model that it was made for."
_SPEECH = "a speech model; choose a chat model."
_DIFFUSION = "a diffusion model, which does not write token by token; choose a chat model."
_ENCODER = "a model with an encoder, which is not supported; choose a chat model."

# general.architecture (llama.cpp's src/llama-arch.cpp).
_ARCHITECTURES = {
    "clip": _TYPES["mmproj"],
    "controlvector": "a control vector for another model; choose the model that it was made for.",
    "eagle3": f"an EAGLE-3 {_HEAD}",
    "dflash": f"a DFlash {_HEAD}",
    "dspark": f"a DSpark {_HEAD}",
    "gemma4-assistant": f"an MTP {_HEAD}",
    **dict.fromkeys(
        (
            "bert",
            "modern-bert",
            "nomic-bert",
            "nomic-bert-moe",
            "neo-bert",
            "jina-bert-v2",
            "jina-bert-v3",
            "eurobert",
            "gemma-embedding",
            "llama-embed",
        ),
        _EMBEDDING,
    ),
    **dict.fromkeys(("wavtokenizer-dec", "qwen3tts", "pockettts"), _SPEECH),
    **dict.fromkeys(("dream", "llada", "llada-moe", "rnd1"), _DIFFUSION),
    **dict.fromkeys(("t5", "t5encoder"), _ENCODER),
}

# Beginnings of file names that publishers use. A header does not always tell.
_NAMES = {
    "mmproj": _TYPES["mmproj"],
    "imatrix": _TYPES["imatrix"],
    "mtp-": f"an MTP {_HEAD}",
    "eagle3-": _ARCHITECTURES["eagle3"],
    "dflash-": _ARCHITECTURES["dflash"],
    "dspark-": _ARCHITECTURES["dspark"],
}
_PART = re.compile(r"-(\d{5})-of-(\d{5})(?=\.gguf$)", re.IGNORECASE)

SKIPPED_LAYERS = "specchat.skipped_layers"
"""The key that marks a copy without some of its layers, written by `app.models.skip`."""


def chat_problem(header: Header, path: Path) -> str | None:
    """A sentence that says why the file is not a chat model and what to choose; None for a chat model.

    The header is believed first, then the file's name.
    """
    what = _by_header(header) or kind_by_name(path.name)
    if what is not None:
        return f"{path.name} is {what}"
    part, parts = _part(header, path.name)
    if part > 1:
        first = _PART.sub(lambda match: f"-00001-of-{match[2]}", path.name)
        if first == path.name:
            return f"{path.name} is part {part} of {parts} of a split model; choose part 1."
        return f"{path.name} is part {part} of {parts} of a split model; choose part 1, {first}."
    if header.architecture is None:
        return f"{path.name} does not say what architecture it has; choose another file."
    if header.vocabulary_size is None:
        return f"{path.name} has no tokenizer; choose another file."
    if not header.tensors and parts < 2:
        return f"{path.name} holds a vocabulary only, no weights; choose the whole model."
    return None


def _by_header(header: Header) -> str | None:
    kind, architecture = header.text("general.type"), header.architecture
    if kind in _TYPES:
        return _TYPES[kind]
    if architecture in _ARCHITECTURES:
        return _ARCHITECTURES[architecture]
    if SKIPPED_LAYERS in header.metadata:
        return "a copy without some of its layers, made for drafting; choose the whole model."
    # Pooling over tokens (1 to 4) is what embedding models and rerankers do; 0 is none.
    if header.count("pooling_type") is not None:
        return _EMBEDDING
    # llama.cpp tells a file with an MTP head alone by its missing first block.
    whole = _part(header, "")[1] == 1 and bool(header.tensors)
    if whole and header.count("nextn_predict_layers") is not None:
        first_block = any(tensor.name.startswith("blk.0.") for tensor in header.tensors)
        return None if first_block else _NAMES["mtp-"]
    return None


def kind_by_name(name: str) -> str | None:
    """What a file is by its name, where that is no chat model: a head, a projector, a matrix; else None."""
    lowered = name.lower()
    return next((what for start, what in _NAMES.items() if lowered.startswith(start)), None)


def _part(header: Header, name: str) -> tuple[int, int]:
    """Which part of how many, counted from 1. `split.no` in the header counts from 0."""
    number, count = header.metadata.get("split.no"), header.metadata.get("split.count")
    if isinstance(number, int) and isinstance(count, int) and count > 1:
        return number + 1, count
    match = _PART.search(name)
    return (int(match[1]), int(match[2])) if match else (1, 1)
