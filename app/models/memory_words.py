"""Words for a model's memory: its kind, and how a loaded model takes tokens back.

There are none for plain attention, where tokens can be cut off anywhere.
"""

from __future__ import annotations

_KINDS = {
    "recurrent": "one state holds all the tokens so far",
    "hybrid": "some layers keep one state, the others keys and values of each token",
    "sliding window": "some layers see the last tokens only",
}
# By the names that app/llama/memory.py gives the ways back.
_WAYS = {
    "sliding window": "Rejected tokens are cut off, and nothing is read again. Where the window does not "
    "reach back far enough, the memory returns to an earlier copy and reads what followed again.",
    "snapshots": "After a rejected draft a snapshot of the state is restored, and nothing is read again. "
    "Further back, the memory returns to an earlier copy and reads what followed again.",
    "copied state": "After a rejected draft an earlier copy of the state is restored, and the tokens "
    "accepted since are read again in the next pass.",
}


def kind_in_words(kind: str) -> str:
    """A kind of `memory_kind`, or of a person's own catalogue, with what it means."""
    return f"{kind}: {_KINDS.get(kind, 'not plain attention to all that went before')}"


def way_back(kind: str) -> str:
    """What a rejected draft costs with this kind of memory, as sentences; "" for attention."""
    return _WAYS.get(kind, "")


def said_of_memory(kind: str, copy_bytes: int) -> str:
    """The kind, and the size of a copy where there are copies."""
    size = f"{copy_bytes / 1e6:,.1f} MB" if copy_bytes >= 1e6 else f"{copy_bytes / 1e3:.0f} KB"
    return f"{kind}, {size} a copy" if copy_bytes else kind
