"""What llama.cpp would end the process over, found in the header before the file is given to it.

llama.cpp refuses most faulty files with an error, but asserts some facts of the header (llama-model.cpp,
`load_hparams`; llama-vocab.cpp, `load` and `byte_to_token`): a file that breaks one of them would take
the program with it. What only a pass over the weights can show is not found here.
"""

from __future__ import annotations

import math

from app.models.gguf import Array, Header
from app.models.gguf_types import STRING

_TOKENS = "tokenizer.ggml.tokens"
_MAX_LAYERS = 512
_MAX_EXPERTS = 1024
_ROPE_SCALINGS = ("none", "linear", "yarn", "longrope")
_EPSILONS = ("layer_norm_epsilon", "layer_norm_rms_epsilon", "group_norm_epsilon")
# A tensor in memory has to begin at a multiple of this.
_ALIGNMENT = 32
# Tokenizers that write what is not in their vocabulary byte by byte.
_BYTE_TOKENIZERS = ("llama", "plamo2")
# Twice what any model has (262,208 tokens of 4 MB), so that a hostile file costs little time and memory.
_MAX_TOKENS = 1 << 19
_MAX_TOKEN_BYTES = 8 << 20


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
    if experts and f"{header.architecture}.expert_used_count" not in header.metadata:
        return f"it does not say how many of its {experts:,} experts are used"
    if used is not None and (used > experts or (used == 0 < experts)):
        return f"it claims to use {used:,} of {experts:,} experts"
    if groups and groups >= experts:
        return f"it claims {groups:,} groups of {experts:,} experts"
    if groups > 1:
        taken = _whole(header, "expert_group_used_count") or 0
        if experts % groups or not 0 < taken < groups:
            return f"it claims to use {taken:,} of {groups:,} groups of {experts:,} experts"
    return None


def _numbers(header: Header) -> str | None:
    for name in _EPSILONS:
        epsilon = header.metadata.get(f"{header.architecture}.attention.{name}")
        if isinstance(epsilon, float) and not 0 <= epsilon < math.inf:
            return f"its {name} is {epsilon}"
    scaling = header.text(f"{header.architecture}.rope.scaling.type")
    if scaling is not None and scaling not in _ROPE_SCALINGS:
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
    # Numbers take half the memory of the tokens; where two agree, the tokens themselves are compared.
    numbers: set[int] = set()
    alike: set[int] = set()
    for token in header.strings(_TOKENS):
        number = hash(token)
        (alike if number in numbers and token else numbers).add(number)
    if not alike:
        return False
    seen: set[bytes] = set()
    for token in header.strings(_TOKENS):
        if hash(token) in alike:
            if token in seen:
                return True
            seen.add(token)
    return False


def _whole(header: Header, key: str) -> int | None:
    """The whole number at a key of the architecture; None where there is none."""
    value = header.metadata.get(f"{header.architecture}.{key}")
    return value if isinstance(value, int) and not isinstance(value, bool) else None
