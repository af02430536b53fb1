"""Keeps the conversation of this window in the store, whatever other windows do and whatever fails.

The store is used by one thread of its own: another window that holds the file makes that thread wait, never
the screen's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TypeVar

from app.chat.conversation import Conversation, title_of
from app.chat.store import Conflict, Saved, Store
from app.chat.store_schema import BUSY_SECONDS, is_busy
from app.errors import SpecchatError

# Deleted sessions can be brought back for this long.
_PURGE_SECONDS = 30 * 24 * 3600.0
# Longer than one wait for another program, which alone must not keep the last state from being written.
_CLOSING_SECONDS = BUSY_SECONDS + 2
_INTERRUPTED_SECONDS = 1.0

Result = TypeVar("Result")


@dataclass(eq=False, slots=True)
class _Session:
    """A chat of this window. saved: as it is in the store, which the store's thread finds out."""

    title: str = ""
    saved: Saved | None = None


class Autosave:
    """Writes the chat of this window. A chat goes on without a store where there cannot be one."""

    def __init__(self, path: Path, tell: Callable[[str], None]) -> None:
        """path: the file of the store; it is used from `start` on.

        tell: takes a sentence for the person, "" where only the title changed; called by the store's thread.
        """
        self._path = path
        self._tell = tell
        self._thread = ThreadPoolExecutor(1, "store")
        self._lock = Lock()
        # The newest state of each chat that is not written yet: an older one is not worth a write.
        self._waiting: dict[_Session, tuple[Conversation, str]] = {}
        self._queued = self._closing = False
        self._session = _Session()
        # These are the thread's own. A problem is told once while it lasts.
        self._store: Store | None = None
        self._problem = ""

    @property
    def identity(self) -> str | None:
        """The session of this window in the store, None before it is there."""
        return self._session.saved.identity if self._session.saved else None

    @property
    def title(self) -> str:
        """The title of this window's chat, "" before anything was asked."""
        return self._session.title

    def start(self) -> None:
        """Open the store."""
        self._thread.submit(self._guarded, "Chats are", lambda: self._opened().purge(_PURGE_SECONDS))

    def begin_another(self) -> None:
        """What is kept next is another session."""
        self._session = _Session()

    def keep(self, conversation: Conversation, model: str) -> None:
        """Write this soon, as the state of this window's chat; what is shown next may be another."""
        session = self._session
        if not session.title:
            if not conversation.exchanges:
                return
            session.title = title_of(conversation.exchanges[0].question)
        with self._lock:
            self._waiting[session] = conversation, model
        self._queue()

    def ask(self, job: Callable[[Store], Result]) -> Future[Result]:
        """Have this done by the store's thread, after all that was asked before.

        The future raises SpecchatError where the store cannot be used.
        """
        return self._thread.submit(lambda: job(self._opened()))

    def resume(self, name: str) -> Future[Saved]:
        """The session of that name, the newest for ""; the future raises SpecchatError where none is."""

        def look(store: Store) -> Saved:
            saved = store.load(store.find(name).identity) if name else store.latest()
            if saved is None:
                raise SpecchatError("There is no chat to resume yet: this is a new one.")
            return saved

        return self.ask(look)

    def go_on(self, saved: Saved) -> Conversation:
        """Make this the session of this window."""
        self._session = _Session(saved.title, saved)
        last = saved.conversation.last
        if last is None or last.answer is None or last.answer.end is not None:
            return saved.conversation
        # The program was ended during this answer, which can be continued.
        return saved.conversation.answered(replace(last.answer, end="crashed"))

    def rename(self, identity: str, title: str) -> Future[None]:
        """Give a session another title, which may be this window's."""
        session = self._session

        def change(store: Store) -> None:
            given = store.rename(identity, title)
            if session.saved is not None and session.saved.identity == identity:
                session.title = given
                self._tell("")

        return self.ask(change)

    def close(self) -> str | None:
        """Write what waits and close the file, in bounded time.

        Where that fails, the chat is exported beside the file, and a sentence to show says so.
        """
        self._queue()
        self._closing = True
        end = self._thread.submit(self._close)
        if not wait([end], _CLOSING_SECONDS).done and self._store is not None:
            # Most likely it is a search that the last state waits for.
            self._store.interrupt()
            wait([end], _INTERRUPTED_SECONDS)
        self._thread.shutdown(wait=False, cancel_futures=True)
        return self._exported() if self._waiting else None

    def _exported(self) -> str:
        from app.chat.export import file_name, markdown, write_new

        said = self._problem or "Writing the last state of this chat took too long."
        with self._lock:
            waiting = dict(self._waiting)
        for session, (conversation, model) in waiting.items():
            try:
                path = self._path.with_name(file_name(session.title))
                said += f" The chat is in {write_new(path, markdown(session.title, model, conversation))}."
            except SpecchatError as error:
                said += f" {error}"
        return said

    def _queue(self) -> None:
        with self._lock:
            queued, self._queued = self._queued, True
        if not queued and not self._closing:
            self._thread.submit(self._write_waiting)

    # The store's thread ---------------------------------------------------------------------------

    def _opened(self) -> Store:
        # One that could not be opened may be by now.
        if self._store is None:
            self._store = Store(self._path)
            if self._store.set_aside is not None:
                self._tell(
                    f"The file of chats was damaged: it was set aside as {self._store.set_aside}, "
                    "and a new one was begun."
                )
        return self._store

    def _write_waiting(self) -> None:
        with self._lock:
            self._queued = False
            waiting = dict(self._waiting)
        for session, state in waiting.items():
            if self._guarded("This chat is", partial(self._write, session, *state)):
                with self._lock:
                    if self._waiting[session] is state:
                        del self._waiting[session]

    def _guarded(self, what: str, job: Callable[[], object]) -> bool:
        """Whether it was done; why it was not is told once."""
        try:
            job()
        # Whatever it is, the person must know that the chat is not kept.
        except Exception as error:
            cause = error.__cause__
            busy = isinstance(cause, sqlite3.Error) and is_busy(cause)
            if not self._problem:
                held = "yet: another program holds the file of chats. It is tried again by itself."
                self._tell(f"{what} not kept {held}" if busy else f"{what} not kept: {error}")
            self._problem = str(error)
            if busy:
                self._queue()
            return False
        if self._problem:
            self._problem = ""
            self._tell("Chats are kept again.")
        return True

    def _write(self, session: _Session, conversation: Conversation, model: str) -> None:
        store, title, notice = self._opened(), session.title, ""
        try:
            if session.saved is not None:
                session.saved = store.write(session.saved, conversation, model or None)
                return
        except Conflict as conflict:
            title, notice = f"{title} (this window)", str(conflict)
        session.saved = store.create(conversation, title, model)
        session.title = session.saved.title
        self._tell(notice)

    def _close(self) -> None:
        if self._store is not None:
            self._store.close()
