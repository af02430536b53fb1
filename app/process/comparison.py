"""Where replies to one prompt part, and how near the target's choice was there."""

from __future__ import annotations

from collections.abc import Sequence

from app.engine.events import Finished
from app.engine.loop import Engine
from app.llama.context import Cancelled
from app.llama.model import Model
from app.process.messages import Divergence


class Comparison:
    """Compares each reply with the first one that was finished."""

    def __init__(self, engine: Engine, target: Model, prompt: Sequence[int]) -> None:
        self._engine = engine
        self._target = target
        self._prompt = tuple(prompt)
        self._first: tuple[int, ...] | None = None

    def divergence(self, finished: Finished) -> Divergence | None:
        """None where the ids are the first reply's. Costs one pass of the target where they are not."""
        if self._first is None:
            self._first = finished.token_ids
        first, this = self._first, finished.token_ids
        if first == this:
            return None
        position = next(
            (index for index, pair in enumerate(zip(first, this, strict=False)) if pair[0] != pair[1]),
            min(len(first), len(this)),
        )
        if position == min(len(first), len(this)):
            return Divergence(position, self._text(first, position), self._text(this, position), None)
        try:
            row = self._engine.logits_after((*self._prompt, *first[:position]))
        except Cancelled:
            return Divergence(position, self._text(first, position), self._text(this, position), None)
        gap = float(row[first[position]]) - float(row[this[position]])
        return Divergence(position, self._text(first, position), self._text(this, position), gap)

    def _text(self, tokens: Sequence[int], position: int) -> str:
        """The text of one token, control tokens spelt out; "" behind the end."""
        if position >= len(tokens):
            return ""
        return self._target.piece(tokens[position], special=True).decode("utf-8", "replace")
