"""Text in cells of the screen and in characters as people see them: a letter with its marks, a flag.

rich knows which characters take no cell of their own, and so belong to the one before. Its `split_graphemes`
splits a whole line at each call, halves flags, and joins any letter after a joiner; here only the neighbours
of one place are looked at.
"""

from __future__ import annotations

import unicodedata

from rich.cells import cell_len, get_character_cell_size, set_cell_size, split_text

from app.text import one_line

_JOINER = "\u200d"
_HALF_WIDTH_MARKS = "\uff9e\uff9f"


def shortened(name: str, width: int) -> str:
    """A name in one line of at most `width` cells. Its end tells files apart, so it is cut in the middle."""
    name = one_line(name)
    if cell_len(name) <= width:
        return name
    tail = (width - 1) // 2
    return f"{set_cell_size(name, width - 1 - tail)}…{split_text(name, cell_len(name) - tail)[1]}"


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
    if not 0 < index < len(text) or text[index].isascii():
        return True
    before, after = text[index - 1], text[index]
    if get_character_cell_size(after) == 0 or after in _HALF_WIDTH_MARKS:
        return False
    if before == _JOINER:
        return unicodedata.category(after) != "So"
    if not _is_flag_half(after):
        return True
    halves = 0
    while halves < index and _is_flag_half(text[index - 1 - halves]):
        halves += 1
    return halves % 2 == 0


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"
