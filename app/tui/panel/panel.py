"""The speculation panel: how fast it is and against what, and what the proposer is doing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from textual.content import Content
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.style import Style
from textual.theme import Theme

from app.chat.gate import clean
from app.engine.control import LEAST_GAIN
from app.engine.events import Pause, Refusal
from app.process.messages import Option
from app.session.figures import READY, EngineState, PanelFigures
from app.tui.actions import BY_NAME
from app.tui.panel.drawing import (
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
from app.tui.theme import THEMES, origin_style

# Lines do not grow beyond this where there is more room: eyes lose the way to a far number.
WIDEST = 44
MOST_POSITIONS = 8
FEWEST_POSITIONS = 4
# The height from which there is room for a number of three rows.
TALL = 30
_LABEL = 12
# Less of the prompt than this share read again is not worth a line.
_AGAIN = 0.05

# No longer than the narrowest panel.
_REFUSALS: dict[Refusal, str] = {
    "small": f"not worth it: under {LEAST_GAIN - 1.0:.0%}".replace("%", " %"),
    "unread": "waits: has to read first",
    "paused": "paused: recent guesses missed",
    "risky": "waits: costly if it misses",
}
_PAUSES: dict[Pause, str] = {
    "measuring": "none: timing plain speed",
    "resting": "none: nothing to guess now",
}

_TEACHING = (
    ("tokens/s", "and how many times plain decoding, measured here"),
    ("acceptance", "the share of guessed tokens that the model keeps"),
    ("tokens/pass", "what one pass of the model yields; plain decoding yields 1"),
    ("k", "how many tokens are guessed a pass"),
)


class SpeculationPanel(ScrollView):
    """All figures of the reply that is being written, or of the last one. Scrolls where they do not fit.

    It paints only the lines that changed: painting a whole widget of text took three times as long, on
    the processor that the model needs.
    """

    ALLOW_SELECT = False
    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text("utf-8")

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._figures = PanelFigures()
        self._state = READY
        self._options: tuple[Option, ...] = ()
        self._unavailable: list[Content] = []
        self._lines: list[Content] = []

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, self._restyle)

    def on_resize(self) -> None:
        self._wrap()
        self._draw()

    def show(self, figures: PanelFigures, state: EngineState, options: Sequence[Option]) -> None:
        """Show these in place of all that was shown, in one refresh."""
        self._figures, self._state = figures, state
        if tuple(options) != self._options:
            self._options = tuple(options)
            self._wrap()
        self._draw()

    def render_line(self, y: int) -> Strip:
        """One line of the visible part."""
        index = y + self.scroll_offset.y
        width, style = self.scrollable_content_region.width, self.visual_style
        if index >= len(self._lines):
            return Strip.blank(width, style.rich_style)
        return painted(self._lines[index], width, style)

    def _wrap(self) -> None:
        width = self.scrollable_content_region.width
        if width:
            self._unavailable = unavailable_lines(self._options, width)

    def _draw(self) -> None:
        width, height = self.scrollable_content_region.size
        if width == 0:
            return
        before = self._lines
        theme = settings_theme(self.app.theme)
        self._lines = panel_lines(self._figures, self._state, self._unavailable, width, height, theme)
        if len(self._lines) != len(before):
            self.virtual_size = Size(width, len(self._lines))
            self.refresh()
            return
        if changed := changed_rows(before, self._lines, width, self.scroll_offset.y):
            self.refresh(*changed)

    def _restyle(self, _: Theme) -> None:
        self._draw()


def painted(line: Content, width: int, style: Style) -> Strip:
    """The line, padded to `width` cells, over that style."""
    return Strip(line.render_segments(style)).adjust_cell_length(width, style.rich_style)


def changed_rows(
    before: Sequence[Content], after: Sequence[Content], width: int, top: int = 0
) -> list[Region]:
    """Where as many lines as before look otherwise; line `top` is the first of the view."""
    return [
        Region(0, index - top, width, 1)
        for index, (old, new) in enumerate(zip(before, after, strict=True))
        if not new.is_same(old)
    ]


def settings_theme(name: str) -> str:
    """The name that `origin_style` takes for a theme of Textual's name."""
    return next((short for short, theme in THEMES.items() if theme.name == name), "terminal")


