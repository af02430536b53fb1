"""What a person types to find a session, as a full-text expression and as places in a text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from app.text import clean

MOST_WORDS = 16
LONGEST_WORD = 100
# Scripts without spaces between words (Thai to Khmer, Chinese, Japanese), and Korean, whose words are found
# by their parts: each character counts as a word, several in a row as a phrase.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
)
_GAP = "\u200b"


def words_of(query: str) -> tuple[str, ...]:
    """The words of what was typed, up to MOST_WORDS."""
    return tuple(word[:LONGEST_WORD] for word in clean(query).split()[:MOST_WORDS])


def spaced(text: str) -> str:
    """`text` with a gap round each character that counts as a word."""
    return text if text.isascii() else _UNSPACED.sub(rf"{_GAP}\g<0>{_GAP}", text)


def has_letters(word: str) -> bool:
    """Whether the index can find the word: it has no signs."""
    return any(character.isalnum() for character in word)


def expression(words: tuple[str, ...]) -> str:
    """The words that the index can find, all of them wanted, the last one perhaps only begun.

    Each is quoted, so that nothing a person types is taken for an operator.
    """
    quoted = ['"{}"'.format(spaced(word).replace('"', '""')) for word in words if has_letters(word)]
    return " ".join(quoted) + ("*" if words[-1][-1].isalnum() else "")


def holds(parts: Iterable[str], words: tuple[str, ...]) -> bool:
    """Whether each of the words is in one of the parts."""
    folded = [_folded(part) for part in parts] if words else []
    return all(any(map(pattern.search, folded)) for pattern in _patterns(words))


def places(text: str, words: tuple[str, ...]) -> list[tuple[int, int]]:
    """Start and end of each of the words in the text, whatever their case and accents, in order."""
    folded = _folded(text)
    return sorted(match.span() for pattern in _patterns(words) for match in pattern.finditer(folded))


def excerpt(parts: Iterable[str], words: tuple[str, ...], length: int = 200) -> str:
    """One line from the part that holds the most of the words, beginning shortly before the first.

    The beginning of the first part where none holds any.
    """
    patterns = _patterns(words)
    best, start, most = "", 0, -1
    for part in parts:
        folded = _folded(part)
        found = [match.start() for pattern in patterns if (match := pattern.search(folded))]
        if len(found) > most:
            best, start, most = part, min(found, default=0), len(found)
        if most == len(patterns):
            break
    begin = 0
    if start > 24:
        # From the beginning of a word, where one is near.
        blank = best.find(" ", start - 24, start)
        begin = start - 24 if blank < 0 else blank + 1
    line = " ".join(best[begin : begin + 2 * length].split())[:length]
    return f"…{line}" if begin else line


@lru_cache(maxsize=8)
def _patterns(words: tuple[str, ...]) -> list[re.Pattern[str]]:
    each = []
    for word in map(_folded, words):
        if not has_letters(word):
            each.append(re.escape(word))
            continue
        # As the index has it: signs only separate words, and a word begins after one.
        inside = r"[\W_]+".join(re.escape(part) for part in re.split(r"[\W_]+", word) if part)
        each.append(inside if _UNSPACED.match(word) else rf"(?<![^\W_]){inside}")
    return [re.compile(pattern) for pattern in each]


class _Folding(dict[int, str]):
    """Small letters without accents, one for each character, so that places stay the same."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        base = unicodedata.normalize("NFD", character.lower())[:1] or character
        self[code] = base
        return base


_FOLDING = _Folding()


def _folded(text: str) -> str:
    return text.lower() if text.isascii() else text.translate(_FOLDING)
