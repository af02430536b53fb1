"""The text of each token, for a screen that has no vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.engine.events import Pass
from app.llama.model import Model
from app.llama.text import TextStream
from app.process.events import Step


class Pieces:
    """Splits a reply's text by its tokens: joined, the pieces of all passes are the text."""

    def __init__(self, piece: Callable[[int], bytes]) -> None:
        self._piece = piece
        self._stream = TextStream()

    def step(self, entry: Pass) -> Step:
        """The pass with its texts. Rejected drafts are decoded on their own."""
        rejected = b"".join(self._piece(token) for token in entry.drafted[entry.accepted :])
        return Step(
            entry=entry,
            pieces=tuple(self._stream.feed(self._piece(token)) for token in entry.tokens),
            rejected=rejected.decode("utf-8", "replace"),
        )


def begun_tokens(tokens: Sequence[int], text: str, model: Model) -> tuple[int, ...]:
    """The tokens of a reply that was begun, up to the last one that ends with a whole character, so that it
    can be continued. Another model may have made it, whose ids mean something else here, or nothing at all:
    then the tokens are those of its text.
    """
    if model.has_tokens(tokens):
        stream = TextStream()
        said, whole = "", 0
        for count, token in enumerate(tokens, start=1):
            said += stream.feed(model.piece(token))
            if not stream.unfinished:
                whole = count
        if said == text:
            return tuple(tokens[:whole])
    return tuple(model.tokenise(text, special=False))
