"""The speculation panel: how fast a reply comes, against what, and what the proposer is doing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from textual.content import Content
from textual.style import Style

from app.engine.control import LEAST_GAIN
from app.engine.events import Pause, Refusal
from app.process.events import ProposerOption
from app.session.figures import EngineState, PanelFigures
from app.text import one_line
from app.tui.actions import BY_NAME
from app.tui.numbers import (
    UNKNOWN,
    bar,
    big,
    milliseconds,
    percent,
    rate,
    ratio,
    seconds,
    sparkline,
    whole,
)
from app.tui.panel.parts import (
    FigureLines,
    draft_length,
    muted,
    progress,
    shown_name,
    speedup_part,
    state_text,
    title,
)
from app.tui.theme import origin_style

# Lines grow no wider than this: it is hard to follow a line to a number far away.
WIDEST = 44
MOST_POSITIONS = 8
FEWEST_POSITIONS = 4
# From this height on there is room for a number of three rows.
TALL = 30
_LABEL = 12
# Reading a smaller share of the prompt again is not worth a line.
_AGAIN = 0.05

# None longer than the narrowest panel is wide.
_REFUSALS: dict[Refusal, str] = {
    "small": f"not worth it: under {percent(LEAST_GAIN - 1.0).strip()}",
    "unread": "waiting: must read first",
    "paused": "paused: recent guesses missed",
    "risky": "waiting: costly if it misses",
}
_PAUSES: dict[Pause, str] = {
    "measuring": "none: timing plain speed",
    "resting": "none: nothing to guess now",
}

_TEACHING = (
    ("tokens/s", "the speed, and how many times plain decoding that is"),
    ("acceptance", "the share of guessed tokens that the model keeps"),
    ("tokens/pass", "what one pass of the model yields; 1 without guesses"),
    ("k", "how many tokens are guessed for a pass"),
)


class SpeculationPanel(FigureLines):
    """All figures. Scrolls where they do not fit."""

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text("utf-8")

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._options: tuple[ProposerOption, ...] = ()
        self._unavailable: list[Content] = []

    def on_resize(self) -> None:
        self._wrap()

    def show(self, figures: PanelFigures, state: EngineState, options: Sequence[ProposerOption]) -> None:
        """Show these instead, in one refresh."""
        self.figures, self.state = figures, state
        if tuple(options) != self._options:
            self._options = tuple(options)
            self._wrap()
        self.draw()

    def lines(self, width: int, height: int) -> list[Content]:
        return panel_lines(self.figures, self.state, self._unavailable, width, height, self.settings_theme)

    def _wrap(self) -> None:
        width = self.scrollable_content_region.width
        if width:
            self._unavailable = unavailable_lines(self._options, width)


def panel_lines(
    figures: PanelFigures,
    state: EngineState,
    unavailable: list[Content],
    width: int,
    height: int,
    theme: str,
) -> list[Content]:
    """The panel's lines, none wider than `width` cells. unavailable: lines for the foot."""
    width = min(width, WIDEST)
    tall = height >= TALL
    lines = _head(figures, state, width, theme)
    if tall:
        lines.append(Content())
    foot = unavailable
    if figures.phase == "idle":
        lines += _teaching(width)
    else:
        foot = [*_costs(figures, width), *([Content(), *foot] if foot else [])]
        lines += _speed(figures, width, tall=tall)
        if not figures.plain:
            lines += _rates(figures, width)
            left = height - len(lines) - len(foot) - 1
            lines += _positions(figures, width, max(FEWEST_POSITIONS, min(left, MOST_POSITIONS)), theme)
        # What is needed least, and left out first.
        why = why_lines(figures, theme)
        if len(lines) + len(why) + 1 + len(foot) < height:
            lines += [Content(), *why]
    if foot:
        lines += [Content()] * max(1, height - len(lines) - len(foot))
        lines += foot
    return [line.truncate(width, ellipsis=True) for line in lines]


def why_lines(figures: PanelFigures, theme: str) -> list[Content]:
    """The gains that the controller predicted before the last pass, the best first, and why it refused any.

    Nothing where it does not choose. An option that would lose is left out.
    """
    if figures.plain or figures.fixed_k is not None or not figures.passes:
        return []
    lines = []
    for value in sorted(figures.values, key=lambda value: -value.gain):
        gain = round(100 * value.gain)
        if gain < 1:
            continue
        style = Style.from_rich_style(origin_style(value.proposer, theme))
        said = f"k {value.k:<3}{gain:>+7} %"
        lines.append(Content.assemble((shown_name(value.proposer).ljust(8), style), (said, "$muted")))
        if value.refused is not None:
            lines.append(muted(_REFUSALS[value.refused]))
    if not lines:
        reason = "none: no guess would gain" if figures.pause is None else _PAUSES[figures.pause]
        lines.append(muted(reason))
    which = "last" if figures.phase == "done" else "next"
    return [muted(f"predicted gain, {which} pass"), *lines]


