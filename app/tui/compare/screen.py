"""The comparison of proposers on one prompt: two replies side by side, and a table of all that fills in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Footer, Static

from app.chat.export import write_new
from app.engine.events import times_plain
from app.engine.settings import Sampling
from app.errors import SpecchatError
from app.process.events import Cancelled, Compared, ComparisonEnded, ComparisonProgress, Event, Failed
from app.process.report import Report, ReportRow, build
from app.process.report_svg import as_svg
from app.process.report_text import (
    HEADINGS,
    as_json,
    as_markdown,
    basis,
    cells,
    line,
    notes,
    rate,
    settings,
    speedup,
)
from app.text import clean
from app.tui.compare.picture import bars
from app.tui.dialogs.dialogue import Awaited, Dialogue
from app.tui.dialogs.lines import Picture

WIDE = 110
_ENDED = {ComparisonEnded: "done", Cancelled: "stopped", Failed: "failed"}
_FORMATS = {"md": as_markdown, "json": as_json, "svg": as_svg}
_HINT = "Every proposer answers the same prompt with the same seed; they take turns."
_TOO_EARLY = "Nothing is measured yet: wait for the first reply."


class ReplyColumn(VerticalScroll):
    """One proposer's reply as it is written, with its figures in the border."""

    def __init__(self, proposer: str) -> None:
        super().__init__()
        self.proposer = proposer
        self._text = ""
        self._shown = Static(markup=False)

    def compose(self) -> ComposeResult:
        yield self._shown

    def show(self, text: str, figures: str) -> None:
        """The whole text so far, and what is said of it."""
        name = "plain (off)" if self.proposer == "off" else self.proposer
        self.border_title = Content(f"{name} · {figures}")
        if text != self._text:
            self._text = text
            self._shown.update(text)
            self.call_after_refresh(self._follow)

    def _follow(self) -> None:
        """Keep the newest line in sight until somebody scrolls; a short text would stick to the bottom."""
        if self.max_scroll_y and not self.is_anchored:
            self.anchor()


