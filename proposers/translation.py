"""Between two vocabularies: a history in another model's tokens, and that model's text in the history's.

Both ways go through text, and a text that is cut somewhere need not be tokenised as the whole would be.
So a part is only settled at a border that both vocabularies have, and what may still change is done anew.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple, Protocol

# Tokens of the history that are translated together, and how many of them may still change.
_WINDOW, _UNSETTLED = 32, 16
# Tokens at the history's end whose text says how what follows it is tokenised.
_TAIL = 8


class Vocabulary(Protocol):
    """A model's text and tokens."""

    def piece(self, token: int, special: bool = False) -> bytes:
        """The bytes that a token stands for; control tokens give b"" unless `special`."""

    def tokenise(self, text: str, special: bool = True) -> list[int]:
        """Tokens of a text; control tokens spelt in it are parsed as such if `special`."""


class Words:
    """A vocabulary, for text that goes on after other text."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.piece = vocabulary.piece
        # Some vocabularies put a space before every text. A line break takes it, and is taken away again.
        adds_space = self.joined(vocabulary.tokenise("a", False)) != b"a"
        self._break = vocabulary.tokenise("\n", False) if adds_space else []

    def joined(self, tokens: Sequence[int]) -> bytes:
        """The bytes of tokens one after the other; of control tokens, none."""
        return b"".join(map(self.piece, tokens))

    def tokens(self, text: str) -> list[int]:
        """Tokens of a text; what looks like a control token in it is text."""
        if not text:
            return []
        if self._break:
            tokens = self._vocabulary.tokenise("\n" + text, False)
            if tokens[: len(self._break)] == self._break:
                return tokens[len(self._break) :]
        return self._vocabulary.tokenise(text, False)

    def control(self, text: bytes) -> int | None:
        """The control token of that text, None where there is none."""
        tokens = self._vocabulary.tokenise(text.decode("utf-8", "replace"), True) if text else []
        if len(tokens) == 1 and not self.piece(tokens[0]) and self.piece(tokens[0], True) == text:
            return tokens[0]
        return None


class Translation:
    """The history's text in another model's tokens, kept up as the history grows and is cut.

    Control tokens are taken over where the other vocabulary has one of the same text, else left out.
    opening: what the other model expects before every text, if anything.
    """

    def __init__(self, theirs: Words, ours: Words, opening: int | None = None) -> None:
        """theirs: the vocabulary of the history; ours: of the translation."""
        self._theirs = theirs
        self._ours = ours
        self._opening = opening
        self.tokens: list[int] = [] if opening is None else [opening]
        # The first bytes of a character at the history's end; the translation ends before them.
        self.unfinished = b""
        # The last text of the history, `unfinished` included; nothing right behind a control token.
        self.tail = b""
        self._history: list[int] = []
        # Where parts are settled, as lengths of the history and of the translation.
        self._settled = [(0, len(self.tokens))]
        self._controls: dict[int, int | None] = {}

    def begin(self, history: Sequence[int]) -> None:
        """Translate a history that may differ in any way from the last one."""
        self._resume(history, _common_prefix(self._history, history))

    def follow(self, history: Sequence[int]) -> int:
        """Translate a history that differs from the last one behind the last settled border only, or is
        cut. Returns how many tokens at the translation's head are certainly those of before."""
        start = self._settled[-1][0]
        if len(history) == len(self._history) and list(history[start:]) == self._history[start:]:
            return len(self.tokens)
        return self._resume(history, min(start, len(history)))

    def _resume(self, history: Sequence[int], same: int) -> int:
        # The last token is always translated anew: its text is the tail.
        while self._settled[-1][0] > max(0, min(same, len(history) - 1)):
            self._settled.pop()
        start, kept = self._settled[-1]
        self._history[start:] = history[start:]
        del self.tokens[kept:]
        self.unfinished = self.tail = b""
        while start < len(history):
            start += self._advance(start)
        return kept

    def _advance(self, start: int) -> int:
        """Translate some tokens of the history; how many."""
        window = self._history[start : start + _WINDOW]
        pieces = [self._theirs.piece(token) for token in window]
        if b"" in pieces:
            control = pieces.index(b"")
            self.tokens += self._ours.tokens(_decoded(b"".join(pieces[:control]))[0])
            self.tokens += self._control(window[control], first=start + control == 0)
            return self._settle(start, control + 1)
        data = b"".join(pieces)
        if len(window) == _WINDOW:
            settled, tokens = self._split(pieces, data)
            self.tokens += tokens
            return self._settle(start, settled)
        text, self.unfinished = _decoded(data)
        self.tokens += self._ours.tokens(text)
        self.tail = _readable(b"".join(pieces[-_TAIL:]))
        return len(window)

    def _settle(self, start: int, count: int) -> int:
        self._settled.append((start + count, len(self.tokens)))
        return count

    def _split(self, pieces: Sequence[bytes], data: bytes) -> tuple[int, list[int]]:
        """How many tokens of a window can be settled, and their translation."""
        text, unfinished = _decoded(data)
        tokens = self._ours.tokens(text)
        most = _WINDOW - _UNSETTLED
        lengths = list(accumulate(map(len, pieces[:most])))
        # No part begins inside a character.
        whole = [count for count in range(most, 0, -1) if data[lengths[count - 1]] & 0xC0 != 0x80]
        if self._ours.joined(tokens) + unfinished == data:
            ends = _ends(self._ours, tokens)
            borders = dict(zip(ends, range(len(ends)), strict=True))
            for count in whole:
                if lengths[count - 1] in borders:
                    return count, tokens[: borders[lengths[count - 1]]]
        # Bytes that are no text, or in which the other vocabulary has no such border.
        count = whole[0] if whole else most
        return count, self._ours.tokens(_decoded(data[: lengths[count - 1]])[0])

    def _control(self, token: int, first: bool) -> list[int]:
        if token not in self._controls:
            self._controls[token] = self._ours.control(self._theirs.piece(token, True))
        own = self._controls[token]
        return [] if own is None or (first and own == self._opening) else [own]


