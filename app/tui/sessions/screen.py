"""The sessions: find one by what was said in it, open it, rename it, delete it, export it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import ClassVar, TypeVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import DescendantBlur, Resize
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input, Static

from app.chat.export import file_name, markdown, write_new
from app.chat.store import MOST_FOUND, Store, Summary
from app.chat.store_search import words_of
from app.errors import SpecchatError
from app.session.autosave import Autosave
from app.tui.dialogs.lines import LazyLines, cut
from app.tui.dialogs.picker import Picker
from app.tui.sessions.listing import FoundSession, SessionList, heading, lines

Answered = TypeVar("Answered")

# Short enough not to be felt, long enough that a typed word is one search.
_TYPING_SECONDS = 0.06
# Cells before a title in the list, and of a title in a sentence.
_BEFORE_TITLE = 3
_TITLE = 40

_NONE_YET = (
    "No sessions yet.\n\nEach chat is saved here from its first question on. Press Esc and ask something."
)
_NONE_FOUND = (
    "Nothing found.\n\n"
    "The search looks into titles, questions, answers and file names for all of these words, in any order."
)


class SearchLine(Input, inherit_bindings=False):
    """The line that searches. The keys of the list work from here too, letters aside."""

    # Before the line's own, which would decide their order in the footer.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "screen.choose", "open"),
        Binding("f2", "screen.rename", "rename"),
        Binding("ctrl+d", "screen.delete", "delete"),
        Binding("ctrl+e", "screen.export", "export"),
        Binding("ctrl+z", "screen.undo", "undo"),
        Binding("tab", "screen.list", "list"),
        *Input.BINDINGS,
    ]


class TitleEditor(Input):
    """A title being changed, over the one in the list."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "screen.save_title", "save"),
        Binding("escape", "screen.keep_title", "keep the old one"),
        Binding("tab,shift+tab", "screen.keep_title", show=False),
    ]


def _on_highlighted(act: Callable[[SessionsScreen, Summary], None]) -> Callable[[SessionsScreen], None]:
    """An action on the session that is highlighted in the list of what was typed last."""

    def action(screen: SessionsScreen) -> None:
        def with_it() -> None:
            if (chosen := screen.highlighted) is not None:
                act(screen, chosen.summary)

        screen.when_filled(with_it)

    return action


