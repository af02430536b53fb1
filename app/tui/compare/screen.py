"""The comparison of proposers on one prompt: a table and bars that fill in while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult, RenderResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Footer, Static

from app.chat.export import write_new
from app.chat.gate import clean
from app.engine.settings import Sampling
from app.errors import SpecchatError
from app.process.messages import Compared, Comparing, ComparisonEnded
from app.process.report import Report, build
from app.process.report_svg import as_svg
from app.process.report_text import HEADINGS, as_json, as_markdown, basis, cells, line, notes, settings
from app.tui.compare.picture import bars
from app.tui.dialogs.dialogue import Dialogue

_FORMATS = {"md": as_markdown, "json": as_json, "svg": as_svg}
_HINT = "Each proposer answers the same prompt with the same seed; the first text is held against the others."
_TOO_EARLY = "Nothing is measured yet: wait for the first reply."


class Bars(Widget):
    """The rates as bars, as wide as there is room."""

    def __init__(self, proposers: tuple[str, ...], id: str | None = None) -> None:
        super().__init__(id=id)
        self._proposers = proposers
        self._report: Report | None = None

    def show(self, report: Report) -> None:
        """Draw this report from now on."""
        self._report = report
        self.refresh()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """A line for each proposer, and one for the plain rate."""
        return len(self._proposers) + 1

    def render(self) -> RenderResult:
        if self._report is None:
            return ""
        theme = self.app.theme.removeprefix("specchat-")
        return bars(self._report, self._proposers, self.content_size.width, theme)


class CompareScreen(Dialogue[None]):
    """Opens before the first reply; `take` fills it in. Esc stops what still runs, then it closes.

    folder: where exports are written.
    """

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text("utf-8")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "export('md')", "Markdown"),
        Binding("j", "export('json')", "JSON"),
        Binding("s", "export('svg')", "SVG"),
        Binding("y", "copy", "copy"),
        Binding("escape", "leave", "close"),
    ]

    class Stopped(Message):
        """The comparison that runs is no longer wanted."""

    class Copy(Message):
        """This text is to be copied; `CompareScreen.say` takes the sentence that says how it went."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(
        self,
        title: str,
        model: str,
        seed: int,
        sampling: Sampling,
        proposers: tuple[str, ...],
        folder: Path | None = None,
    ) -> None:
        super().__init__()
        self._about = (title, model, seed, sampling)
        self._proposers = proposers
        self._folder = folder or Path.cwd()
        self._compared: tuple[Compared, ...] = ()
        self._growing: tuple[str, int] | None = None
        self._over = self._stopping = False
        self._ready = False
        self._said = ("", False)

    @property
    def report(self) -> Report:
        """What is known so far."""
        return build(*self._about, self._compared)

    def compose(self) -> ComposeResult:
        report = self.report
        with VerticalScroll(id="dialog") as dialog:
            dialog.border_title = "Compare"
            yield Static(report.title, id="title", markup=False)
            yield Static(settings(report), id="settings", markup=False)
            yield Static(id="table", markup=False)
            yield Bars(self._proposers, id="picture")
            yield Static(id="notes", markup=False)
            with Vertical(id="foot"):
                yield Static(id="said", markup=False)
                yield Footer(show_command_palette=False)

    def opened(self) -> None:
        self._ready = True
        self._draw()
        self.say(*self._said)

    def take(self, event: Comparing | Compared | ComparisonEnded) -> None:
        """What the engine tells of the comparison."""
        if isinstance(event, Comparing):
            self._growing = (clean(event.proposer), event.tokens)
        elif isinstance(event, Compared):
            self._compared = (*self._compared, event)
            self._growing = None
        else:
            self._over, self._growing = True, None
            self.say(event.problem or "", problem=event.problem is not None)
        self._draw()

    def say(self, sentence: str, problem: bool = False) -> None:
        """Show one line above the keys."""
        self._said = (sentence, problem)
        if self._ready:
            said = self.query_one("#said", Static)
            said.set_class(problem, "-problem")
            said.update(" ".join(clean(sentence).split()))

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
            self.say(f"Written: {path}")

    def action_copy(self) -> None:
        """Ask for the report to be copied as Markdown."""
        if self._compared:
            self.post_message(self.Copy(as_markdown(self.report)))
        else:
            self.say(_TOO_EARLY)

    def action_leave(self) -> None:
        """Stop what runs and keep what is there; close where nothing runs, or when asked once more."""
        if self._over or self._stopping:
            self.dismiss(None)
            return
        self._stopping = True
        self.post_message(self.Stopped())
        self.say("Stopping … Esc closes.")

    def _draw(self) -> None:
        if not self._ready:
            return
        report = self.report
        self._draw_table(report)
        self.query_one(Bars).show(report)
        said = (basis(report), *notes(report)) if self._compared else (_HINT,)
        self.query_one("#notes", Static).update(Content("\n".join(said)))

    def _draw_table(self, report: Report) -> None:
        self.query_one("#table", Static).update(Content("\n").join(self._lines(report)))

    def _lines(self, report: Report) -> list[Content]:
        done = {row.proposer: row for row in report.rows}
        lines = [Content.styled(line(HEADINGS), "$muted")]
        for name in self._proposers:
            row = done.get(name)
            if row is not None:
                style = "$muted" if row.outcome == "failed" else ""
                lines.append(Content.styled(line(cells(row)), style))
            elif self._growing is not None and self._growing[0] == name:
                said = f"running … {self._growing[1]} tokens"
                lines.append(Content.styled(line((name, "–", "–", "–", "–", said)), "$accent"))
            else:
                said = "not run" if self._over else "waiting"
                lines.append(Content.styled(line((name, "–", "–", "–", "–", said)), "$muted"))
        return lines
