"""What the panel and the strip share: parts of their lines, and how these are painted."""

from __future__ import annotations

from textual.content import Content
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.style import Style

from app.session.figures import READY, EngineState, PanelFigures
from app.text import one_line
from app.tui.numbers import UNKNOWN, counted, percent, whole
from app.tui.theme import origin_style


class FigureLines(ScrollView):
    """Lines that a subclass makes of the figures of a reply: the one being written, or the last one.

    Only the lines that changed are painted. Painting a whole widget of text takes three times as long, on the
    processor that the model needs.
    """

    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.figures = PanelFigures()
        self.state = READY
        self._lines: list[Content] = []

    def lines(self, width: int, height: int) -> list[Content]:
        """The lines now, none wider than `width` cells."""
        raise NotImplementedError

    @property
    def settings_theme(self) -> str:
        """The theme by its name in the settings."""
        return self.app.theme.removeprefix("specchat-")

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self.draw())

    def on_resize(self) -> None:
        self.draw()

    def draw(self) -> None:
        """Make the lines, and paint those that changed."""
        width, height = self.scrollable_content_region.size
        if width == 0:
            return
        before, self._lines = self._lines, self.lines(width, height)
        if len(self._lines) != len(before):
            self.virtual_size = Size(width, len(self._lines))
            self.refresh()
            return
        pairs = enumerate(zip(before, self._lines, strict=True), -self.scroll_offset.y)
        if changed := [Region(0, y, width, 1) for y, (old, new) in pairs if not new.is_same(old)]:
            self.refresh(*changed)

    def render_line(self, y: int) -> Strip:
        index = y + self.scroll_offset.y
        width, style = self.scrollable_content_region.width, self.visual_style
        if index >= len(self._lines):
            return Strip.blank(width, style.rich_style)
        segments = self._lines[index].render_segments(style)
        return Strip(segments).adjust_cell_length(width, style.rich_style)


def shown_name(name: str, width: int = 16) -> str:
    """A name from outside on one line, cut to `width` cells, without control characters."""
    return Content(one_line(name)).truncate(width, ellipsis=True).plain


def muted(text: str) -> Content:
    """Text that is less important than the figures."""
    return Content.styled(text, "$muted")


def title(figures: PanelFigures, theme: str) -> Content:
    """The proposer that was set, and what it did, such as "auto → lookup".

    Each name has the colour that its tokens have in the text, and so is a legend for it.
    """

    def named(name: str) -> Content:
        style = Style.from_rich_style(origin_style(name, theme))
        return Content.assemble((shown_name(name), style + Style(bold=True)))

    setting = named(figures.setting)
    if figures.plain or not figures.passes or figures.drafters == (figures.setting,):
        return setting
    did = Content(" + ").join(map(named, figures.drafters)) if figures.drafters else Content("plain")
    return Content.assemble(setting, (" → ", "$muted"), did)


def draft_length(setting: str, fixed_k: int | None) -> str:
    """Such as "k auto" and "k 4"."""
    if setting == "off":
        return "plain decoding"
    return "k auto" if fixed_k is None else f"k {fixed_k}"


def state_text(figures: PanelFigures, state: EngineState) -> tuple[str, str]:
    """What the engine is doing, and its style."""
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
        return f"writing · {counted(figures.kept, 'token')}", "$accent"
    if figures.next_up is not None:
        # The figures stay those of the last reply.
        setting, fixed_k = figures.next_up
        length = "" if setting == "off" else f" · {draft_length(setting, fixed_k)}"
        return f"next: {shown_name(setting)}{length}", "$accent"
    return ("idle" if figures.phase == "idle" else f"done · {counted(figures.kept, 'token')}"), "$muted"


def progress(figures: PanelFigures, state: EngineState) -> float | None:
    """The share that is done of loading, or of reading a prompt; None of anything else."""
    if state.name == "loading":
        return state.share
    if state.name == "ready" and figures.phase == "reading" and figures.prompt is not None:
        return figures.read / figures.to_read if figures.to_read else 1.0
    return None


def speedup_part(figures: PanelFigures, unit: str = " plain") -> Content:
    """Such as "1.62× plain", in the style of a gain or of a loss."""
    speedup = figures.speedup
    if speedup is None:
        never = figures.phase == "done" and figures.drafted == 0
        return Content.assemble(("never drafted" if never else f"{UNKNOWN}{unit}", "$muted"))
    # Rounded as it is shown: 1.00 is no loss.
    style = "bold $warning" if round(speedup, 2) < 1 else "bold $accent"
    return Content.assemble((f"{speedup:.2f}×", style), (unit, "$muted"))
