"""The store of conversations: one SQLite file that several specchats may use at once."""

from __future__ import annotations

import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from app.chat.conversation import Conversation
from app.chat.store_rows import read_exchanges, searched_text, write_exchanges
from app.chat.store_schema import explained, is_busy, make_search, open_file, transaction
from app.chat.store_search import excerpt, expression, has_letters, holds, spaced, words_of
from app.errors import SpecchatError
from app.text import clean

MOST_FOUND = 100
"""A search gives at most this many: nobody reads further, one types another word."""

# Cast: a file that someone tampered with may hold any type in any column.
_SUMMARY = (
    "CAST(identity AS TEXT), CAST(title AS TEXT), CAST(model AS TEXT), "
    "CAST(created AS REAL), CAST(changed AS REAL), CAST(exchanges AS INTEGER)"
)
_NEWEST = "ORDER BY changed DESC, number DESC"


class Conflict(SpecchatError):
    """Another specchat wrote or deleted the session meanwhile: keep this state with `create`."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A session, as a list shows it. created, changed: seconds since 1970. exchanges: how many."""

    identity: str
    title: str
    model: str
    created: float
    changed: float
    exchanges: int


@dataclass(frozen=True, slots=True)
class Saved(Summary):
    """A session as this store wrote or read it last. revision: changes with each `write`."""

    revision: int
    conversation: Conversation


