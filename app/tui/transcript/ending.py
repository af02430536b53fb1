"""How an answer ended, if not by itself."""

from __future__ import annotations

from app.chat.conversation import Answer, End

# {} is the key that goes on with the answer.
_ENDINGS: dict[str, str] = {
    "length": "cut: it reached the length that was set, {} goes on",
    "stop_string": "ended at a stop string",
    "context": "cut: the context is full",
    "cancelled": "stopped by you",
    "crashed": "cut short, {} goes on",
}


def ending(end: End, go_on: str) -> str:
    """How an answer ended, as a person reads it; "" where it ended by itself, or has not.

    go_on: the key that goes on with an answer that was cut.
    """
    return _ENDINGS.get(end or "", "").format(go_on)


def cut_short(answer: Answer) -> bool:
    """Whether the end is news that the eye should meet."""
    return answer.end in ("length", "context", "crashed")
