"""A comparison as bars of tokens per second, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from rich.text import Text

from app.process.report import Report
from app.process.report_svg import fitted, scale
from app.process.report_text import rate
from app.tui.theme import grey, origin_style

_EIGHTHS = " ▏▎▍▌▋▊▉"
_NAME, _VALUE = 10, 8


def bars(report: Report, proposers: Sequence[str], width: int, theme: str) -> Text:
    """A line for each proposer, in that order, and one that names the plain rate; `width` columns.

    A proposer that is not in the report yet has no bar. theme: dark, light or terminal.
    """
    room = max(8, width - _NAME - _VALUE)
    most, speeds = scale(report), {row.proposer: row.tokens_per_second for row in report.rows}
    plain = report.plain_tokens_per_second
    mark = None if plain is None else min(room - 1, round(plain / most * room))
    quiet, drawn = grey("muted", theme), Text(no_wrap=True)
    for name in proposers:
        speed = speeds.get(name)
        drawn.append(fitted(name, _NAME - 1).ljust(_NAME))
        colour = quiet.color if name == "off" else origin_style(name, theme).color
        drawn.append_text(_bar((speed or 0.0) / most * room, room, mark, Style(color=colour), quiet))
        drawn.append(rate(speed).rjust(_VALUE) + "\n", Style() if speed else quiet)
    if plain is not None and mark is not None:
        told = f"plain {rate(plain)} tok/s"
        right = mark + 2 + len(told) <= room
        legend = f"{' ' * mark}└ {told}" if right else f"{told} ┘".rjust(mark + 1)
        drawn.append(" " * _NAME + legend, quiet)
    return drawn


def _bar(length: float, room: int, mark: int | None, style: Style, quiet: Style) -> Text:
    """A bar of eighths of columns, with the plain rate as a thin line through it or beyond it."""
    full, part = divmod(round(length * 8), 8)
    drawn = Text("█" * full + _EIGHTHS[part].strip(), style).append(" " * room)[:room]
    if mark is None or full < mark <= full + bool(part):
        return drawn
    line = Text("│", style + Style(reverse=True)) if mark < full else Text("┊", quiet)
    return drawn[:mark] + line + drawn[mark + 1 :]
