"""The picker of models: what is on this disk, what the catalogue can download, and a path typed by hand."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from app.errors import SpecchatError
from app.models.hub import HubFile
from app.models.hub_faults import StoppedError
from app.models.pull import pull
from app.models.row import Listing, ModelRow
from app.models.transfer import DownloadProgress
from app.tui.dialogs.picker import Picker, one_line
from app.tui.models.drawing import about, files, heading, line, question, widths

_LOOKING = "looking for models …"
_NOTHING = "Nothing matches: type less, or the whole path of a .gguf file."


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """Load this file, with that draft."""

    path: str
    draft: str | None


class ModelScreen(Picker[ModelChoice | None]):
    """Opens before the models are known; `show` fills it. What is typed filters, or is a path.

    It has three faces: the list, the question before a download, and the download.
    """

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text("utf-8")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "load", "load", priority=True),
        Binding("enter", "ask", "download …", priority=True),
        Binding("enter", "download", "download", priority=True),
        Binding("escape", "leave", "close"),
        Binding("escape", "back", "back"),
        Binding("escape", "stop", "stop; what came is kept"),
        Binding("ctrl+d", "ask_draft", "download its draft …", priority=True),
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
        # A line of the list each; None for a heading.
        self._rows: tuple[ModelRow | None, ...] = ()
        self._face: Literal["list", "question", "download"] = "list"
        self._chosen: ModelRow | None = None
        self._told: dict[str, DownloadProgress] = {}
        self._stop = threading.Event()
        # One that does not fit is loaded when it is chosen again.
        self._warned: ModelRow | None = None

    def below(self) -> Iterable[Widget]:
        yield Static(id="about", markup=False)
        with VerticalScroll(id="download", can_focus=True):
            yield Static(id="question", markup=False)
            yield Static(id="files", markup=False)

    def show(self, listing: Listing) -> None:
        """These are the models."""
        self._listing = listing
        if self.ready:
            self.refill()
            if listing.fault:
                self.say(one_line(listing.fault), problem=True)

    def fail(self, message: str) -> None:
        """There is no list, and this is why."""
        self._listing = self._listing or Listing(())
        if self.ready:
            self.refill()
            self.say(one_line(message), problem=True)

    def opened(self) -> None:
        super().opened()
        self._turn("list")

    def on_unmount(self) -> None:
        """A download must not outlive its screen."""
        self._stop.set()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enter and Esc do what the face that is seen calls for."""
        row = self._highlighted
        wanted = {
            "load": self._face == "list" and (row is None or row.path is not None),
            "ask": self._face == "list" and row is not None and row.path is None,
            "ask_draft": self._face == "list" and row is not None and row.lacks_draft,
            "download": self._face == "question",
            "leave": self._face == "list",
            "back": self._face == "question",
            "stop": self._face == "download",
        }
        return wanted.get(action, True)

    # The list ---------------------------------------------------------------------------------------

    @property
    def _highlighted(self) -> ModelRow | None:
        at = self.options.highlighted if self.ready else None
        return self._rows[at] if at is not None and at < len(self._rows) else None

    def refill(self) -> None:
        if self._face != "list":
            self._show_files()
            return
        options, empty = self.options, self.query_one("#empty", Static)
        kept = self._highlighted
        self._rows = arranged(self._listing.rows if self._listing else (), self.typed)
        options.clear_options()
        cells = widths([row for row in self._rows if row], self.columns)
        for at, row in enumerate(self._rows):
            if row is None:
                following = self._rows[at + 1]
                here = following is not None and following.path is not None
                said = "on this disk" if here else "to download"
                options.add_option(Option(heading(said, cells, first=at == 0), disabled=True))
            else:
                options.add_option(Option(line(row, self._is_loaded(row), cells)))
        self._warned = None
        self.say("")
        options.display, empty.display = bool(self._rows), not self._rows
        empty.update(_LOOKING if self._listing is None else _NOTHING)
        if self._rows:
            places = [at for at, row in enumerate(self._rows) if row is not None]
            same = [at for at in places if kept is not None and self._rows[at] == kept]
            loaded = [at for at in places if (row := self._rows[at]) and self._is_loaded(row)]
            options.highlighted = (same or ([] if self.typed else loaded) or places)[0]
        else:
            self._describe()

    def _is_loaded(self, row: ModelRow) -> bool:
        return row.path is not None and os.path.realpath(row.path) == self._loaded

    @on(OptionList.OptionHighlighted)
    def _describe(self) -> None:
        if self.stands:
            row = self._highlighted
            self.query_one("#about", Static).update(about(row, self._is_loaded(row)) if row else "")
            self.refresh_bindings()

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        row = self._rows[event.option_index] if self.is_listed(event) else None
        if row is not None:
            self.action_ask() if row.path is None else self.action_load()

    def action_load(self) -> None:
        """Load what is highlighted, or say why it cannot be."""
        row = self._highlighted
        if row is None or row.path is None:
            return
        if self._is_loaded(row):
            self.say(f"{one_line(row.name)} is loaded already.")
        elif row.problem is not None:
            self.say(one_line(row.problem), problem=True)
        elif row.room and not row.room.fits and self._warned is not row:
            self._warned = row
            self.say("This may not fit into memory: press Enter again to load it anyway.", problem=True)
        else:
            self.dismiss(ModelChoice(row.path, row.partner.path if row.partner else None))

    def action_leave(self) -> None:
        """Stay with the model that is loaded."""
        self.dismiss(None)

    # The question and the download ------------------------------------------------------------------

    def action_ask(self) -> None:
        """Say what a download brings, before it begins."""
        self._chosen = self._highlighted
        if self._chosen is not None and self._chosen.lacking:
            self.query_one("#question", Static).update(question(self._chosen))
            self.say("")
            self._turn("question")

    def action_ask_draft(self) -> None:
        """The same for the draft of a model that is here."""
        self.action_ask()

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
        self._show_files()
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
        if self.stands and self._face == "download":
            self._show_files()

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
            self.say(one_line(str(event.error)), problem=True)

    def _show_files(self) -> None:
        row = self._chosen
        if row is not None:
            names = [part.file.rpartition("/")[2] for part in row.lacking]
            self.query_one("#files", Static).update(files(names, self._told, self.columns))

    def _turn(self, face: Literal["list", "question", "download"]) -> None:
        """Show another face."""
        self._face = face
        listed = face == "list"
        name = one_line(self._chosen.name) if self._chosen else ""
        self.query_one("#dialog").border_title = Content("Models" if listed else f"Download {name}")
        self.query_one(Input).display = self.query_one("#about").display = listed
        self.options.display = listed and bool(self._rows)
        self.query_one("#empty").display = listed and not self._rows
        self.query_one("#download").display = not listed
        self.query_one("#question").display = face == "question"
        self.query_one("#files").display = face == "download"
        (self.query_one(Input) if listed else self.query_one("#download")).focus()
        self.refresh_bindings()


def arranged(rows: Sequence[ModelRow], typed: str) -> tuple[ModelRow | None, ...]:
    """The lines of the list for what was typed: each group after a heading (None), or the file typed."""
    path = os.path.abspath(os.path.expanduser(typed)) if typed else ""
    if typed.startswith(("~", ".")) or os.path.isabs(typed) or (path and os.path.isfile(path)):
        there = os.path.isfile(path)
        row = ModelRow(
            name=one_line(typed),
            origin="",
            path=path,
            size=os.path.getsize(path) if there else 0,
            problem=None if there else f"There is no file {one_line(typed)}: keep typing its path.",
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
