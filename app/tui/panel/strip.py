"""The speculation panel in two lines, for screens that are too narrow for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from textual.content import Content
from textual.message import Message

from app.session.figures import EngineState, PanelFigures
from app.tui.numbers import bar, percent, rate, ratio, sparkline, whole
from app.tui.panel.parts import (
    FigureLines,
    draft_length,
    muted,
    progress,
    speedup_part,
    state_text,
    title,
)

_GAP = 2
# Room for "writing · 12,345 tokens", so that nothing moves as the number grows.
_DOING = 23
# A sparkline of fewer columns says nothing.
_SHORTEST = 4
_LONGEST = 16


class SpeculationStrip(FigureLines, can_focus=False):
    """How fast a reply comes and against what, and what the proposer is doing. A click asks for the panel."""

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text("utf-8")

    class Pressed(Message):
        """The whole panel is wanted."""

    def on_click(self) -> None:
        self.post_message(self.Pressed())

    def show(self, figures: PanelFigures, state: EngineState) -> None:
        """Show these instead, in one refresh."""
        self.figures, self.state = figures, state
        self.draw()

    def lines(self, width: int, height: int) -> list[Content]:
        return strip_lines(self.figures, self.state, width, self.settings_theme)


def strip_lines(figures: PanelFigures, state: EngineState, width: int, theme: str) -> list[Content]:
    """Two lines, neither wider than `width` cells. What matters least is left out first."""
    lines = [_speed_line(figures, width, theme), _second_line(figures, state, width)]
    return [line.truncate(width, ellipsis=True) for line in lines]


def _speed_line(figures: PanelFigures, width: int, theme: str) -> Content:
    name = title(figures, theme)
    length = draft_length(figures.setting, figures.fixed_k)
    proposer = name + muted(f" · {length}")
    now = muted(f", now {whole(figures.last_k):>2}")
    speed = Content.assemble((rate(figures.tokens_per_second), "bold $accent"), " tok/s")
    gain, against = speedup_part(figures, ""), speedup_part(figures)
    told = against
    if not figures.plain and figures.speedup is not None:
        measured = f" ({rate(figures.plain_tokens_per_second).strip()} measured here)"
        told = against + muted(measured)
    most = proposer if figures.plain else proposer + now
    for parts in ((most, speed, told), (most, speed, against), (proposer, speed, gain), (name, speed, gain)):
        line = _joined(parts)
        if line.cell_length <= width:
            return line
    return _joined((Content(figures.setting), speed, gain))


def _second_line(figures: PanelFigures, state: EngineState, width: int) -> Content:
    doing = Content.assemble(state_text(figures, state))
    share = progress(figures, state)
    if share is not None:
        return _joined((doing, Content.assemble((bar(share, width - doing.cell_length - _GAP), "$accent"))))
    if state.name == "stopped" or figures.phase == "idle" or figures.plain:
        return doing
    acceptance = Content.assemble(("acceptance ", "$muted"), percent(figures.acceptance_rate))
    tokens = Content.assemble(("tokens/pass ", "$muted"), ratio(figures.tokens_per_pass))
    shown = [acceptance, tokens]
    room = width - sum(part.cell_length for part in shown) - _GAP
    beside = max(_DOING, doing.cell_length) + _GAP
    if room >= beside + 2 * (_SHORTEST + 1) or (figures.next_up is not None and room >= beside):
        shown.append(doing)
        room -= beside
    columns = min(room // 2 - 1, _LONGEST)
    if columns >= _SHORTEST:
        top = max((2.0, *figures.tokens_per_pass_history))
        shown[0] += _drawn(sparkline(figures.acceptance_history, columns, 0, 1), columns)
        shown[1] += _drawn(sparkline(figures.tokens_per_pass_history, columns, 1, top), columns)
    return _joined(shown)


def _drawn(line: str, columns: int) -> Content:
    return Content.assemble(" ", (line.rjust(columns), "$accent"))


def _joined(parts: Sequence[Content]) -> Content:
    return Content(" " * _GAP).join(parts)
