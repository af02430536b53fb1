"""What speculation gained a reply, in one plain sentence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from app.chat.conversation import Answer
from app.text import clean

# Origins of tokens that the model wrote itself.
_OWN = ("plain", "bonus", "correction")
_NAMES = {"draft": "the draft", "skip": "the model without some layers"}
# Text with more tokens in a word than this has hardly any spaces, such as Chinese or numbers.
_MOST_TOKENS = 8
# A smaller difference cannot be told from plain decoding.
_SAME = 0.02
_PLAIN = {
    "off": "Speculation was off: plain speed.",
    "lookup": "Nothing to copy here: plain speed.",
}


def gain_sentence(answer: Answer) -> str:
    """Such as "Lookup wrote 63 of 75 words: 2.3× faster."; "" where nothing was written or measured.

    A word counts for a proposer where the model accepted all of its tokens from that one. What was there
    before, where a reply was continued, does not count.
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
    counts = [
        (_NAMES.get(name, " ".join(clean(name).split())), count) for name, count in written.most_common()
    ]
    (first, most), *others = counts
    more = "".join(f" and {name} {count:,}" for name, count in others)
    said = f"{first[:1].upper()}{first[1:]} wrote {most:,}{more} of {total:,} {unit}{'s' * (total != 1)}"
    return f"{said}: {speed}." if speed else f"{said}; too little to measure the speed."


def _speed(speedup: float | None) -> str:
    """Beside plain decoding; "" where it was not measured."""
    if speedup is None:
        return ""
    if abs(speedup - 1.0) < _SAME:
        return "plain speed"
    if speedup >= 1.1:
        return f"{speedup:.1f}× faster"
    return f"{abs(speedup - 1.0) * 100:.0f} % {'faster' if speedup > 1.0 else 'slower than plain'}"


def _written(pieces: tuple[str, ...], origins: tuple[str, ...]) -> tuple[Counter[str], int, str]:
    """What each proposer wrote, of how many, and in which unit: words, or tokens where these say more."""
    words = list(_words(zip(pieces, origins, strict=True)))
    written = Counter(next(iter(word)) for word in words if len(word) == 1)
    drafted = Counter(origins)
    for own in _OWN:
        del written[own], drafted[own]
    if (drafted and not written) or len(pieces) > _MOST_TOKENS * len(words):
        return drafted, len(pieces), "token"
    return written, len(words), "word"


def _words(tokens: Iterable[tuple[str, str]]) -> Iterable[set[str]]:
    """The origins of each word's tokens. Words are parted by white space."""
    word: set[str] = set()
    for piece, origin in tokens:
        for place, part in enumerate(re.split(r"\s+", piece)):
            if place and word:
                yield word
                word = set()
            if part:
                word = word | {origin}
    if word:
        yield word