def shown_name(name: str, width: int = 16) -> str:
    """A foreign name on one line, cut to `width` cells, with nothing that a terminal acts on."""
    line = Content(" ".join(clean(name).split()))
    return line.truncate(width, ellipsis=True).plain


def title(figures: PanelFigures, theme: str) -> Content:
    """What was set and what came of it, such as "auto → lookup". A proposer's name has the look that its
    tokens have in the text: the legend of that look."""

    def named(name: str) -> Content:
        style = Style.from_rich_style(origin_style(name, theme))
        return Content.assemble((shown_name(name), style + Style(bold=True)))

    setting = named(figures.setting)
    if figures.plain or not figures.passes or figures.drafters == (figures.setting,):
        return setting
    did = Content(" + ").join(map(named, figures.drafters)) if figures.drafters else Content("plain")
    return Content.assemble(setting, (" → ", "$muted"), did)


def draft_length(setting: str, fixed_k: int | None) -> str:
    """Who chooses k, and what was chosen: "k auto" or "k 4"."""
    if setting == "off":
        return "plain decoding"
    return "k auto" if fixed_k is None else f"k {fixed_k}"


def state_text(figures: PanelFigures, state: EngineState) -> tuple[str, str]:
    """What is going on, and its style."""
    if state.name == "stopped":
        return "engine stopped", "$error"
    if state.name == "loading":
        return f"loading {shown_name(state.what)} {percent(state.share).strip()}", "$accent"
    if figures.phase == "reading":
        if figures.prompt is None:
            return "reading the prompt", "$accent"
        done = f"{whole(figures.read)} of {whole(figures.to_read)}"
        return f"reading again {done}" if figures.mostly_again else f"reading {done} tokens", "$accent"
    if figures.phase == "writing":
        return f"writing · {_tokens(figures.kept)}", "$accent"
    if figures.next_up is not None:
        # The figures stay those of the reply that was made.
        setting, fixed_k = figures.next_up
        length = "" if setting == "off" else f" · {draft_length(setting, fixed_k)}"
        return f"next: {shown_name(setting)}{length}", "$accent"
    return ("idle" if figures.phase == "idle" else f"done · {_tokens(figures.kept)}"), "$muted"


def _tokens(count: int) -> str:
    return f"{count:,} token{'' if count == 1 else 's'}"


def progress(figures: PanelFigures, state: EngineState) -> float | None:
    """The share that is done of what has an end: loading, and reading a prompt."""
    if state.name == "loading":
        return state.share
    if state.name == "ready" and figures.phase == "reading" and figures.prompt is not None:
        return figures.read / figures.to_read if figures.to_read else 1.0
    return None


def speedup_part(figures: PanelFigures, unit: str = " plain") -> Content:
    """Such as "1.62× plain", in the style that tells a gain from a loss."""
    speedup = figures.speedup
    if speedup is None:
        never = figures.phase == "done" and figures.drafted == 0
        return Content.assemble(("never drafted" if never else f"{UNKNOWN}{unit}", "$muted"))
    # As it is shown: what rounds to 1.00 is no loss.
    style = "bold $warning" if round(speedup, 2) < 1 else "bold $accent"
    return Content.assemble((f"{speedup:.2f}×", style), (unit, "$muted"))


def panel_lines(
    figures: PanelFigures,
    state: EngineState,
    unavailable: list[Content],
    width: int,
    height: int,
    theme: str,
) -> list[Content]:
    """The panel's lines, none wider than `width` cells; `unavailable` stands at the foot."""
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
        # The least that must be seen of all, and the first to go.
        why = why_lines(figures, theme)
        if len(lines) + len(why) + 1 + len(foot) < height:
            lines += [Content(), *why]
    if foot:
        lines += [Content()] * max(1, height - len(lines) - len(foot))
        lines += foot
    return [line.truncate(width, ellipsis=True) for line in lines]


