"""Where a character as people see it begins and ends: a letter with its marks, a family emoji, a flag.

The rules are those of Unicode's annex 29 that an editor needs, judged around one place at a time, so that
a long line costs nothing.
"""

from __future__ import annotations

import unicodedata

_JOINER = "\u200d"


def start_of(text: str, index: int) -> int:
    """The last border between whole characters at or before `index`."""
    while not is_border(text, index):
        index -= 1
    return index


def end_of(text: str, index: int) -> int:
    """The first border between whole characters at or after `index`."""
    while not is_border(text, index):
        index += 1
    return index


def is_border(text: str, index: int) -> bool:
    """Whether the cursor may stand before text[index]."""
    if index <= 0 or index >= len(text):
        return True
    before, after = text[index - 1], text[index]
    if before.isascii() and after.isascii():
        return True
    if _extends(after) or (before == _JOINER and unicodedata.category(after) == "So"):
        return False
    if _is_flag_half(before) and _is_flag_half(after):
        halves = 0
        while halves < index and _is_flag_half(text[index - 1 - halves]):
            halves += 1
        return halves % 2 == 0
    return not _same_syllable(before, after)


def _extends(character: str) -> bool:
    """Combining marks, joiners, variation selectors, skin tones, tags, half-width voiced marks."""
    return (
        unicodedata.category(character) in ("Mn", "Mc", "Me")
        or character in "\u200c\u200d\uff9e\uff9f"
        or "\U0001f3fb" <= character <= "\U0001f3ff"
        or "\U000e0020" <= character <= "\U000e007f"
    )


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _same_syllable(before: str, after: str) -> bool:
    """Whether two parts of decomposed Hangul belong to one block."""
    vowel, final = "\u1160" <= after <= "\u11a7", "\u11a8" <= after <= "\u11ff"
    if "\u1100" <= before <= "\u115f":
        return vowel or "\u1100" <= after <= "\u115f" or "\uac00" <= after <= "\ud7a3"
    if "\u1160" <= before <= "\u11a7":
        return vowel or final
    if "\u11a8" <= before <= "\u11ff":
        return final
    if "\uac00" <= before <= "\ud7a3":
        # Every 28th block has no final consonant yet, and takes a vowel too.
        return final or (vowel and (ord(before) - 0xAC00) % 28 == 0)
    return False
