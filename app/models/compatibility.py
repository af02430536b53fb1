"""Whether a draft speaks the target's tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.llama.model import Model

# Real pairs differ by padding at the end (Qwen2.5: 151,936 and 152,064 tokens).
_SIZE_DIFFERENCE = 128
# The first ids are control tokens that conversions name differently.
_FIRST_COMPARED = 5


def draft_problem(target: Model, draft: Model) -> str | None:
    """Why `draft` cannot draft for `target`, as the second half of a sentence; None where it can.

    The rule is llama.cpp's: same kind of vocabulary, the same use of BOS and EOS, sizes within
    padding of each other, and the same text for each token from id 5 up.
    """
    ours, theirs = target.vocabulary, draft.vocabulary
    if ours.kind != theirs.kind:
        return "its tokenizer is of another kind"
    if ours.add_bos != theirs.add_bos or (ours.add_bos and ours.bos != theirs.bos):
        return "it begins a text with another token"
    if ours.add_eos != theirs.add_eos or (ours.add_eos and ours.eos != theirs.eos):
        return "it ends a text with another token"
    if abs(ours.size - theirs.size) > _SIZE_DIFFERENCE:
        return f"its vocabulary has {theirs.size:,} tokens, the target's {ours.size:,}"
    for token in range(_FIRST_COMPARED, min(ours.size, theirs.size)):
        if target.token_text(token) != draft.token_text(token):
            return (
                f"token {token} is {draft.token_text(token)!r} there and {target.token_text(token)!r} "
                "in the target"
            )
    return None
