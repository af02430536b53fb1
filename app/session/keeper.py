"""Keeps the conversation of this window in the store, whatever other windows do and whatever fails."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from app.chat.conversation import Conversation, title_of
from app.chat.store import Conflict, Store
from app.errors import SpecchatError

# Deleted sessions can be brought back for so long.
_PURGE_SECONDS = 30 * 24 * 3600.0


class Keeper:
    """The session of this window. A chat goes on without a store where there cannot be one."""

    def __init__(self, path: Path) -> None:
        """path: the file of the store; it is used from `start` on."""
        self._path = path
        self.notices: tuple[str, ...] = ()
        self.store: Store | None = None
        self.identity: str | None = None
        self.title = ""
        self._revision = 0
        self._failed = False

    def start(self) -> None:
        """Open the store. What a person should know about that is in `notices`."""
        try:
            self.store = Store.open(self._path)
            self.store.purge(_PURGE_SECONDS)
        except SpecchatError as error:
            self.notices = (f"Chats are not kept: {error}",)
        if self.store is not None and self.store.set_aside is not None:
            self.notices = (
                f"The file of chats was damaged: it was set aside as {self.store.set_aside}, "
                "and a new one was begun.",
            )

    def begin_another(self) -> None:
        """What is kept next is another session."""
        self.identity, self.title, self._revision = None, "", 0

    def keep(self, conversation: Conversation, model: str) -> str | None:
        """Store the conversation; a sentence where there is something to tell, told once."""
        if self.store is None:
            return None
        if self.identity is None and not conversation.exchanges:
            return None
        try:
            notice = self._write(self.store, conversation, model)
        except SpecchatError as error:
            notice, self._failed = (None if self._failed else f"This chat is not kept: {error}"), True
            return notice
        self._failed = False
        return notice

    def resume(self, name: str) -> Conversation:
        """The session of that name, the newest for "". Raises SpecchatError where there is none."""
        if self.store is None:
            raise SpecchatError("There are no kept chats to resume.")
        if not name:
            saved = self.store.latest()
            if saved is None:
                raise SpecchatError("There is no chat to resume yet: this is a new one.")
            return self.open(saved.identity)
        return self.open(self.store.find(name).identity)

    def open(self, identity: str) -> Conversation:
        """Go on with a session of the store. Raises SpecchatError where it is gone."""
        if self.store is None:
            raise SpecchatError("There are no kept chats to open.")
        saved = self.store.load(identity)
        self.identity, self.title, self._revision = saved.identity, saved.title, saved.revision
        last = saved.conversation.last
        if last is None or last.answer is None or last.answer.end is not None:
            return saved.conversation
        # The chat was ended from outside while this grew: it can be gone on with.
        return saved.conversation.answered(replace(last.answer, end="crashed"))

    def renamed(self) -> None:
        """The list of sessions may have given this one another title."""
        if self.store is not None and self.identity is not None:
            titles = {each.identity: each.title for each in self.store.summaries()}
            self.title = titles.get(self.identity, self.title)

    def close(self) -> None:
        if self.store is not None:
            self.store.close()

    def _write(self, store: Store, conversation: Conversation, model: str) -> str | None:
        if self.identity is None:
            self._create(store, conversation, title_of(conversation.exchanges[0].question), model)
            return None
        try:
            self._revision = store.write(self.identity, self._revision, conversation, model or None)
        except Conflict as conflict:
            self._create(store, conversation, f"{self.title} (this window)", model)
            return str(conflict)
        return None

    def _create(self, store: Store, conversation: Conversation, title: str, model: str) -> None:
        saved = store.create(conversation, title, model)
        self.identity, self.title, self._revision = saved.identity, saved.title, saved.revision
