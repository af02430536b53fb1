"""The reply so far: where it ends, and how much of its text may be shown."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from app.engine.events import FinishReason
from app.llama.text import TextStream


class Reply:
    """Takes committed tokens one by one, and detects the end of the reply.

    An end token ends it and stays in the tokens, since the next turn's prompt contains it; it has no text. A
    stop string is found across tokens and passes. It is cut from the text, and each token that holds a part
    of it is cut from the tokens.
    """

    def __init__(
        self,
        piece: Callable[[int], bytes],
        end_tokens: Collection[int],
        stop: Sequence[str],
        max_tokens: int,
    ) -> None:
        self.tokens: list[int] = []
        self.origins: list[str] = []
        self.text = ""
        self.finished: FinishReason | None = None
        self._piece = piece
        self._end_tokens = end_tokens
        self._stop = tuple(text for text in stop if text)
        self._longest_stop = max(map(len, self._stop), default=0)
        self._max_tokens = max_tokens
        self._stream = TextStream()
        # With stop strings: where each token's text ends, or one more if it ends inside a character.
        self._ends: list[int] = []
        self._shown = 0

    @property
    def wanted(self) -> int:
        """Tokens that the reply may still take."""
        return self._max_tokens - len(self.tokens)

    def take(self, tokens: Sequence[int], origins: Sequence[str]) -> None:
        """Take committed tokens up to the reply's end, and ignore the rest."""
        for token, origin in zip(tokens, origins, strict=True):
            self.tokens.append(token)
            self.origins.append(origin)
            if token in self._end_tokens:
                self.finished = "stop"
                return
            before = len(self.text)
            self.text += self._stream.feed(self._piece(token))
            if self._stop:
                self._ends.append(len(self.text) + self._stream.unfinished)
                if self._cut_at_stop(before):
                    self.finished = "stop_string"
                    return
            if len(self.tokens) >= self._max_tokens:
                self.finished = "length"
                return

    def _cut_at_stop(self, before: int) -> bool:
        """Cut at a stop string that the text after `before` completes."""
        start = max(0, before - self._longest_stop + 1)
        found = [place for place in (self.text.find(stop, start) for stop in self._stop) if place >= 0]
        if not found:
            return False
        place = min(found)
        self.text = self.text[:place]
        while self._ends and self._ends[-1] > place:
            self._ends.pop()
            self.tokens.pop()
            self.origins.pop()
        return True

    def show(self) -> str:
        """Text that was not shown yet and that no stop string can still remove."""
        held = self._held_back() if self._stop and not self.finished else 0
        text = self.text[self._shown : len(self.text) - held]
        self._shown += len(text)
        return text

    def _held_back(self) -> int:
        """Length of the longest suffix of the text that could become a stop string."""
        for length in range(min(self._longest_stop - 1, len(self.text)), 0, -1):
            end = self.text[-length:]
            if any(stop.startswith(end) for stop in self._stop):
                return length
        return 0