class CompareScreen(Dialogue[None]):
    """Opens before the first reply; `take` fills it in. Esc stops what still runs, then closes.

    stop: ends the comparison that runs. copy: copies a text and returns a sentence that says how. folder:
    where exports are written, None for the working one.
    """

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text("utf-8")
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide")]  # noqa: RUF012 - as Textual declares it
    AWAITS: ClassVar[Awaited | None] = "comparison"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "export('md')", "Markdown"),
        Binding("j", "export('json')", "JSON"),
        Binding("s", "export('svg')", "SVG"),
        Binding("y", "copy", "copy"),
        Binding("escape", "stop", "stop"),
        Binding("escape", "leave", "close"),
    ]

    def __init__(
        self,
        title: str,
        model: str,
        seed: int,
        sampling: Sampling,
        proposers: tuple[str, ...],
        *,
        stop: Callable[[], None],
        copy: Callable[[str], str],
        folder: Path | None = None,
    ) -> None:
        super().__init__()
        self._about = (title, model, seed, sampling)
        self._proposers = proposers
        self._end_comparison = stop
        self._copy = copy
        self._folder = folder or Path.cwd()
        self._compared: tuple[Compared, ...] = ()
        # The last news of each reply, and the texts.
        self._progress: dict[str, ComparisonProgress] = {}
        self._texts: dict[str, str] = {}
        self._latest = ""
        self._left: float | None = None
        self._ended: ComparisonEnded | Cancelled | Failed | None = None
        self._stopping = self._ready = False

    @property
    def report(self) -> Report:
        """What is known so far, in the order of the proposers."""
        done = {compared.proposer: compared for compared in self._compared}
        return build(*self._about, [done[name] for name in self._proposers if name in done])

    def compose(self) -> ComposeResult:
        report = self.report
        with VerticalScroll(id="dialog"):
            yield Static(report.title, id="title", markup=False)
            yield Static(settings(report), id="settings", markup=False)
            with Horizontal(id="columns"):
                # Plain decoding beside what the chat would do by itself.
                for name in dict.fromkeys((self._proposers[0], self._proposers[-1])):
                    yield ReplyColumn(name)
            yield Static(id="table", markup=False)
            picture = Picture(self._draw_bars, id="picture")
            # A line for each proposer, and one for the plain rate.
            picture.styles.height = len(self._proposers) + 1
            yield picture
            yield Static(id="notes", markup=False)
            with Vertical(id="foot"):
                yield Static(id="said", markup=False)
                yield Footer(show_command_palette=False)

    def opened(self) -> None:
        self._ready = True
        self._draw()

    def take(self, event: Event) -> None:
        """What the engine tells of the comparison."""
        if isinstance(event, ComparisonProgress):
            name = self._latest = event.proposer
            self._progress[name] = event
            self._texts[name] = self._texts.get(name, "") + clean(event.text)
            self._left = event.left
        elif isinstance(event, Compared):
            self._compared = (*self._compared, event)
        elif isinstance(event, (ComparisonEnded, Cancelled, Failed)):
            self._ended = event
            self.refresh_bindings()
        self._draw()

    def action_export(self, ending: str) -> None:
        """Write the report to a new file of the folder and say which."""
        if not self._compared:
            self.say(_TOO_EARLY)
            return
        try:
            path = write_new(self._folder / f"specchat-compare.{ending}", _FORMATS[ending](self.report))
        except SpecchatError as error:
            self.say(str(error), problem=True)
        else:
            self.say(f"Written to {path}")

    def action_copy(self) -> None:
        """Copy the report as Markdown."""
        self.say(self._copy(as_markdown(self.report)) if self._compared else _TOO_EARLY)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Esc stops what runs; where nothing runs, or pressed again, it closes."""
        runs = self._ended is None and not self._stopping
        return {"stop": runs, "leave": not runs}.get(action, True)

    def action_stop(self) -> None:
        """Stop what runs and keep what is there."""
        self._stopping = True
        self._end_comparison()
        self.refresh_bindings()
        self._draw()

    def _draw(self) -> None:
        if not self._ready:
            return
        report = self.report
        rows = {row.proposer: row for row in report.rows}
        self.query_one("#dialog").border_title = f"Compare · {self._state()}"
        for column in self.query(ReplyColumn):
            row = rows.get(column.proposer)
            column.show(self._texts.get(column.proposer, ""), self._figures(column.proposer, row))
        self.query_one("#table", Static).update(Content("\n").join(self._lines(rows)))
        self.query_one("#picture").refresh()
        said = (basis(report), *notes(report)) if self._compared else (_HINT,)
        self.query_one("#notes", Static).update(Content("\n".join(said)))
        if isinstance(self._ended, Failed):
            self.say(self._ended.message, problem=True)

    def _draw_bars(self, width: int, height: int, theme: str) -> Text:
        return bars(self.report, self._proposers, width, theme)

    def _state(self) -> str:
        if self._ended is not None:
            return _ENDED[type(self._ended)]
        if self._stopping:
            return "stopping …"
        return "reading the prompt …" if self._left is None else f"about {self._left:.0f} s left"

    def _figures(self, name: str, row: ReportRow | None) -> str:
        """A column's tokens per second, seconds of decoding, and what they come to."""
        so_far = self._progress.get(name)
        if so_far is None or not so_far.seconds:
            return "could not run" if row and row.problem else "waiting" if self._ended is None else "not run"
        told = f"{rate(so_far.tokens / so_far.seconds)} tok/s · {so_far.seconds:.1f} s"
        ratio = self._ratio(so_far) if row is None or row.problem else speedup(row)
        return told if ratio == "–" else f"{told} · {ratio}"

    def _ratio(self, so_far: ComparisonProgress) -> str:
        """The speed of a reply so far over that of the plain one so far."""
        plain = self._progress.get("off")
        if plain is None or not plain.tokens or not so_far.seconds:
            return "–"
        speed = so_far.tokens / so_far.seconds
        ratio = times_plain((so_far.proposer,), so_far.drafted, speed, plain.seconds / plain.tokens)
        return "–" if ratio is None else f"{ratio:.2f}×"

    def _lines(self, rows: dict[str, ReportRow]) -> list[Content]:
        lines = [Content.styled(line(HEADINGS), "$muted")]
        for name in self._proposers:
            row, so_far = rows.get(name), self._progress.get(name)
            if row is not None:
                lines.append(Content.styled(line(cells(row)), "$muted" if row.outcome == "failed" else ""))
                continue
            speed, ratio, said = "–", "–", "waiting" if self._ended is None else "not run"
            if so_far is not None and so_far.seconds:
                speed, ratio = rate(so_far.tokens / so_far.seconds), self._ratio(so_far)
                said = f"{so_far.tokens} token{'s' * (so_far.tokens != 1)}"
            runs = name == self._latest and self._ended is None
            lines.append(
                Content.styled(line((name, speed, ratio, "–", "–", said)), "$accent" if runs else "$muted")
            )
        return lines
