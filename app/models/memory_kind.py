"""The kind of a model's memory, by its header."""

from __future__ import annotations

from app.models.estimate import has_window, keeps_rows, state_bytes
from app.models.gguf import Header


def memory_kind(header: Header) -> str | None:
    """recurrent, hybrid (recurrent layers beside attention) or sliding window; None for plain attention.

    The catalogue uses the same words."""
    if state_bytes(header):
        return "hybrid" if keeps_rows(header) else "recurrent"
    known = "attention.sliding_window_pattern", "attention.key_length_swa"
    windowed = any(f"{header.architecture}.{key}" in header.metadata for key in known) or has_window(header)
    return "sliding window" if windowed and header.count("attention.sliding_window") else None
