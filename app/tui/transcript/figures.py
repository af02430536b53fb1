"""The line under an answer: how fast it was, what speculation gave, and how it ended if not by itself."""

from __future__ import annotations

from app.chat.conversation import Answer, End, Figures
from app.chat.gate import clean

UNKNOWN = "–"

# {} is the key that goes on with the answer.
_ENDINGS: dict[str, str] = {
    "length": "cut: it reached the length that was set, {} goes on",
    "stop_string": "ended at a stop string",
    "context": "cut: the context is full",
    "cancelled": "stopped by you",
    "crashed": "cut short, {} goes on",
}


def figure_items(figures: Figures) -> list[str]:
    """The figures in the order of the line. Without speculation there is nothing to accept."""
    entries = [
        clean(figures.proposer),
        f"{figures.tokens:,} token{'' if figures.tokens == 1 else 's'}",
        f"{_number(figures.tokens_per_second, '{:,.1f}')} tok/s",
    ]
    if figures.proposer != "off":
        percent = None if figures.acceptance_rate is None else figures.acceptance_rate * 100
        entries += [
            f"{_number(figures.speedup, '{:.2f}×')} plain",
            f"acceptance {_number(percent, '{:.0f} %')}",
            f"{_number(figures.tokens_per_pass, '{:.2f}')} tokens/pass",
        ]
    return [*entries, f"seed {figures.seed}"]


def ending(end: End, go_on: str) -> str:
    """How an answer ended, as a person reads it; "" where it ended by itself, or has not.

    go_on: the key that goes on with an answer that was cut.
    """
    return _ENDINGS.get(end or "", "").format(go_on)


def cut_short(answer: Answer) -> bool:
    """Whether the end is news that the eye should meet."""
    return answer.end in ("length", "context", "crashed")


def _number(value: float | None, form: str) -> str:
    return UNKNOWN if value is None else form.format(value)
