"""What speculation gave a reply, in one sentence that anybody understands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from app.chat.conversation import Answer
from app.chat.gate import clean

# Origins of tokens that the model wrote itself.
_OWN = ("plain", "bonus", "correction")
_CALLED = {"draft": "the draft", "skip": "the model without some layers"}
# Where a word has more tokens than this there are hardly spaces, as in Chinese or in numbers.
_MOST_TOKENS = 8
# What differs by less cannot be told from plain decoding.
_SAME = 0.02


def sentence(answer: Answer) -> str:
    """Such as "Lookup wrote 63 of 75 words: 2.3× faster."; "" where nothing was written or measured.

    A word counts for a proposer where all of its tokens are drafts of its that the model accepted. What was
    there before, where a reply was continued, does not count.
    """
    figures = answer.figures
    if figures is None:
        return ""
    # The end token is counted by the figures, and is no part of the answer.
    size = figures.tokens - (answer.end == "stop")
    pieces, origins = answer.pieces[-size:] if size > 0 else (), answer.origins[-size:] if size > 0 else ()
    if not any(piece.strip() for piece in pieces):
        return ""
    if figures.acceptance_rate is None:
        return _PLAIN.get(figures.proposer, "No guess was worth its time: plain speed.")
    speed = _speed(figures.speedup)
    written, total, unit = _written(pieces, origins)
    if not written:
        return f"No guess was right: {speed}." if speed else "No guess was right."
    parts = [f"{_called(name)} {count:,}" for name, count in written.most_common()]
    first, _, rest = parts[0].rpartition(" ")
    said = f"{first[:1].upper()}{first[1:]} wrote {' and '.join([rest, *parts[1:]])}"
    said += f" of {total:,} {unit}{'' if total == 1 else 's'}"
    return f"{said}: {speed}." if speed else f"{said}; too little to measure the speed."


_PLAIN = {
    "off": "Speculation was off: plain speed.",
    "lookup": "Nothing to copy here: plain speed.",
}


def _called(name: str) -> str:
    return _CALLED.get(name, " ".join(clean(name).split()))


def _speed(speedup: float | None) -> str:
    """Against plain decoding; "" where it was not measured."""
    if speedup is None:
        return ""
    if abs(speedup - 1.0) < _SAME:
        return "plain speed"
    if speedup < 1.0:
        return f"{1.0 - speedup:.0%} slower than plain".replace("%", " %")
    return f"{speedup:.1f}× faster" if speedup >= 1.1 else f"{speedup - 1.0:.0%} faster".replace("%", " %")


def _written(pieces: tuple[str, ...], origins: tuple[str, ...]) -> tuple[Counter[str], int, str]:
    """What each proposer wrote, of how many, and in which unit: words, or tokens where these say more."""
    words = list(_words(zip(pieces, origins, strict=True)))
    written = Counter(next(iter(word)) for word in words if len(word) == 1)
    total, unit = len(words), "word"
    drafted = Counter(origins)
    for own in _OWN:
        del written[own], drafted[own]
    if (drafted and not written) or len(pieces) > _MOST_TOKENS * total:
        written, total, unit = drafted, len(pieces), "token"
    return written, total, unit


def _words(tokens: Iterable[tuple[str, str]]) -> Iterable[set[str]]:
    """The origins of each word's tokens; a word is what stands between spaces."""
    word: set[str] = set()
    for piece, origin in tokens:
        if piece[:1].isspace() and word:
            yield word
            word = set()
        parts = piece.split()
        for _ in parts[:-1]:
            yield word | {origin}
            word = set()
        if parts:
            word = word | {origin}
            if piece[-1:].isspace():
                yield word
                word = set()
    if word:
        yield word
