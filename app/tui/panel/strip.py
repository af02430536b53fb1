"""The speculation panel in two lines, for screens that are too narrow for it."""

from __future__ import annotations

from pathlib import Path

from textual.content import Content
from textual.message import Message
from textual.strip import Strip
from textual.theme import Theme
from textual.widget import Widget

from app.session.figures import READY, EngineState, PanelFigures
from app.tui.panel.drawing import bar, percent, rate, ratio, sparkline, whole
from app.tui.panel.panel import (
    changed_rows,
    draft_length,
    painted,
    progress,
    settings_theme,
    speedup_part,
    state_text,
    title,
)

_GAP = 2
# Room for "writing · 12,345 tokens", kept free so that nothing moves as the number grows.
_DOING = 23
# A sparkline of fewer columns says nothing.
_SHORTEST = 4
_LONGEST = 16


class SpeculationStrip(Widget):
    """How fast it is and against what; what the proposer is doing. A click asks for the whole panel."""

    ALLOW_SELECT = False
    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text("utf-8")

    class Pressed(Message):
        """The whole panel is wanted."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._figures = PanelFigures()
        self._state = READY
        self._lines: list[Content] = []

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, self._restyle)

    def on_click(self) -> None:
        self.post_message(self.Pressed())

    def on_resize(self) -> None:
        self._draw()

    def show(self, figures: PanelFigures, state: EngineState) -> None:
        """Show these in place of what was shown, in one refresh."""
        self._figures, self._state = figures, state
        self._draw()

    def render_line(self, y: int) -> Strip:
        """One of the two lines."""
        width, style = self.content_size.width, self.visual_style
        return painted(self._lines[y], width, style) if self._lines else Strip.blank(width, style.rich_style)

    def _draw(self) -> None:
        width = self.content_size.width
        before = self._lines
        self._lines = strip_lines(self._figures, self._state, width, settings_theme(self.app.theme))
        if not before:
            self.refresh()
        elif changed := changed_rows(before, self._lines, width):
            self.refresh(*changed)

    def _restyle(self, _: Theme) -> None:
        self._draw()
        self.refresh()


def strip_lines(figures: PanelFigures, state: EngineState, width: int, theme: str) -> list[Content]:
    """Two lines, neither wider than `width` cells; what matters least is left out first."""
    lines = [_speed_line(figures, width, theme), _second_line(figures, state, width)]
    return [line.truncate(width, ellipsis=True) for line in lines]


def _speed_line(figures: PanelFigures, width: int, theme: str) -> Content:
    name = title(figures, theme)
    length = draft_length(figures.setting, figures.fixed_k)
    proposer = name + Content.assemble((f" · {length}", "$muted"))
    now = Content.assemble((f", now {whole(figures.last_k):>2}", "$muted"))
    speed = Content.assemble((rate(figures.tokens_per_second), "bold $accent"), " tok/s")
    gain, against = speedup_part(figures, ""), speedup_part(figures)
    told = against
    if not figures.plain and figures.speedup is not None:
        measured = f" ({rate(figures.plain_tokens_per_second).strip()} measured here)"
        told = against + Content.assemble((measured, "$muted"))
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


def _drawn(course: str, columns: int) -> Content:
    return Content.assemble(" ", (course.rjust(columns), "$accent"))


def _joined(parts: tuple[Content, ...] | list[Content]) -> Content:
    return Content(" " * _GAP).join(parts)
