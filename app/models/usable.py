"""Says why a GGUF file cannot be used: it is no chat model, or llama.cpp would end the process over it.

llama.cpp refuses most faulty files with an error, but asserts some facts of the header (llama-model.cpp,
`load_hparams`; llama-vocab.cpp, `load` and `byte_to_token`): a file that breaks one of them would take
the program with it. What only a pass over the weights can show is not found here.
"""

from __future__ import annotations

import math
import re

from app.models.gguf import Header
from app.models.gguf_source import Array
from app.models.gguf_types import STRING

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
    **dict.fromkeys(("bert", "modern-bert", "nomic-bert", "nomic-bert-moe", "neo-bert"), _EMBEDDING),
    **dict.fromkeys(("jina-bert-v2", "jina-bert-v3", "eurobert"), _EMBEDDING),
    **dict.fromkeys(("gemma-embedding", "llama-embed"), _EMBEDDING),
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
# A file of a split model: which part, of how many.
PART = re.compile(r"-(\d{5})-of-(\d{5})(?=\.gguf$)", re.IGNORECASE)

SKIPPED_LAYERS = "specchat.skipped_layers"
"""The key that marks a copy without some of its layers, written by `app.models.skip`."""

_TOKENS = "tokenizer.ggml.tokens"
_MAX_LAYERS = 512
_MAX_EXPERTS = 1024
_ROPE_SCALINGS = ("none", "linear", "yarn", "longrope")
_EPSILONS = ("layer_norm_epsilon", "layer_norm_rms_epsilon", "group_norm_epsilon")
# A tensor in memory has to begin at a multiple of this.
_ALIGNMENT = 32
# Tokenizers that write byte by byte what their vocabulary lacks.
_BYTE_TOKENIZERS = ("llama", "plamo2")
# Twice what any model has (262,208 tokens, 4 MB), so that a hostile file costs little time and memory.
_MAX_TOKENS = 1 << 19
_MAX_TOKEN_BYTES = 8 << 20


def file_problem(header: Header) -> str | None:
    """A sentence that says why this file is not used and what to do; None for a model that can chat.

    Raises SpecchatError where the file cannot be read any more.
    """
    return chat_problem(header) or load_problem(header)


def chat_problem(header: Header) -> str | None:
    """A sentence that says why the file is not a chat model and what to choose; None for a chat model.

    The header is believed first, then the file's name.
    """
    name = header.path.name
    what = _by_header(header) or kind_by_name(name)
    if what is not None:
        return f"{name} is {what}"
    part, parts = _part(header, name)
    if part > 1:
        first = PART.sub(lambda match: f"-00001-of-{match[2]}", name)
        which = "" if first == name else f", {first}"
        return f"{name} is part {part} of {parts} of a split model; choose part 1{which}."
    if header.architecture is None:
        return f"{name} does not say what architecture it has; choose another file."
    if header.vocabulary_size is None:
        return f"{name} has no tokenizer; choose another file."
    if not header.tensors and parts < 2:
        return f"{name} holds a vocabulary only, no weights; choose the whole model."
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
    match = PART.search(name)
    return (int(match[1]), int(match[2])) if match else (1, 1)


def load_problem(header: Header) -> str | None:
    """A sentence that says what is wrong with the file; None where llama.cpp can be given it."""
    fault = _layers(header) or _experts(header) or _numbers(header) or _vocabulary(header)
    return f"{header.path.name} is damaged: {fault}; download it again." if fault else None


def _layers(header: Header) -> str | None:
    layers = _whole(header, "block_count")
    heads = _whole(header, "nextn_predict_layers") or 0
    if layers is not None and not 0 < layers <= _MAX_LAYERS:
        return f"it claims {layers:,} layers"
    if layers is not None and heads > layers:
        return f"it claims {heads:,} prediction layers of {layers:,}"
    return None


def _experts(header: Header) -> str | None:
    experts = _whole(header, "expert_count") or 0
    used = _whole(header, "expert_used_count")
    groups = _whole(header, "expert_group_count") or 0
    if experts > _MAX_EXPERTS:
        return f"it claims {experts:,} experts"
    if experts == 1 and (header.architecture or "").startswith("hunyuan"):
        return None  # counts as dense
    if experts and header.value("expert_used_count") is None:
        return f"it does not say how many of its {experts:,} experts are used"
    if used is not None and (used > experts or (used == 0 < experts)):
        return f"it claims to use {used:,} of {experts:,} experts"
    if groups and groups >= experts:
        return f"it claims {groups:,} groups of {experts:,} experts"
    taken = _whole(header, "expert_group_used_count") or 0
    if groups > 1 and (experts % groups or not 0 < taken < groups):
        return f"it claims to use {taken:,} of {groups:,} groups of {experts:,} experts"
    return None


def _numbers(header: Header) -> str | None:
    for name in _EPSILONS:
        epsilon = header.value(f"attention.{name}")
        if isinstance(epsilon, float) and not 0 <= epsilon < math.inf:
            return f"its {name} is {epsilon}"
    scaling = header.value("rope.scaling.type")
    if isinstance(scaling, str) and scaling not in _ROPE_SCALINGS:
        return f"its rope.scaling.type is {scaling[:32]!r}"
    if header.alignment % _ALIGNMENT:
        return f"its tensors are aligned to {header.alignment} bytes instead of {_ALIGNMENT}"
    return None


def _vocabulary(header: Header) -> str | None:
    if _TOKENS not in header.metadata:
        return None
    tokens = header.metadata[_TOKENS]
    if not isinstance(tokens, Array) or tokens.kind != STRING:
        return "its vocabulary is not a list of texts"
    if tokens.length > _MAX_TOKENS or tokens.size > _MAX_TOKEN_BYTES:
        return f"it claims {tokens.length:,} tokens of {tokens.size / 1e6:,.1f} MB"
    if _has_twice(header):
        return "its vocabulary holds a token twice"
    if header.text("tokenizer.ggml.model") in _BYTE_TOKENIZERS:
        spellings = [{b"<0x%02X>" % byte} | ({b"%c" % byte} if byte < 128 else set()) for byte in range(256)]
        wanted = set().union(*spellings)
        known = {token for token in header.strings(_TOKENS) if token in wanted}
        for byte, spelling in enumerate(spellings):
            if not spelling & known:
                return f"its vocabulary has no token for the byte {byte}"
    return None


def _has_twice(header: Header) -> bool:
    """Whether two tokens have one text. llama.cpp gives each empty token a name of its own."""
    # Hashes take half the memory of the tokens; where two agree, the tokens themselves are compared.
    hashes: set[int] = set()
    alike: set[int] = set()
    for token in header.strings(_TOKENS):
        (alike if hash(token) in hashes and token else hashes).add(hash(token))
    seen: set[bytes] = set()
    for token in header.strings(_TOKENS) if alike else ():
        if hash(token) in alike and token in seen:
            return True
        if hash(token) in alike:
            seen.add(token)
    return False


def _whole(header: Header, key: str) -> int | None:
    """The whole number at a key of the architecture; None where there is none."""
    value = header.value(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
