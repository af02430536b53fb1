"""Whether a draft speaks the target's tokens, from the headers of the two files: no model is loaded.

The rule is llama.cpp's for speculative decoding: the same kind of vocabulary, the same use of BOS and EOS,
sizes within padding of each other, and the same text for each token from id 5 up. What llama.cpp makes of
a header (src/llama-vocab.cpp, `load`) is repeated here for what the rule asks about; a test compares both.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.errors import SpecchatError
from app.models.gguf import Header
from app.models.gguf_source import Array, Source, opened
from app.models.gguf_types import STRING

_TOKENS = "tokenizer.ggml.tokens"
# Real pairs differ by padding at the end (Qwen2.5: 151,936 and 152,064 tokens), and the first ids are control
# tokens that conversions name differently.
_SIZE_DIFFERENCE = 128
_FIRST_COMPARED = 5
_MOST_SHOWN = 60  # bytes of a token's text


@dataclass(frozen=True, slots=True)
class _Tokenizer:
    """A kind of vocabulary, and what goes for it where the header says nothing."""

    kind: str
    bos: int | None = None
    eos: int | None = None
    add_bos: bool = False
    add_eos: bool = False


_BYTE_PAIRS = _Tokenizer("BPE", bos=11, eos=11)
_TOKENIZERS = {
    "llama": _Tokenizer("SPM", bos=1, eos=2, add_bos=True),
    "bert": _Tokenizer("WPM", bos=101, add_bos=True),
    **dict.fromkeys(("gpt2", "hybriddna", "whitespace"), _BYTE_PAIRS),
    "gemma4": _Tokenizer("BPE"),
    "t5": _Tokenizer("UGM", eos=1, add_eos=True),
    "plamo2": _Tokenizer("PLaMo2", bos=1, eos=2),
}
# Values of tokenizer.ggml.pre that change this, byte pairs only.
_BEGINS_WITH_BOS = frozenset(
    [
        *("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"),
        *("jina-v5-nano", "tekken", "chameleon"),
    ]
)
_ALWAYS_BEGINS_WITH_BOS = frozenset(["gemma4", "granite-embed-multi-311m"])
_WITHOUT_BOS = frozenset(["chatglm-bpe", "glm4", "glm5"])


def pair_problem(target: Header, draft: Header) -> str | None:
    """Why `draft` is no draft for `target`, by tokens or size, as the second half of a sentence; None where
    it is one.

    Raises SpecchatError where a vocabulary cannot be read.
    """
    problem = _vocabulary_problem(target, draft)
    # The first part of a split target says less than its size.
    whole = target.metadata.get("split.count", 1) == 1
    if problem is None and whole and _weight(draft) >= _weight(target):
        problem = "it is not smaller than the target"
    return problem or _token_problem(target, draft)


def token_problem(target: Header, draft: Header) -> str | None:
    """Why `draft` does not speak the target's tokens, as the second half of a sentence; None where it does.

    Raises SpecchatError where a vocabulary cannot be read.
    """
    return _vocabulary_problem(target, draft) or _token_problem(target, draft)


def _weight(header: Header) -> int:
    return sum(tensor.size for tensor in header.tensors)


def _vocabulary_problem(target: Header, draft: Header) -> str | None:
    ours, theirs = _tokenizer(target), _tokenizer(draft)
    size, other = target.vocabulary_size or 0, draft.vocabulary_size or 0
    if ours.kind != theirs.kind:
        return "its tokenizer is of another kind"
    if ours.add_bos != theirs.add_bos or (ours.add_bos and ours.bos != theirs.bos):
        return "it begins a text with another token"
    if ours.add_eos != theirs.add_eos or (ours.add_eos and ours.eos != theirs.eos):
        return "it ends a text with another token"
    if abs(size - other) > _SIZE_DIFFERENCE:
        return f"its vocabulary has {other:,} tokens, the target's {size:,}"
    return None


def _tokenizer(header: Header) -> _Tokenizer:
    """What llama.cpp makes of the header."""
    model = header.text("tokenizer.ggml.model") or ""
    pre = "gemma4" if model == "gemma4" else header.text("tokenizer.ggml.pre") or ""
    known = _TOKENIZERS.get(model, _Tokenizer(model))
    pairs = known.kind == "BPE"
    add_bos = _flag(header, "bos", known.add_bos or (pairs and pre in _BEGINS_WITH_BOS))
    return _Tokenizer(
        known.kind,
        bos=_token(header, "bos", None if pairs and pre in _WITHOUT_BOS else known.bos),
        eos=_token(header, "eos", known.eos),
        add_bos=add_bos or (pairs and pre in _ALWAYS_BEGINS_WITH_BOS),
        add_eos=_flag(header, "eos", known.add_eos),
    )


def _flag(header: Header, which: str, otherwise: bool) -> bool:
    value = header.metadata.get(f"tokenizer.ggml.add_{which}_token")
    return value if isinstance(value, bool) else otherwise


def _token(header: Header, which: str, otherwise: int | None) -> int | None:
    """The id that the header gives, where the vocabulary has it."""
    size = header.vocabulary_size or 0
    for value in (header.metadata.get(f"tokenizer.ggml.{which}_token_id"), otherwise):
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < size:
            return value
    return None


def _token_problem(target: Header, draft: Header) -> str | None:
    ours, theirs = _texts(target), _texts(draft)
    # Each text has its length before it, so equal bytes are equal texts.
    shorter, longer = sorted((ours, theirs), key=len)
    if longer.startswith(shorter):
        return None
    pairs = zip(target.strings(_TOKENS), draft.strings(_TOKENS), strict=False)
    for token, (text, their) in enumerate(pairs):
        if token >= _FIRST_COMPARED and text != their:
            return f"token {token} is {_shown(their)} there and {_shown(text)} in the target"
    return None


def _texts(header: Header) -> bytes:
    """The texts of the tokens that are compared, each with its length, as they lie in the file."""
    tokens = header.metadata.get(_TOKENS)
    if not isinstance(tokens, Array) or tokens.kind != STRING:
        raise SpecchatError(f"{header.path.name} has no list of tokens; choose another file.")
    with opened(header.path) as (file, size):
        source = Source(file, size, header.path.name)
        source.seek(tokens.start)
        for _ in range(min(_FIRST_COMPARED, tokens.length)):
            source.take(source.number("<Q"))
        return source.take(tokens.start + tokens.size - source.position)


def _shown(text: bytes) -> str:
    return repr(text[:_MOST_SHOWN].decode(errors="replace"))
