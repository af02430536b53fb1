"""Translation between vocabularies: the history into a draft model's tokens, and the draft back.

Both go through text, and a part of a text may be tokenised differently from the whole. So a part is only
settled where both vocabularies have a token border, and what may still change is translated again.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple, Protocol

from proposers.base import common_prefix

# Tokens of the history that are translated at a time, and how many at their end may still change.
_WINDOW, _UNSETTLED = 32, 16
# Tokens at the end of the history whose text influences how the text after it is tokenised.
_TAIL = 8


class Vocabulary(Protocol):
    """A model's tokeniser."""

    def piece(self, token: int, special: bool = False) -> bytes:
        """The bytes of a token; b"" for control tokens unless `special`."""

    def tokenise(self, text: str, special: bool = True) -> list[int]:
        """Tokens of a text. special: control tokens spelled out in it are recognised."""


# What is put before a text where a vocabulary would put a space; few tokens join the first to what follows.
_OPENINGS = ("\n", "|", "~")


class TextVocabulary:
    """A vocabulary for plain text that continues other text."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.piece = vocabulary.piece
        self._controls: dict[bytes, int | None] = {}
        # Some vocabularies put a space before every text. Put something else there, and remove both later.
        adds_space = self.joined(vocabulary.tokenise("a", False)) != b"a"
        self._openings = {text: vocabulary.tokenise(text, False) for text in _OPENINGS} if adds_space else {}

    def joined(self, tokens: Sequence[int]) -> bytes:
        """The bytes of tokens, joined; control tokens have none."""
        return b"".join(map(self.piece, tokens))

    def tokens(self, text: str) -> list[int]:
        """Tokens of a text; whatever looks like a control token is text."""
        if not text:
            return []
        for opening, ids in self._openings.items():
            tokens = self._vocabulary.tokenise(opening + text, False)
            # Some token may join the opening to what follows it.
            if tokens[: len(ids)] == ids:
                return tokens[len(ids) :]
        return self._vocabulary.tokenise(text, False)

    def control(self, text: bytes) -> int | None:
        """The control token with this text, or None."""
        if text not in self._controls:
            tokens = self._vocabulary.tokenise(text.decode("utf-8", "replace"), True) if text else []
            found = len(tokens) == 1 and not self.piece(tokens[0]) and self.piece(tokens[0], True) == text
            self._controls[text] = tokens[0] if found else None
        return self._controls[text]


class Translation:
    """The history's text in another model's tokens, kept up to date as the history grows and shrinks.

    A control token becomes the other vocabulary's token with the same text, or is left out.
    opening: the token that the other model expects before every text, if any.
    """

    def __init__(self, theirs: TextVocabulary, ours: TextVocabulary, opening: int | None = None) -> None:
        """theirs: the vocabulary of the history; ours: that of the translation."""
        self._theirs = theirs
        self._ours = ours
        self._opening = opening
        self.tokens: list[int] = [] if opening is None else [opening]
        # The first bytes of a character at the history's end; the translation ends before them.
        self.unfinished = b""
        # The end of the history's text, `unfinished` included; empty right after a control token.
        self.tail = b""
        self._history: list[int] = []
        # Borders of settled parts, as lengths of the history and of the translation.
        self._settled = [(0, len(self.tokens))]

    def begin(self, history: Sequence[int]) -> None:
        """Translate a history that may have nothing in common with the last one."""
        self._resume(history, common_prefix(self._history, history))

    def update(self, history: Sequence[int]) -> int:
        """Translate a history that is shorter than the last one, or differs from it only after the last
        settled border. Returns how many tokens of the translation are certainly unchanged."""
        start = self._settled[-1][0]
        if len(history) == len(self._history) and list(history[start:]) == self._history[start:]:
            return len(self.tokens)
        return self._resume(history, min(start, len(history)))

    def _resume(self, history: Sequence[int], same: int) -> int:
        # The last token is always translated again, since its text belongs to the tail.
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
        """Translate some tokens of the history, and return how many."""
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
        """How many tokens of a window can be settled, with their translation."""
        text, unfinished = _decoded(data)
        tokens = self._ours.tokens(text)
        most = _WINDOW - _UNSETTLED
        lengths = list(accumulate(map(len, pieces[:most])))
        # A part must not begin inside a character.
        whole = [count for count in range(most, 0, -1) if data[lengths[count - 1]] & 0xC0 != 0x80]
        if self._ours.joined(tokens) + unfinished == data:
            ends = _ends(self._ours, tokens)
            borders = dict(zip(ends, range(len(ends)), strict=True))
            for count in whole:
                if lengths[count - 1] in borders:
                    return count, tokens[: borders[lengths[count - 1]]]
        # The bytes are not valid text, or the other vocabulary has no border at the same place.
        count = whole[0] if whole else most
        return count, self._ours.tokens(_decoded(data[: lengths[count - 1]])[0])

    def _control(self, token: int, first: bool) -> list[int]:
        own = self._ours.control(self._theirs.piece(token, True))
        return [] if own is None or (first and own == self._opening) else [own]


class Continuation(NamedTuple):
    """Tokens that continue a text. The first `settled` of them stay the same whatever text follows."""

    tokens: list[int]
    settled: int


def continuation(words: TextVocabulary, tail: bytes, text: bytes, ended: bool = False) -> Continuation | None:
    """Tokens of `text` after a history that ends with `tail`; None if no token begins there.

    Unless the text has `ended`, its last token might become a longer one with more text. An incomplete
    character at the end is left out. tail: as in Translation.
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
    following = tokens[ends.index(len(tail)) :]
    return Continuation(following, len(following) - (not ended or unfinished > 0))


def _ends(words: TextVocabulary, tokens: Sequence[int]) -> list[int]:
    """The number of bytes before each token, and after the last."""
    return list(accumulate((len(words.piece(token)) for token in tokens), initial=0))


def _readable(data: bytes) -> bytes:
    """What follows the last invalid byte; the last character may be incomplete."""
    while True:
        try:
            codecs.getincrementaldecoder("utf-8")().decode(data)
        except UnicodeDecodeError as error:
            data = data[error.end :]
        else:
            return data


def _decoded(data: bytes) -> tuple[str, bytes]:
    """Text with U+FFFD for invalid bytes, and the first bytes of an incomplete character at the end."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return decoder.decode(data), decoder.getstate()[0]