def why_lines(figures: PanelFigures, theme: str) -> list[Content]:
    """The gains that the controller predicted before the last pass, the best first, and why it refused one;
    () where it does not choose. What would lose is no option."""
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
            lines.append(Content.assemble((_REFUSALS[value.refused], "$muted")))
    if not lines:
        reason = "none: no guess would gain" if figures.pause is None else _PAUSES[figures.pause]
        lines.append(Content.assemble((reason, "$muted")))
    which = "last" if figures.phase == "done" else "next"
    return [Content.assemble((f"predicted gain, {which} pass", "$muted")), *lines]


def unavailable_lines(options: Sequence[Option], width: int) -> list[Content]:
    """Which proposers cannot be chosen now, and why. Apart, as it changes seldom and costs most."""
    width = min(width, WIDEST)
    lines: list[Content] = []
    for option in options:
        if option.problem is None:
            continue
        sentence = " ".join(clean(option.problem).split())
        lines += Content.assemble((shown_name(option.name), "bold"), (f"  {sentence}", "$muted")).wrap(width)
    return [Content.assemble(("not available", "$muted")), *lines] if lines else []


def _head(figures: PanelFigures, state: EngineState, width: int, theme: str) -> list[Content]:
    share = progress(figures, state)
    name = title(figures, theme)
    length = Content.assemble((f" · {draft_length(figures.setting, figures.fixed_k)}", "$muted"))
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
    # Of plain decoding it is the number above.
    plain = Content() if figures.plain else Content.assemble((f"plain {plain_rate}{place}", "$muted"))
    top, middle, bottom = big(number.strip())
    if not tall or len(top) > width - _LABEL:
        speed = Content.assemble((number, "bold $accent"), " tok/s ")
        return [speed + gain.pad_left(width - speed.cell_length - gain.cell_length), plain, Content()]
    labels = (Content.assemble(("tokens/s", "$muted")), gain, Content())
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
        Content.assemble((f"expected {expected} · measured {measured}", "$muted")),
        Content(),
    ]


def _row(
    label: str, value: str, course: Sequence[float | None], columns: int, low: float, high: float
) -> Content:
    drawn = sparkline(course, columns, low, high).rjust(max(0, columns))
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
    return [Content.assemble((line, "$muted")) for line in lines]


def _positions(figures: PanelFigures, width: int, most: int, theme: str) -> list[Content]:
    counts = figures.by_position[:most]
    if not counts:
        return [Content.assemble((f"position 1 {UNKNOWN}", "$muted"))]
    colour = Style.from_rich_style(origin_style(figures.proposer, theme)).foreground
    style: str | Style = "$muted" if colour is None else Style(foreground=colour)
    # The first position has the most drafts.
    room = len(f"{counts[0][1]:,}")
    lines = []
    for index, (accepted, drafted) in enumerate(counts):
        label = f"{'position' if index == 0 else '':8} {index + 1} "
        said = f" {accepted:>{room},} of {drafted:>{room},}"
        share = bar(accepted / drafted, max(0, width - len(label) - len(said)))
        lines.append(Content.assemble((label, "$muted"), (share, style), said))
    return lines


def _teaching(width: int) -> list[Content]:
    lines = [*Content.assemble(("As a reply is written you will see here:", "$muted")).wrap(width), Content()]
    for term, meaning in _TEACHING:
        lines += Content.assemble((term, "bold"), (f"  {meaning}", "$muted")).wrap(width)
    explain = f"/{BY_NAME['explain'].slash} says how each is computed."
    return [*lines, Content(), *Content.assemble((explain, "$muted")).wrap(width)]