def unavailable_lines(options: Sequence[ProposerOption], width: int) -> list[Content]:
    """Which proposers cannot be chosen now, and why. Kept, as they change seldom and cost most."""
    width = min(width, WIDEST)
    lines: list[Content] = []
    for option in options:
        if option.problem is None:
            continue
        sentence = one_line(option.problem)
        lines += Content.assemble((shown_name(option.name), "bold"), (f"  {sentence}", "$muted")).wrap(width)
    return [muted("not available"), *lines] if lines else []


def _head(figures: PanelFigures, state: EngineState, width: int, theme: str) -> list[Content]:
    share = progress(figures, state)
    name = title(figures, theme)
    length = muted(f" · {draft_length(figures.setting, figures.fixed_k)}")
    return [
        name if name.cell_length + length.cell_length > width else name + length,
        Content.assemble(state_text(figures, state)),
        Content() if share is None else Content.assemble((bar(share, width), "$accent")),
    ]


def _speed(figures: PanelFigures, width: int, *, tall: bool) -> list[Content]:
    gain = speedup_part(figures)
    number = rate(figures.tokens_per_second)
    plain_rate = rate(figures.plain_tokens_per_second).strip()
    place = "" if figures.plain_source is None else " · measured here"
    # Plain decoding is the number above itself.
    plain = Content() if figures.plain else muted(f"plain {plain_rate}{place}")
    top, middle, bottom = big(number.strip())
    if not tall or len(top) > width - _LABEL:
        speed = Content.assemble((number, "bold $accent"), " tok/s ")
        return [speed + gain.pad_left(width - speed.cell_length - gain.cell_length), plain, Content()]
    labels = (muted("tokens/s"), gain, Content())
    rows = zip(labels, (top, middle, bottom), strict=True)
    return [
        *(label + Content.assemble((row.rjust(width - label.cell_length), "$accent")) for label, row in rows),
        plain,
        Content(),
    ]


def _rates(figures: PanelFigures, width: int) -> list[Content]:
    columns = width - _LABEL - 8
    most_tokens = max((2.0, *figures.tokens_per_pass_history))
    longest = max(1, len(figures.drafted_by_position))
    expected, measured = (
        UNKNOWN if value is None else f"{value:.1f}" for value in (figures.expected, figures.tokens_per_pass)
    )
    acceptance, tokens = percent(figures.acceptance_rate), ratio(figures.tokens_per_pass)
    return [
        _row("acceptance", acceptance, figures.acceptance_history, columns, 0, 1),
        _row("tokens/pass", tokens, figures.tokens_per_pass_history, columns, 1, most_tokens),
        _row("k", whole(figures.last_k), figures.k_history, columns, 0, longest),
        muted(f"expected {expected} · measured {measured}"),
        Content(),
    ]


def _row(
    label: str, value: str, history: Sequence[float | None], columns: int, low: float, high: float
) -> Content:
    drawn = sparkline(history, columns, low, high).rjust(max(0, columns))
    return Content.assemble((label.ljust(_LABEL), "$muted"), value.rjust(6), "  ", (drawn, "$accent"))


def _costs(figures: PanelFigures, width: int) -> list[Content]:
    took = "" if figures.prefill_seconds is None else f" in {seconds(figures.prefill_seconds).strip()}"
    prompt = f"prompt {whole(figures.prompt)} tokens{took}"
    notes = [f"({whole(figures.known)} cached)"] if figures.known else []
    if figures.again > _AGAIN * (figures.prompt or 0):
        notes.append(f"({whole(figures.again)} read again)")
    if len(notes) == 1 and len(prompt) + len(notes[0]) < width:
        prompt, notes = f"{prompt} {notes[0]}", []
    overhead = f"overhead {milliseconds(figures.host_seconds_per_pass)} ms/pass"
    overhead += f" · {percent(figures.host_share).strip()}"
    lines = (prompt, *(f"       {note}" for note in notes), overhead)
    return [muted(line) for line in lines]


def _positions(figures: PanelFigures, width: int, most: int, theme: str) -> list[Content]:
    counts = figures.by_position[:most]
    if not counts:
        return [muted(f"position 1 {UNKNOWN}")]
    colour = Style.from_rich_style(origin_style(figures.proposer, theme)).foreground
    style: str | Style = "$muted" if colour is None else Style(foreground=colour)
    # No later position has more drafts.
    room = len(f"{counts[0][1]:,}")
    lines = []
    for index, (accepted, drafted) in enumerate(counts):
        label = f"{'position' if index == 0 else '':8} {index + 1} "
        said = f" {accepted:>{room},} of {drafted:>{room},}"
        share = bar(accepted / drafted, max(0, width - len(label) - len(said)))
        lines.append(Content.assemble((label, "$muted"), (share, style), said))
    return lines


def _teaching(width: int) -> list[Content]:
    lines = [*muted("While a reply is written, you see here:").wrap(width), Content()]
    for term, meaning in _TEACHING:
        lines += Content.assemble((term, "bold"), (f"  {meaning}", "$muted")).wrap(width)
    explain = f"/{BY_NAME['explain'].slash} explains each figure."
    return [*lines, Content(), *muted(explain).wrap(width)]
