"""The picker of models: what is on this disk, what the catalogue can download, and a path typed by hand."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.visual import VisualType
from textual.widget import Widget
from textual.widgets import OptionList, Static

from app.errors import SpecchatError
from app.models.hub import HubFile
from app.models.hub_faults import StoppedError
from app.models.pull import pull
from app.models.row import Listing, ModelRow
from app.models.transfer import DownloadProgress
from app.process.events import Event, Failed, Models
from app.text import one_line
from app.tui.dialogs.dialogue import Awaited
from app.tui.dialogs.lines import LazyLines
from app.tui.dialogs.picker import Picker
from app.tui.models.drawing import ColumnWidths, about, files, heading, line, question

_LOOKING = "looking for models …"
_NOTHING = "Nothing matches: type less, or the whole path of a .gguf file."


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """Load this file, with that draft."""

    path: str
    draft: str | None


class ModelScreen(Picker[ModelRow, ModelChoice | None]):
    """Opens before the models are known; `take` brings them. What is typed filters, or is a path.

    It has three faces: the list, the question before a download, and the download.
    """

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text("utf-8")
    AWAITS: ClassVar[Awaited | None] = "models"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "load", "load", priority=True),
        Binding("enter", "ask('model')", "download …", priority=True),
        Binding("enter", "download", "download", priority=True),
        Binding("escape", "leave", "close"),
        Binding("escape", "back", "back"),
        Binding("escape", "stop", "stop; what came is kept"),
        Binding("ctrl+d", "ask('draft')", "download its draft …", priority=True),
    ]

    class Told(Message):
        """How far a file is."""

        def __init__(self, progress: DownloadProgress) -> None:
            super().__init__()
            self.progress = progress

    class Ended(Message):
        """A download's end: the files, or why there are none."""

        def __init__(self, paths: Sequence[Path], error: SpecchatError | None) -> None:
            super().__init__()
            self.paths = tuple(paths)
            self.error = error

    def __init__(self, loaded: str | None) -> None:
        """loaded: the path of the model that is loaded."""
        super().__init__("Models", "filter, or the path of a .gguf file")
        self._loaded = os.path.realpath(loaded) if loaded else None
        self._listing: Listing | None = None
        self._face: Literal["list", "question", "download"] = "list"
        self._chosen: ModelRow | None = None
        self._told: dict[str, DownloadProgress] = {}
        self._stop = threading.Event()
        # One that does not fit is loaded when it is chosen again.
        self._warned: ModelRow | None = None

    def body(self) -> Iterable[Widget]:
        yield self.options
        yield Static(id="about", markup=False)
        with VerticalScroll(id="download", can_focus=True):
            yield Static(id="question", markup=False)
            yield Static(LazyLines(self._files), id="files")

    def take(self, event: Event) -> None:
        """The models, or why there is no list."""
        fault = None
        if isinstance(event, Models):
            self._listing, fault = event.listing, event.listing.fault
        elif isinstance(event, Failed):
            self._listing, fault = self._listing or Listing(()), event.message
        self.refresh_list()
        if fault and self.options.is_mounted:
            self.say(fault, problem=True)

    def opened(self) -> None:
        super().opened()
        self._turn("list")

    def on_unmount(self) -> None:
        """A download must not outlive its screen."""
        self._stop.set()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enter and Esc do what the face that is seen calls for."""
        row = self.highlighted
        listed = self._face == "list"
        wanted = {
            "load": listed and (row is None or row.path is not None),
            "ask": listed
            and row is not None
            and (row.lacks_draft if "draft" in parameters else not row.path),
            "download": self._face == "question",
            "leave": listed,
            "back": self._face == "question",
            "stop": self._face == "download",
        }
        return wanted.get(action, True)

    # The list ---------------------------------------------------------------------------------------

    def refill(self) -> None:
        if self._face != "list":
            return
        rows = arranged(self._listing.rows if self._listing else (), self.typed)
        widths = ColumnWidths.of([row for row in rows if row])
        lines: list[tuple[ModelRow | None, VisualType]] = []
        for at, row in enumerate(rows):
            if row is None:
                following = rows[at + 1]
                said = "on this disk" if following and following.path else "to download"
                lines.append((None, LazyLines(partial(heading, said, widths, at == 0))))
            else:
                lines.append((row, LazyLines(partial(line, row, self._is_loaded(row), widths))))
        kept = self.highlighted
        loaded = [row for row in rows if row and self._is_loaded(row) and not self.typed]
        nothing = _LOOKING if self._listing is None else _NOTHING
        self.fill(lines, [*([kept] if kept else []), *loaded], nothing)
        self._warned = None
        self.say("")
        if not rows:
            self._describe()

    def _is_loaded(self, row: ModelRow) -> bool:
        return row.path is not None and os.path.realpath(row.path) == self._loaded

    @on(OptionList.OptionHighlighted)
    def _describe(self) -> None:
        if self.stands:
            row = self.highlighted
            self.query_one("#about", Static).update(about(row, self._is_loaded(row)) if row else "")
            self.refresh_bindings()

    def choose(self, item: ModelRow) -> None:
        self.action_ask("model") if item.path is None else self.action_load()

    def action_load(self) -> None:
        """Load what is highlighted, or say why it cannot be."""
        row = self.highlighted
        if row is None or row.path is None:
            return
        if self._is_loaded(row):
            self.say(f"{row.name} is loaded already.")
        elif row.problem is not None:
            self.say(row.problem, problem=True)
        elif row.room and not row.room.fits and self._warned is not row:
            self._warned = row
            self.say("This may not fit into memory: press Enter again to load it anyway.", problem=True)
        else:
            self.dismiss(ModelChoice(row.path, row.partner.path if row.partner else None))

    # The question and the download ------------------------------------------------------------------

    def action_ask(self, what: str) -> None:
        """Say what a download brings, before it begins: a model ("model"), or the draft of one ("draft")."""
        self._chosen = self.highlighted
        if self._chosen is not None and self._chosen.lacking:
            self.query_one("#question", Static).update(question(self._chosen))
            self.say("")
            self._turn("question")

    def action_back(self) -> None:
        """Go back to the list."""
        self._turn("list")
        self.refill()

    def action_download(self) -> None:
        """Download target and draft; then the model is loaded."""
        row = self._chosen
        if row is None:
            return
        self._told.clear()
        self._stop.clear()
        self.say("")
        self._turn("download")
        # Not one of Textual's: the app would wait for it as it ends, a slow network's time long.
        threading.Thread(target=self._pull, args=(row.lacking,), name="download", daemon=True).start()

    def action_stop(self) -> None:
        """End the download; what has come is kept."""
        self._stop.set()

    def _pull(self, parts: Sequence[HubFile]) -> None:
        """Runs in a thread."""
        try:
            paths = pull(parts, self._tell, self._stop.is_set)
        except SpecchatError as error:
            self.post_message(self.Ended((), error))
        else:
            self.post_message(self.Ended(paths, None))

    def _tell(self, progress: DownloadProgress) -> None:
        self.post_message(self.Told(progress))

    @on(Told)
    def _is_told(self, event: Told) -> None:
        event.stop()
        self._told[event.progress.file] = event.progress
        if self.stands:
            self.query_one("#files").refresh(layout=True)

    @on(Ended)
    def _has_ended(self, event: Ended) -> None:
        event.stop()
        if not self.stands:
            return
        row = self._chosen
        if event.error is None and row is not None and self.is_active:
            paths = [*([row.path] if row.path else []), *map(str, event.paths)]
            self.dismiss(ModelChoice(paths[0], paths[1] if len(paths) > 1 else None))
            return
        self._turn("question")
        if event.error is None:
            # Something else is in front.
            self.say("Downloaded: Enter loads the model.")
        elif isinstance(event.error, StoppedError):
            self.say("Stopped: Enter resumes the download.")
        else:
            self.say(str(event.error), problem=True)

    def _files(self, columns: int) -> Content:
        parts = self._chosen.lacking if self._chosen else ()
        return files([part.file.rpartition("/")[2] for part in parts], self._told, columns)

    def _turn(self, face: Literal["list", "question", "download"]) -> None:
        """Show another face."""
        self._face = face
        listed = face == "list"
        name = one_line(self._chosen.name) if self._chosen else ""
        self.query_one("#dialog").border_title = Content("Models" if listed else f"Download {name}")
        self.input.display = self.query_one("#about").display = listed
        self.options.display = listed and bool(self.items)
        self.query_one("#empty").display = listed and not self.items
        self.query_one("#download").display = not listed
        self.query_one("#question").display = face == "question"
        self.query_one("#files").display = face == "download"
        (self.input if listed else self.query_one("#download")).focus()
        self.refresh_bindings()


def arranged(rows: Sequence[ModelRow], typed: str) -> tuple[ModelRow | None, ...]:
    """The lines of the list for what was typed: each group after a heading (None), or the file typed."""
    path = os.path.abspath(os.path.expanduser(typed)) if typed else ""
    if typed.startswith(("~", ".")) or os.path.isabs(typed) or (path and os.path.isfile(path)):
        there = os.path.isfile(path)
        row = ModelRow(
            name=typed,
            origin="",
            path=path,
            size=os.path.getsize(path) if there else 0,
            problem=None if there else f"There is no file {typed}: type the rest of its path.",
        )
        return (None, row)
    words = typed.casefold().split()
    matching = [
        row
        for row in rows
        if row.problem is None and all(word in f"{row.name} {row.title or ''}".casefold() for word in words)
    ]
    here = [row for row in matching if row.path is not None]
    others = [row for row in matching if row.path is None]
    return (*([None, *here] if here else []), *([None, *others] if others else []))
