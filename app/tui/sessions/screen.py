"""The sessions: find one by what was said in it, open it, rename it, delete it, export it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Blur, Resize
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Footer, Input, Static

from app.chat.export import file_name, markdown, write_new
from app.chat.gate import clean
from app.chat.store import MOST_FOUND, Store, Summary
from app.chat.store_search import words_of
from app.errors import SpecchatError
from app.tui.dialogs.dialogue import Dialogue
from app.tui.sessions.listing import MARK, Row, SessionList, heading

# Short enough not to be felt, long enough that a typed word is one search.
_TYPING_SECONDS = 0.06

_NONE_YET = (
    "No sessions yet.\n\n"
    "Each chat is saved here from its first question on, and survives a crash. Close this and ask something."
)
_NONE_FOUND = (
    "Nothing found.\n\n"
    "Searches titles, questions, answers and file names. Every word must occur, in any order; the last one "
    "may be unfinished."
)


class Filter(Input, inherit_bindings=False):
    """The line that searches. The keys of the list work from here too, letters aside."""

    # Ours before the line's own, which would decide their order at the foot.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "screen.open", "open"),
        Binding("f2", "screen.rename", "rename"),
        Binding("ctrl+d", "screen.delete", "delete"),
        Binding("ctrl+e", "screen.export", "export"),
        Binding("ctrl+z", "screen.undo", "undo"),
        Binding("tab", "screen.list", "list"),
        Binding("up", "screen.move(-1)", show=False),
        Binding("down", "screen.move(1)", show=False),
        Binding("pageup", "screen.page(-1)", show=False),
        Binding("pagedown", "screen.page(1)", show=False),
        *Input.BINDINGS,
    ]


class TitleEditor(Input):
    """A title being changed, over the one in the list."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "screen.save_title", "save"),
        Binding("escape", "screen.keep_title", "keep the old one"),
        Binding("tab,shift+tab", "screen.keep_title", show=False),
    ]

    class Left(Message):
        """The focus went elsewhere."""

    def on_blur(self, _event: Blur) -> None:
        # Another window of the desktop is no reason to throw away what was typed.
        if self.app.app_focus:
            self.post_message(self.Left())


