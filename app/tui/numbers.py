"""Numbers as text of a fixed width, bars and sparklines: what is not known is a dash, never 0."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

UNKNOWN = "–"
_LEVELS = "▁▂▃▄▅▆▇█"
_EIGHTHS = " ▏▎▍▌▋▊▉"
_BIG = {
    "0": ("█▀█", "█ █", "▀▀▀"),
    "1": ("▀█ ", " █ ", "▀▀▀"),
    "2": ("▀▀█", "█▀▀", "▀▀▀"),
    "3": ("▀▀█", " ▀█", "▀▀▀"),
    "4": ("█ █", "▀▀█", "  ▀"),
    "5": ("█▀▀", "▀▀█", "▀▀▀"),
    "6": ("█▀▀", "█▀█", "▀▀▀"),
    "7": ("▀▀█", "  █", "  ▀"),
    "8": ("█▀█", "█▀█", "▀▀▀"),
    "9": ("█▀█", "▀▀█", "▀▀▀"),
    ".": (" ", " ", "▀"),
    ",": (" ", " ", "▜"),
    UNKNOWN: ("   ", "▀▀▀", "   "),
}


def sparkline(values: Sequence[float | None], width: int, low: float, high: float) -> str:
    """The last `width` values, a column each, from `low` at the bottom to `high` at the top.

    None, NaN and infinity leave a gap.
    """
    top = len(_LEVELS) - 1
    drawn = values[-width:] if width > 0 else ()
    return "".join(
        " "
        if value is None or not isfinite(value)
        else _LEVELS[max(0, min(int((value - low) / (high - low) * len(_LEVELS)), top))]
        for value in drawn
    )


def bar(share: float, width: int) -> str:
    """A bar of `width` cells, filled to `share` (0 to 1) in eighths of a cell, and spaces after it."""
    whole, rest = divmod(round(max(0.0, min(share, 1.0)) * width * 8), 8)
    return ("█" * whole + _EIGHTHS[rest].strip()).ljust(width)


def percent(share: float | None) -> str:
    """Five cells: " 92 %"."""
    return UNKNOWN.rjust(5) if share is None else f"{share * 100:3.0f} %"


def rate(value: float | None) -> str:
    """Six cells, for tokens per second: " 128.4", "12,345"."""
    if value is None:
        return UNKNOWN.rjust(6)
    return f"{value:6.1f}" if round(value, 1) < 1000 else f"{value:6,.0f}"


def ratio(value: float | None) -> str:
    """Five cells, for tokens per pass and the like: " 3.21"."""
    return UNKNOWN.rjust(5) if value is None else f"{value:5.2f}"


def seconds(value: float | None) -> str:
    """Seven cells with the unit that suits: "  41 µs", "12.3 ms", "  3.1 s", "  125 s"."""
    if value is None:
        return UNKNOWN.rjust(7)
    for unit, scale in (("µs", 1e6), ("ms", 1e3)):
        # The next unit begins where this one would need four digits.
        if round(value * scale) < 1000:
            scaled = value * scale
            text = f"{scaled:.0f}" if unit == "µs" or scaled >= 99.95 else f"{scaled:.1f}"
            return f"{text} {unit}".rjust(7)
    return (f"{value:.1f} s" if value < 99.95 else f"{value:,.0f} s").rjust(7)


def milliseconds(value: float | None) -> str:
    """Milliseconds with one digit behind the point: "0.5", "12.3"; "<0.1" for less."""
    if value is None:
        return UNKNOWN
    return "<0.1" if 0.0 < value < 0.5e-4 else f"{value * 1e3:,.1f}"


def whole(value: int | None) -> str:
    """With separators of thousands: "4,871"."""
    return UNKNOWN if value is None else f"{value:,}"


def counted(number: int, what: str) -> str:
    """Such as "1 word" and "2,345 words"."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def big(text: str) -> tuple[str, str, str]:
    """A number, or the dash, in three rows: a digit takes three cells and a gap."""
    glyphs = [_BIG[character] for character in text]
    top, middle, bottom = (" ".join(glyph[row] for glyph in glyphs) for row in range(3))
    return top, middle, bottom