class Continuation(NamedTuple):
    """Tokens that go on behind a text. settled: so many of them hold whatever text comes after."""

    tokens: list[int]
    settled: int


def continuation(words: Words, tail: bytes, text: bytes, ended: bool = False) -> Continuation | None:
    """How `text` is written behind a history that ends with `tail`; None where no token begins there.

    A token that reaches to the end of the text might become a longer one with more text, unless it
    `ended`. A character that is not whole at the end is left out. tail: as in Translation.
    """
    data = tail + text
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoded = decoder.decode(data)
    except UnicodeDecodeError:
        return None
    unfinished = len(decoder.getstate()[0])
    whole = data[: len(data) - unfinished]
    if len(whole) <= len(tail):
        return Continuation([], 0)
    tokens = words.tokens(decoded)
    ends = _ends(words, tokens)
    if len(tail) not in ends or words.joined(tokens) != whole:
        return None
    behind = tokens[ends.index(len(tail)) :]
    return Continuation(behind, len(behind) - (not ended or unfinished > 0))


def _ends(words: Words, tokens: Sequence[int]) -> list[int]:
    """Bytes before each of the tokens, and behind the last."""
    return list(accumulate((len(words.piece(token)) for token in tokens), initial=0))


def _readable(data: bytes) -> bytes:
    """What stands behind the last byte that is no text; the last character need not be whole."""
    while True:
        try:
            codecs.getincrementaldecoder("utf-8")().decode(data)
        except UnicodeDecodeError as error:
            data = data[error.end :]
        else:
            return data


def _decoded(data: bytes) -> tuple[str, bytes]:
    """Bytes as text, with U+FFFD for what is none, but for the first bytes of a character at the end."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return decoder.decode(data), decoder.getstate()[0]


def _common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """Length of the longest common prefix."""
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return index
    return min(len(first), len(second))