class SessionsScreen(Dialogue[str | None]):
    """Gives the identity of the session to open, None to stay with the one that is open."""

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text("utf-8")
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "close")]

    def __init__(self, store: Store, current: str | None = None, folder: Path | None = None) -> None:
        """current: the identity of the open session. folder: where exports go, None for the working one."""
        super().__init__()
        self._store = store
        self._current = current
        self._folder = folder
        self._all: list[Summary] | None = None
        self._deleted: list[Summary] = []
        self._renaming: Summary | None = None
        self._typing: Timer | None = None

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog") as dialog:
            dialog.border_title = "Sessions"
            with Horizontal(id="line"):
                yield Filter(placeholder="search titles, questions and answers", select_on_focus=False)
                yield Static(id="count", markup=False)
            yield Static(id="heading", markup=False)
            with Vertical(id="body"):
                yield SessionList(self._current)
                yield TitleEditor(id="editor")
            yield Static(id="empty", markup=False)
            yield Static(id="said", markup=False)
            yield Footer(show_command_palette=False)

    def opened(self) -> None:
        self.query_one(Filter).focus()
        self._refill(keep=self._current)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What cannot be done is not offered."""
        if action == "undo":
            return bool(self._deleted)
        if action in ("open", "rename", "delete", "export", "list"):
            return self.query_one(SessionList).selected is not None or self._typing is not None
        return True

    # What is typed ----------------------------------------------------------------------------------

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if not isinstance(event.input, Filter):
            return
        if self._typing is not None:
            self._typing.stop()
        self._typing = self.set_timer(_TYPING_SECONDS, self._search)

    def _search(self) -> None:
        if self.stands:
            self._catch_up(always=True)

    def _catch_up(self, always: bool = False) -> None:
        """Search for what was typed last; keys that act on the list must not act on an older one."""
        if self._typing is None and not always:
            return
        if self._typing is not None:
            self._typing.stop()
            self._typing = None
        self._say("")
        self.query_one(SessionList).move_to(0)
        self._refill()

    def _refill(self, keep: str | None = None) -> None:
        words = words_of(self.query_one(Filter).value)
        try:
            if self._all is None:
                self._all = self._store.summaries()
            rows = [Row(each) for each in self._all]
            if words:
                rows = [Row(*found) for found in self._store.search(" ".join(words))]
        except SpecchatError as error:
            self._say(str(error), problem=True)
            rows = []
        self.query_one(SessionList).show(rows, words, keep)
        self.query_one("#body").display = self.query_one("#heading").display = bool(rows)
        empty = self.query_one("#empty", Static)
        empty.display = not rows
        empty.update(_NONE_FOUND if words else _NONE_YET)
        self.query_one("#count", Static).update(_count(len(rows), bool(words)))
        self.refresh_bindings()

    # Keys -------------------------------------------------------------------------------------------

    def action_leave(self) -> None:
        """Stay with the session that is open."""
        self.dismiss(None)

    def action_filter(self) -> None:
        """Type into the search."""
        self.query_one(Filter).focus()

    def action_list(self) -> None:
        """Go to the list, where letters are keys."""
        self._catch_up()
        self.query_one(SessionList).focus()

    def action_move(self, step: int) -> None:
        """Move through the list while the search has the focus."""
        self._catch_up()
        self.query_one(SessionList).action_move(step)

    def action_page(self, direction: int) -> None:
        """The same by pages."""
        self._catch_up()
        self.query_one(SessionList).action_page(direction)

    @on(SessionList.Opened)
    def action_open(self) -> None:
        """Open the session under the cursor."""
        if (chosen := self._chosen()) is not None:
            self.dismiss(chosen.identity)

    def action_delete(self) -> None:
        """Delete the session under the cursor, until it is undone; not the one that is open."""
        chosen = self._chosen()
        if chosen is None:
            return
        if chosen.identity == self._current:
            self._say("This session is open: open or begin another before you delete it.", problem=True)
            return
        if self._done(lambda: self._store.delete(chosen.identity)):
            self._deleted.append(chosen)
            self._refill()
            key = "u" if isinstance(self.focused, SessionList) else "Ctrl+Z"
            self._say(f"Deleted “{_short(chosen.title)}” · {key} to undo")

    def action_undo(self) -> None:
        """Bring back what was deleted last."""
        if not self._deleted:
            return
        last = self._deleted[-1]
        if self._done(lambda: self._store.undelete(last.identity)):
            self._say(f"“{_short(last.title)}” is back.")
        self._deleted.pop()
        self._refill(keep=last.identity)

    def action_export(self) -> None:
        """Write the session under the cursor to a new Markdown file."""
        chosen = self._chosen()
        if chosen is None:
            return
        try:
            saved = self._store.load(chosen.identity)
            path = (self._folder or Path.cwd()) / file_name(saved.title)
            written = write_new(path, markdown(saved.title, saved.model, saved.conversation))
        except (SpecchatError, OSError) as error:
            self._say(str(error), problem=True)
        else:
            self._say(f"Written to {clean(str(written))}")

    # Renaming ---------------------------------------------------------------------------------------

    def action_rename(self) -> None:
        """Change the title of the session under the cursor, where it stands."""
        self._renaming = self._chosen()
        if self._renaming is None:
            return
        editor, listing = self.query_one(TitleEditor), self.query_one(SessionList)
        listing.move_to(listing.cursor)
        editor.value = self._renaming.title
        editor.display = True
        self._place_editor()
        editor.focus()
        self._say("")

    def action_save_title(self) -> None:
        """Give the session the title that was typed."""
        session, title = self._renaming, self.query_one(TitleEditor).value
        self.action_keep_title()
        if session is not None and self._done(lambda: self._store.rename(session.identity, title)):
            self._refill(keep=session.identity)

    @on(TitleEditor.Left)
    def action_keep_title(self) -> None:
        """Leave the title as it was."""
        editor = self.query_one(TitleEditor)
        if not editor.display:
            return
        had_focus = editor.has_focus
        self._renaming, editor.display = None, False
        if had_focus:
            self.query_one(SessionList).focus()

    @on(SessionList.Scrolled)
    def _place_editor(self) -> None:
        editor, listing = self.query_one(TitleEditor), self.query_one(SessionList)
        editor.styles.offset = (MARK, listing.cursor_line)
        editor.styles.width = max(8, listing.scrollable_content_region.width - MARK)

    @on(Resize)
    def _resized(self) -> None:
        self.call_after_refresh(self._arrange)

    def _arrange(self) -> None:
        if not self.stands:
            return
        width = self.query_one("#body").content_region.width
        self.query_one("#heading", Static).update(heading(width - 1))
        self._place_editor()

    # ------------------------------------------------------------------------------------------------

    def _chosen(self) -> Summary | None:
        self._catch_up()
        return self.query_one(SessionList).selected

    def _done(self, change: Callable[[], None]) -> bool:
        """Change the store; what the list shows is then asked for anew."""
        self._all = None
        try:
            change()
        except SpecchatError as error:
            self._say(str(error), problem=True)
            return False
        return True

    def _say(self, sentence: str, problem: bool = False) -> None:
        said = self.query_one("#said", Static)
        said.set_class(problem, "-problem")
        said.update(sentence)


def _count(rows: int, searched: bool) -> str:
    if not rows:
        return ""
    if not searched:
        return f"{rows:,} {'session' if rows == 1 else 'sessions'}"
    return f"newest {rows} found" if rows >= MOST_FOUND else f"{rows} found"


def _short(title: str, longest: int = 40) -> str:
    return title if len(title) <= longest else title[: longest - 1].rstrip() + "…"