class Store:
    """Conversations in a file. Used from the thread that opened it, but for `interrupt`.

    Every method raises SpecchatError, with what to do, where the file cannot be used. set_aside: where a
    damaged file was moved when this store was opened, None where there was none.
    """

    def __init__(self, path: Path) -> None:
        """Open the store at `path`, made where there is none; a damaged one is set aside.

        Raises SpecchatError where the folder cannot be written or a newer specchat wrote the file.
        """
        self.path = path
        self._connection, self.set_aside = open_file(path)
        self._full_text = make_search(self._connection)

    def close(self) -> None:
        """Close the file, after bringing the search index up to date."""
        # Where that fails, the next search does it, and is the one to say what is wrong.
        with suppress(sqlite3.Error):
            if self._full_text:
                self._bring_index_up_to_date()
        self._connection.close()

    def interrupt(self) -> None:
        """End what another thread does here, which then raises; nothing is half done."""
        # It may have closed the file meanwhile.
        with suppress(sqlite3.ProgrammingError):
            self._connection.interrupt()

    # One session ------------------------------------------------------------------------------------

    def create(self, conversation: Conversation, title: str, model: str) -> Saved:
        """A new session that holds this."""
        identity, now = secrets.token_hex(5), time.time()
        with self._transaction() as connection:
            cursor = connection.execute(
                "INSERT INTO session (identity, revision, title, model, created, changed, system, unsent, "
                "exchanges) VALUES (?, 1, ?, ?, ?, ?, ?, ?, ?)",
                (identity, _one_line(title), _one_line(model), now, now, *_columns(conversation)),
            )
            write_exchanges(connection, cursor.lastrowid or 0, (), conversation.exchanges)
        return self.load(identity)

    def write(self, saved: Saved, conversation: Conversation, model: str | None = None) -> Saved:
        """Replace what `saved` holds, by writing only what differs. model None: as it was.

        Raises Conflict, and writes nothing, where the session is at another revision or was deleted.
        """
        if model is None and saved.conversation == conversation:
            return saved
        now, model = time.time(), saved.model if model is None else _one_line(model)
        with self._transaction() as connection:
            row = connection.execute(
                "SELECT number FROM session WHERE identity = ? AND revision = ? AND deleted IS NULL",
                (saved.identity, saved.revision),
            ).fetchone()
            if row is None:
                raise Conflict("This chat was changed in another window: what is here goes on as a new one.")
            connection.execute(
                "UPDATE session SET revision = revision + 1, changed = ?, model = ?, system = ?, unsent = ?, "
                "exchanges = ? WHERE number = ?",
                (now, model, *_columns(conversation), *row),
            )
            write_exchanges(connection, row[0], saved.conversation.exchanges, conversation.exchanges)
        return replace(
            saved,
            model=model,
            changed=now,
            exchanges=len(conversation.exchanges),
            revision=saved.revision + 1,
            conversation=conversation,
        )

    def load(self, identity: str) -> Saved:
        """The session. Raises SpecchatError where it is gone or its rows make no sense."""
        with self._transaction("DEFERRED") as connection:
            row = connection.execute(
                f"SELECT {_SUMMARY}, revision, number, CAST(system AS TEXT), CAST(unsent AS INTEGER) "
                "FROM session WHERE identity = ? AND deleted IS NULL",
                (identity,),
            ).fetchone()
            if row is None:
                raise SpecchatError("That chat is no longer there: it was deleted in another window.")
            _, title, model, created, changed, count, revision, number, system, unsent = row
            title = _one_line(title)
            try:
                exchanges = read_exchanges(connection, number)
            except (ValueError, TypeError) as error:
                raise SpecchatError(f"The chat “{title}” is damaged and cannot be opened.") from error
        conversation = Conversation(exchanges, clean(system), max(0, min(unsent, len(exchanges))))
        return Saved(identity, title, _one_line(model), created, changed, count, revision, conversation)

    def rename(self, identity: str, title: str) -> str:
        """Give a session another title; as it is kept. Its age and revision stay."""
        title = _one_line(title)
        if not title:
            raise SpecchatError("A title must have at least one character.")
        self._update("title = ?, indexed = -1", identity, title)
        return title

    def delete(self, identity: str) -> None:
        """Take a session out of sight; `undelete` brings it back, until `purge`."""
        self._update("deleted = ?", identity, time.time())

    def undelete(self, identity: str) -> None:
        """Bring a deleted session back."""
        self._update("deleted = ?", identity, None)

    def purge(self, older_than: float) -> int:
        """Remove for good what was deleted more than so many seconds ago; how many sessions that was."""
        condition = "deleted IS NOT NULL AND deleted <= ?"
        before = (time.time() - older_than,)
        with self._transaction() as connection:
            if self._full_text:
                connection.execute(
                    f"DELETE FROM words WHERE rowid IN (SELECT number FROM session WHERE {condition})", before
                )
            return connection.execute(f"DELETE FROM session WHERE {condition}", before).rowcount

    # All sessions -----------------------------------------------------------------------------------

    def summaries(self) -> list[Summary]:
        """All sessions, the one changed last first."""
        with self._transaction("DEFERRED") as connection:
            rows = connection.execute(f"SELECT {_SUMMARY} FROM session WHERE deleted IS NULL {_NEWEST}")
            return [_summary(row) for row in rows]

    def latest(self) -> Saved | None:
        """The session changed last, None where there is none."""
        summaries = self.summaries()
        return self.load(summaries[0].identity) if summaries else None

    def find(self, name: str) -> Summary:
        """The one session that `name` means: its identity or title, or the beginning of either, or a part
        of the title, whatever the case. Raises SpecchatError where there is none, or more than one."""
        wanted = _one_line(name).casefold()
        sessions = self.summaries()
        named = [(each, each.title.casefold()) for each in sessions] if wanted else []
        for matching in (
            [each for each, _ in named if each.identity == wanted],
            [each for each, title in named if title == wanted],
            [each for each, title in named if title.startswith(wanted) or each.identity.startswith(wanted)],
            [each for each, title in named if wanted in title],
        ):
            if len(matching) == 1:
                return matching[0]
            if matching:
                some = ", ".join(f"{each.identity} “{each.title}”" for each in matching[:3])
                more = f" and {len(matching) - 3:,} more" if len(matching) > 3 else ""
                raise SpecchatError(
                    f"Several chats have that name: {some}{more}; use the code in front of one."
                )
        raise SpecchatError(f"There is no chat called “{_one_line(name)}”: F8 in the chat lists them all.")

    def search(self, text: str, most: int = MOST_FOUND) -> list[tuple[Summary, str]]:
        """Sessions that hold every word, the last word perhaps only begun; newest first, `most` at most.

        With each a line of its text round the words. Searched are titles, questions, names of documents
        and answers. Every session where no word is given.
        """
        words = words_of(text)
        try:
            try:
                return self._search(words, most)
            except sqlite3.DatabaseError as error:
                if not self._full_text or is_busy(error):
                    raise
                # The index is made from the other tables: a broken one is made again.
                self._full_text = make_search(self._connection, again=True)
                return self._search(words, most)
        except sqlite3.Error as error:
            raise explained(error, self.path) from error

    def _search(self, words: tuple[str, ...], most: int) -> list[tuple[Summary, str]]:
        condition, values, unindexed = "", list[str](), words
        if self._full_text:
            self._bring_index_up_to_date()
            unindexed = tuple(word for word in words if not has_letters(word))
            if len(unindexed) < len(words):
                condition = "AND number IN (SELECT rowid FROM words WHERE words MATCH ?)"
                values.append(expression(words))

        def found() -> Iterator[tuple[Summary, str]]:
            for *row, number in self._connection.execute(
                f"SELECT {_SUMMARY}, number FROM session WHERE deleted IS NULL {condition} {_NEWEST}", values
            ):
                summary, parts = _summary(row), tuple(searched_text(self._connection, number))
                if holds((summary.title, *parts), unindexed):
                    yield summary, excerpt(parts, words)

        return list(islice(found(), most))

    def _bring_index_up_to_date(self) -> None:
        # Not done by `write`, which would pay for it every second while a reply streams.
        stale = "SELECT number, revision, title FROM session WHERE indexed <> revision AND deleted IS NULL"
        if self._connection.execute(f"{stale} LIMIT 1").fetchone() is None:
            return
        with transaction(self._connection):
            for number, revision, title in self._connection.execute(stale).fetchall():
                body = spaced("\n".join(searched_text(self._connection, number)))
                self._connection.execute(
                    "INSERT OR REPLACE INTO words (rowid, title, body) VALUES (?, ?, ?)",
                    (number, spaced(str(title)), body),
                )
                self._connection.execute(
                    "UPDATE session SET indexed = ? WHERE number = ?", (revision, number)
                )

    def _update(self, change: str, identity: str, value: str | float | None) -> None:
        with self._transaction() as connection:
            cursor = connection.execute(f"UPDATE session SET {change} WHERE identity = ?", (value, identity))
            if not cursor.rowcount:
                raise SpecchatError("That chat is no longer there: it was removed in another window.")

    @contextmanager
    def _transaction(self, kind: str = "IMMEDIATE") -> Iterator[sqlite3.Connection]:
        try:
            with transaction(self._connection, kind):
                yield self._connection
        except sqlite3.Error as error:
            raise explained(error, self.path) from error


def _one_line(text: str) -> str:
    return " ".join(clean(text).split())


def _columns(conversation: Conversation) -> tuple[str, int, int]:
    return clean(conversation.system), conversation.unsent, len(conversation.exchanges)


def _summary(row: list[Any]) -> Summary:
    identity, title, model, created, changed, exchanges = row
    return Summary(identity, _one_line(title), _one_line(model), created, changed, exchanges)