class SessionsScreen(Picker[FoundSession, str | None]):
    """Gives the identity of the session to open, None to stay with the one that is open."""

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text("utf-8")

    def __init__(self, autosave: Autosave, folder: Path | None = None) -> None:
        """folder: where exports go, None for the working one."""
        super().__init__("Sessions", "search titles, questions and answers", SearchLine, SessionList)
        self._autosave = autosave
        self._folder = folder
        self._deleted: list[Summary] = []
        self._renaming: Summary | None = None
        self._typing: Timer | None = None
        # What keys ask for while the list that they are for is not there yet; None while it is.
        self._then: list[Callable[[], None]] | None = None
        # Lines of each session in the list.
        self._height = 1

    def body(self) -> Iterable[Widget]:
        yield Static(LazyLines(heading, 1), id="heading")
        with Vertical(id="list"):
            yield self.options
            yield TitleEditor(id="editor")

    def opened(self) -> None:
        self.input.focus()
        self.query_one("#dialog").border_subtitle = "loading …"
        self.watch(self.options, "scroll_y", self._place_editor)
        self._refill(keep=self._autosave.identity)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What cannot be done is not offered; while a title is edited only its own keys act."""
        if self._renaming is not None:
            return action in ("save_title", "keep_title")
        if self._typing is not None or self._then is not None:
            return True
        if action == "undo":
            return bool(self._deleted)
        if action in ("choose", "rename", "delete", "export", "list"):
            return self.highlighted is not None
        return True

    # What is typed ----------------------------------------------------------------------------------

    def refill(self) -> None:
        """Search for what is typed, once no more is."""
        if self._typing is not None:
            self._typing.stop()
        self._typing = self.set_timer(_TYPING_SECONDS, self._search)

    def _search(self) -> None:
        if self.stands:
            self.say("")
            self.options.action_first()
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
        words = words_of(self.input.value)

        def look(store: Store) -> list[FoundSession]:
            if words:
                return [FoundSession(*found) for found in store.search(" ".join(words))]
            return [FoundSession(each) for each in store.summaries()]

        self._then = then = list[Callable[[], None]]()

        async def fill() -> None:
            try:
                if change is not None:
                    # A list that is closed must not take back what was asked for in it.
                    await asyncio.shield(asyncio.wrap_future(change))
                    done()
            except SpecchatError as error:
                self.say(str(error), problem=True)
            rows = await self._answer(asked) or []
            if not self.stands:
                return
            newest = then is self._then
            if newest:
                self._then = None
            if newest or then:
                self._show(rows, words, keep)
            for act in then:
                # What changes the list has the next key wait again; but not for what was typed after it.
                self.when_filled(act) if newest else act()
            self.refresh_bindings()

        asked = self._autosave.ask(look)
        self.run_worker(fill())

    async def _answer(self, asked: Future[Answered]) -> Answered | None:
        """What the store answers; None, and a line that says why, where it cannot."""
        try:
            return await asyncio.wrap_future(asked)
        except SpecchatError as error:
            self.say(str(error), problem=True)
            return None

    def _show(self, found: list[FoundSession], words: tuple[str, ...], keep: str | None) -> None:
        kept = (at for at, each in enumerate(found) if each.summary.identity == keep)
        at = min(next(kept, self.options.highlighted or 0), len(found) - 1)
        self._height = 2 if words else 1
        self.fill(
            lines(found, words, self._autosave.identity),
            found[at : at + 1],
            _NONE_FOUND if words else _NONE_YET,
        )
        self.query_one("#list").display = self.query_one("#heading").display = bool(found)
        self.query_one("#dialog").border_subtitle = _count(len(found), bool(words))

    def when_filled(self, act: Callable[[], None]) -> None:
        """Do this to the list of what was typed last, not to an older one."""
        if self._typing is not None:
            self._search()
        if self._then is None:
            act()
        else:
            self._then.append(act)

    # Keys -------------------------------------------------------------------------------------------

    def action_filter(self) -> None:
        """Type into the search."""
        self.input.focus()

    def action_list(self) -> None:
        """Go to the list, where letters are keys."""
        self.options.focus()

    def action_move(self, how: str) -> None:
        """Move through the list while the search has the focus."""
        self.when_filled(lambda: super(SessionsScreen, self).action_move(how))

    @_on_highlighted
    def action_choose(self, chosen: Summary) -> None:
        """Open the session."""
        self.dismiss(chosen.identity)

    @_on_highlighted
    def action_delete(self, chosen: Summary) -> None:
        """Delete the session, which can be undone; not the one that is open."""
        if chosen.identity == self._autosave.identity:
            self.say("This session is open. Open another or begin a new one, then delete it.", problem=True)
            return

        def done() -> None:
            self._deleted.append(chosen)
            key = "u" if self.focused is self.options else "Ctrl+Z"
            self.say(f"Deleted “{cut(chosen.title, _TITLE)}” · {key} to undo")

        self._refill(change=self._autosave.ask(lambda store: store.delete(chosen.identity)), done=done)

    def action_undo(self) -> None:
        """Bring back what was deleted last."""

        def undo() -> None:
            if self._deleted:
                last = self._deleted.pop()
                change = self._autosave.ask(lambda store: store.undelete(last.identity))
                self._refill(last.identity, change, lambda: self.say(f"“{cut(last.title, _TITLE)}” is back."))

        self.when_filled(undo)

    @_on_highlighted
    def action_export(self, chosen: Summary) -> None:
        """Write the session to a new Markdown file."""

        def export(store: Store) -> Path:
            saved = store.load(chosen.identity)
            path = (self._folder or Path.cwd()) / file_name(saved.title)
            return write_new(path, markdown(saved.title, saved.model, saved.conversation))

        async def tell() -> None:
            written = await self._answer(asked)
            if written is not None:
                self.say(f"Written to {written}")

        asked = self._autosave.ask(export)
        self.run_worker(tell())

    # Renaming ---------------------------------------------------------------------------------------

    @_on_highlighted
    def action_rename(self, chosen: Summary) -> None:
        """Change the title of the session, where it stands."""
        self._renaming = chosen
        self.options.scroll_to_highlight()
        editor = self.query_one(TitleEditor)
        editor.value = chosen.title
        editor.display = True
        self._place_editor()
        editor.focus()
        self.say("")

    def action_save_title(self) -> None:
        """Give the session the title that was typed."""
        session, title = self._renaming, self.query_one(TitleEditor).value
        self.action_keep_title()
        if session is not None:
            self._refill(session.identity, self._autosave.rename(session.identity, title))

    @on(DescendantBlur)
    def _left(self, event: DescendantBlur) -> None:
        # Another window of the desktop is no reason to throw away what was typed.
        if isinstance(event.widget, TitleEditor) and self.app.app_focus:
            self.action_keep_title()

    def action_keep_title(self) -> None:
        """Leave the title as it was."""
        editor = self.query_one(TitleEditor)
        if not editor.display:
            return
        had_focus = editor.has_focus
        self._renaming, editor.display = None, False
        if had_focus:
            self.options.focus()

    @on(Resize)
    def _resized(self) -> None:
        self.call_after_refresh(self._place_editor)

    def _place_editor(self) -> None:
        if self.stands:
            editor, options = self.query_one(TitleEditor), self.options
            line = (options.highlighted or 0) * self._height - options.scroll_offset.y
            editor.styles.offset = (_BEFORE_TITLE, line)
            editor.styles.width = max(8, options.scrollable_content_region.width - _BEFORE_TITLE)


def _count(rows: int, searched: bool) -> str:
    if not rows:
        return ""
    if not searched:
        return f"{rows:,} {'session' if rows == 1 else 'sessions'}"
    return f"newest {rows} found" if rows >= MOST_FOUND else f"{rows} found"
