"""The sessions: find one by what was said in it, open it, rename it, delete it, export it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import ClassVar, TypeVar

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
from app.session.autosave import Autosave
from app.tui.dialogs.dialogue import Dialogue
from app.tui.sessions.listing import MARK, Row, SessionList, heading

Answered = TypeVar("Answered")

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

    def __init__(self, autosave: Autosave, folder: Path | None = None) -> None:
        """folder: where exports go, None for the working one."""
        super().__init__()
        self._autosave = autosave
        self._folder = folder
        self._deleted: list[Summary] = []
        self._renaming: Summary | None = None
        self._typing: Timer | None = None
        # What keys ask for while the list that they are for is not there yet; None while it is.
        self._then: list[Callable[[], None]] | None = None

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog") as dialog:
            dialog.border_title = "Sessions"
            with Horizontal(id="line"):
                yield Filter(placeholder="search titles, questions and answers", select_on_focus=False)
                yield Static(id="count", markup=False)
            yield Static(id="heading", markup=False)
            with Vertical(id="body"):
                yield SessionList(self._autosave.identity)
                yield TitleEditor(id="editor")
            yield Static(id="empty", markup=False)
            yield Static(id="said", markup=False)
            yield Footer(show_command_palette=False)

    def opened(self) -> None:
        self.query_one(Filter).focus()
        self.query_one("#count", Static).update("loading …")
        self._refill(keep=self._autosave.identity)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What cannot be done is not offered."""
        if self._typing is not None or self._then is not None:
            return True
        if action == "undo":
            return bool(self._deleted)
        if action in ("open", "rename", "delete", "export", "list"):
            return self.query_one(SessionList).selected is not None
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
            self._say("")
            self.query_one(SessionList).move_to(0)
            self._refill()

    def _refill(
        self,
        keep: str | None = None,
        change: Future[None] | None = None,
        done: Callable[[], None] = lambda: None,
    ) -> None:
        """Show what the store holds after `change`, and do what is `done` when that went well."""
        if self._typing is not None:
            self._typing.stop()
            self._typing = None
        words = words_of(self.query_one(Filter).value)

        def look(store: Store) -> list[Row]:
            if words:
                return [Row(*found) for found in store.search(" ".join(words))]
            return [Row(each) for each in store.summaries()]

        self._then = then = list[Callable[[], None]]()

        async def fill() -> None:
            try:
                if change is not None:
                    # A list that is closed must not take back what was asked for in it.
                    await asyncio.shield(asyncio.wrap_future(change))
                    done()
            except SpecchatError as error:
                self._say(str(error), problem=True)
            rows = await self._answer(asked) or []
            newest = then is self._then
            if newest:
                self._then = None
            if newest or then:
                self._show(rows, words, keep)
            for act in then:
                # What changes the list has the next key wait again; but not for what was typed after it.
                self._when_filled(act) if newest else act()
            self.refresh_bindings()

        asked = self._autosave.ask(look)
        self.run_worker(fill())

    async def _answer(self, asked: Future[Answered]) -> Answered | None:
        """What the store answers; None, and a line that says why, where it cannot."""
        try:
            return await asyncio.wrap_future(asked)
        except SpecchatError as error:
            self._say(str(error), problem=True)
            return None

    def _show(self, rows: list[Row], words: tuple[str, ...], keep: str | None) -> None:
        self.query_one(SessionList).show(rows, words, keep)
        self.query_one("#body").display = self.query_one("#heading").display = bool(rows)
        empty = self.query_one("#empty", Static)
        empty.display = not rows
        empty.update(_NONE_FOUND if words else _NONE_YET)
        self.query_one("#count", Static).update(_count(len(rows), bool(words)))

    def _when_filled(self, act: Callable[[], None]) -> None:
        """Do this to the list of what was typed last, not to an older one."""
        if self._typing is not None:
            self._search()
        if self._then is None:
            act()
        else:
            self._then.append(act)

    # Keys -------------------------------------------------------------------------------------------

    def action_leave(self) -> None:
        """Stay with the session that is open."""
        self.dismiss(None)

    def action_filter(self) -> None:
        """Type into the search."""
        self.query_one(Filter).focus()

    def action_list(self) -> None:
        """Go to the list, where letters are keys."""
        self.query_one(SessionList).focus()

    def action_move(self, step: int) -> None:
        """Move through the list while the search has the focus."""
        self._when_filled(lambda: self.query_one(SessionList).action_move(step))

    def action_page(self, direction: int) -> None:
        """The same by pages."""
        self._when_filled(lambda: self.query_one(SessionList).action_page(direction))

    @on(SessionList.Opened)
    def action_open(self) -> None:
        """Open the session under the cursor."""
        self._with_chosen(lambda chosen: self.dismiss(chosen.identity))

    def action_delete(self) -> None:
        """Delete the session under the cursor, until it is undone; not the one that is open."""
        self._with_chosen(self._delete)

    def _delete(self, chosen: Summary) -> None:
        if chosen.identity == self._autosave.identity:
            self._say("This session is open: open or begin another before you delete it.", problem=True)
            return

        def done() -> None:
            self._deleted.append(chosen)
            key = "u" if isinstance(self.focused, SessionList) else "Ctrl+Z"
            self._say(f"Deleted “{_short(chosen.title)}” · {key} to undo")

        self._refill(change=self._autosave.ask(lambda store: store.delete(chosen.identity)), done=done)

    def action_undo(self) -> None:
        """Bring back what was deleted last."""
        self._when_filled(self._undo)

    def _undo(self) -> None:
        if not self._deleted:
            return
        last = self._deleted.pop()
        change = self._autosave.ask(lambda store: store.undelete(last.identity))
        self._refill(last.identity, change, lambda: self._say(f"“{_short(last.title)}” is back."))

    def action_export(self) -> None:
        """Write the session under the cursor to a new Markdown file."""
        self._with_chosen(self._export)

    def _export(self, chosen: Summary) -> None:
        def export(store: Store) -> Path:
            saved = store.load(chosen.identity)
            path = (self._folder or Path.cwd()) / file_name(saved.title)
            return write_new(path, markdown(saved.title, saved.model, saved.conversation))

        async def tell() -> None:
            written = await self._answer(asked)
            if written is not None:
                self._say(f"Written to {clean(str(written))}")

        asked = self._autosave.ask(export)
        self.run_worker(tell())

    # Renaming ---------------------------------------------------------------------------------------

    def action_rename(self) -> None:
        """Change the title of the session under the cursor, where it stands."""
        self._with_chosen(self._rename)

    def _rename(self, chosen: Summary) -> None:
        self._renaming = chosen
        editor, listing = self.query_one(TitleEditor), self.query_one(SessionList)
        listing.move_to(listing.cursor)
        editor.value = chosen.title
        editor.display = True
        self._place_editor()
        editor.focus()
        self._say("")

    def action_save_title(self) -> None:
        """Give the session the title that was typed."""
        session, title = self._renaming, self.query_one(TitleEditor).value
        self.action_keep_title()
        if session is not None:
            self._refill(session.identity, self._autosave.rename(session.identity, title))

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

    def _with_chosen(self, act: Callable[[Summary], object]) -> None:
        """Do this to the session under the cursor of the list of what was typed last."""

        def with_it() -> None:
            if (chosen := self.query_one(SessionList).selected) is not None:
                act(chosen)

        self._when_filled(with_it)

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
