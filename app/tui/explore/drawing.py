"""Rounds as coloured cells, the speedup over k as a chart, and an estimate that closes in on a mark."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import ceil, floor
from operator import itemgetter

from rich.style import Style
from rich.text import Text

from app.tui.explore.simulation import Estimate, Round, State
from app.tui.theme import accent, grey, origin_style

_LEVELS = " ▁▂▃▄▅▆▇█"
# From the bottom of a row to its top: a line that cuts it there.
_LINES = "▁─▔"
PLAIN_LINE = "─"
BEST, NOW = "★", "▲"
# The widest that cells and bars get, and the columns that the figures beside them take.
_WIDEST_CELL, _WIDEST_BAR = 6, 4
_COUNT, _SCALE = 5, 6


def rounds(played: Sequence[Round], k: int, width: int, height: int, origin: str, theme: str) -> Text:
    """The last `height` rounds, a line each, the newest at the bottom.

    A cell for each drafted token, with its position, then one for the pass's own token, then how many
    tokens the pass commits, where there is room. k: of all these rounds.
    """
    room = max(2, min(_WIDEST_CELL, (width - _COUNT) // (k + 1)))
    lines = []
    for each in played[-height:] if height > 0 else ():
        line = Text(no_wrap=True)
        for state, cells in groupby(enumerate(each.states, start=1), key=itemgetter(1)):
            label = "".join(_label(position, state, room) for position, _ in cells)
            _append(line, label, state, state_style(state, origin, theme))
        if len(line) + _COUNT <= width:
            line.append(f"+{each.tokens}".rjust(_COUNT), grey("muted", theme))
        lines.append(line)
    return Text("\n", no_wrap=True).join(lines)


def legend(origin: str, theme: str) -> Text:
    """What the cells mean, in two lines, each word drawn as its cell is."""
    words: tuple[tuple[State, str], ...] = (
        ("accepted", " accepted "),
        ("rejected", "rejected"),
        ("discarded", "discarded"),
        ("correction", " correction "),
        ("bonus", " bonus "),
    )
    drawn = [Text(word, state_style(state, origin, theme)) for state, word in words]
    drawn.append(Text("+n committed", grey("muted", theme)))
    return Text("\n").join((Text(" ").join(drawn[:3]), Text(" ").join(drawn[3:])))


def state_style(state: State, origin: str, theme: str) -> Style:
    """How a token looks that this became of; `origin` drafted it."""
    if state == "plain":
        return Style(reverse=True)
    if state == "discarded":
        return grey("faint", theme)
    if state == "rejected":
        return Style(color=origin_style(origin, theme).color, strike=True)
    look = origin_style(origin if state == "accepted" else state, theme)
    return Style(color=look.color, bold=state == "correction", italic=state == "bonus", reverse=True)


def chart(
    speedups: Sequence[float], k: int, best: int, width: int, height: int, origin: str, theme: str
) -> Text:
    """Bars of the speedup over k = 0, 1, …, with a line at plain decoding and the two k marked.

    The figures at the left are the greatest speedup and plain's. Two of the `height` lines are below the
    bars: k, and what is chosen.
    """
    rows = max(2, height - 2)
    room = max(2, min(_WIDEST_BAR, (width - _SCALE) // len(speedups)))
    # A row stays free above the highest bar, for the star.
    highest = max(speedups)
    scale = (rows - 1) / max(highest, 1.0)
    if scale >= 1:
        # Plain decoding comes to a row's bottom or middle, so that the line and a bar of 1 agree.
        scale = floor(2 * scale) / 2
    line = min(rows - 1, int(scale))
    ruler = _LINES[min(2, int((scale - line) * 3))]
    top = ceil(highest * scale) - 1
    drawn = Text(no_wrap=True)
    for row in reversed(range(rows)):
        said = "plain" if row == line else f"{highest:.1f}×" if row == top else ""
        drawn.append(said.rjust(_SCALE - 1) + " ", grey("muted", theme))
        for index, value in enumerate(speedups):
            filled = round((value * scale - row) * 8)
            if filled > 0:
                bar, style = _LEVELS[min(filled, 8)], _bar_style(index, value, k, best, origin, theme)
            elif best == index and filled > -8:
                bar, style = BEST, accent(theme)
            else:
                bar, style = (ruler if row == line else " "), grey("muted", theme)
            wide = bar * (room - 1) if bar != BEST else bar.center(room - 1)
            drawn.append(wide, style).append(ruler if row == line else " ", grey("muted", theme))
        drawn.append("\n")
    return drawn.append_text(_axis(len(speedups), k, room, theme))


def closing_in(expected: float, estimate: Estimate | None, k: int, width: int, theme: str) -> Text:
    """The simulated tokens of a pass, with twice their standard error, below the mark of what is expected.

    The scale is from 1 to k + 1 tokens, what a pass can commit.
    """

    def column(tokens: float) -> int:
        share = (tokens - 1) / k if k else 0.0
        return round(max(0.0, min(share, 1.0)) * (width - 1))

    quiet = grey("muted", theme)
    drawn = Text(" " * column(expected), no_wrap=True).append("▼\n", accent(theme))
    faint = grey("faint", theme)
    if estimate is None:
        drawn.append("─" * width, faint)
    else:
        reach = 2 * (estimate.error or 0.0)
        low, middle, high = (column(estimate.mean + off) for off in (-reach, 0.0, reach))
        drawn.append("─" * low, faint).append("━" * (middle - low)).append("●", Style(bold=True))
        drawn.append("━" * (high - middle)).append("─" * (width - 1 - high), faint)
    told = "▼ expected   ━●━ simulated, with two standard errors to each side"
    most = f"{k + 1} tokens" if k else ""
    return drawn.append(f"\n1 token{told.center(width - 7 - len(most))}{most}", quiet)


def _label(position: int, state: State, room: int) -> str:
    names = {"correction": "c", "bonus": "b", "plain": "p"}
    # Like a ruler's, where there is one column for a number.
    return names.get(state, str(position) if room > 2 else str(position % 10)).center(room)


def _append(line: Text, cells: str, state: State, style: Style) -> None:
    if state != "rejected":
        line.append(cells, style)
        return
    # A line through the number, not through the space around it.
    label = cells.strip()
    before, after = cells.split(label)
    line.append(before).append(label, style).append(after)


def _bar_style(index: int, value: float, k: int, best: int, origin: str, theme: str) -> Style:
    if index == best and best:
        return accent(theme)
    if index == k == 0:
        return Style()
    if index == k:
        return Style(color=origin_style(origin, theme).color)
    return grey("muted" if value >= 1 else "faint", theme)


def _axis(count: int, k: int, room: int, theme: str) -> Text:
    """The numbers of k, every fourth where there is no room for all, and below them the mark of now."""
    numbers = [" "] * (count * room + 1)
    for index in range(0, count, 1 if room > 2 else 4):
        label = str(index).center(room - 1)
        numbers[index * room : index * room + len(label)] = label
    quiet = grey("muted", theme)
    drawn = Text(no_wrap=True).append("k".rjust(_SCALE - 1) + " " + "".join(numbers).rstrip(), quiet)
    mark = NOW.center(room - 1)
    return drawn.append("\n" + " " * (_SCALE + k * room)).append(mark, Style(bold=True))
