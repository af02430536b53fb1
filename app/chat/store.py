"""The store of conversations: one SQLite file that several specchats may use at once."""

from __future__ import annotations

import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from app.chat.conversation import Conversation
from app.chat.gate import clean
from app.chat.store_rows import read_exchanges, searched_text, write_exchanges
from app.chat.store_schema import explained, is_busy, make_search, open_file
from app.chat.store_search import excerpt, expression, has_letters, like, spaced, words_of
from app.errors import SpecchatError

MOST_FOUND = 100
"""As many as a search gives: nobody reads further, one types another word."""

# Cast: a file that someone tampered with may hold any type in any column.
_SUMMARY = (
    "CAST(identity AS TEXT), CAST(title AS TEXT), CAST(model AS TEXT), "
    "CAST(created AS REAL), CAST(changed AS REAL), CAST(exchanges AS INTEGER)"
)
_NEWEST = "ORDER BY changed DESC, number DESC"
_HOLDS = (
    "(title LIKE :word ESCAPE '\\' "
    "OR EXISTS (SELECT 1 FROM exchange WHERE session = number AND question LIKE :word ESCAPE '\\') "
    "OR EXISTS (SELECT 1 FROM document WHERE session = number AND name LIKE :word ESCAPE '\\') "
    "OR EXISTS (SELECT 1 FROM answer WHERE session = number AND text LIKE :word ESCAPE '\\'))"
)


class Conflict(SpecchatError):
    """Another specchat wrote or deleted the session meanwhile: keep this state with `create`."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A session, as a list shows it. created, changed: seconds since 1970."""

    identity: str
    title: str
    model: str
    created: float
    changed: float
    exchanges: int


@dataclass(frozen=True, slots=True)
class Saved:
    """A session as it stands in the store. revision: what the next `write` must name."""

    identity: str
    revision: int
    title: str
    model: str
    created: float
    changed: float
    conversation: Conversation


class Store:
    """Conversations in a file. Used from the thread that opened it, `interrupt` aside.

    Every method raises SpecchatError, with what to do, where the file cannot be used. set_aside: where a
    damaged file was moved when this store was opened, None where there was none.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, set_aside: Path | None) -> None:
        self.path = path
        self.set_aside = set_aside
        self._connection = connection
        # Revision and rows of the sessions written or read last: the next write is told by them.
        self._known: dict[str, tuple[int, Conversation]] = {}
        self._full_text = make_search(connection)

    @classmethod
    def open(cls, path: Path) -> Store:
        """The store at `path`, made where there is none; a damaged one is set aside and begun anew.

        Raises SpecchatError where the folder cannot be written or a newer specchat wrote the file.
        """
        connection, set_aside = open_file(path)
        return cls(path, connection, set_aside)

    def close(self) -> None:
        """Let go of the file, after telling the search's index what was written."""
        try:
            if self._full_text:
                self._bring_index_up_to_date()
        except sqlite3.Error:
            # The next search does it, and is the one to tell what is wrong.
            return
        finally:
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
        title = _one_line(title)
        with self._told(), self._transaction() as connection:
            cursor = connection.execute(
                "INSERT INTO session (identity, revision, title, model, system, unsent, exchanges, created, "
                "changed) VALUES (?, 1, ?, ?, ?, ?, ?, ?, ?)",
                (identity, title, _one_line(model), *_columns(conversation), now, now),
            )
            write_exchanges(connection, cursor.lastrowid or 0, (), conversation.exchanges)
        self._remember(identity, 1, conversation)
        return Saved(identity, 1, title, _one_line(model), now, now, conversation)

    def write(
        self, identity: str, revision: int, conversation: Conversation, model: str | None = None
    ) -> int:
        """Replace what revision `revision` holds; the new revision. model None: as it was.

        Only what changed since this store's last write is written. Raises Conflict, and writes nothing,
        where the session is at another revision or was deleted.
        """
        at, known = self._known.get(identity, (revision, None))
        if at != revision:
            known = None
        if model is None and known == conversation:
            return revision
        with self._told(), self._transaction() as connection:
            row = connection.execute(
                "SELECT number, revision FROM session WHERE identity = ? AND deleted IS NULL", (identity,)
            ).fetchone()
            if row is None or row[1] != revision:
                raise Conflict("This chat was changed in another window: what is here goes on as a new one.")
            number: int = row[0]
            connection.execute(
                "UPDATE session SET revision = revision + 1, changed = ?, model = coalesce(?, model), "
                "system = ?, unsent = ?, exchanges = ? WHERE number = ?",
                (time.time(), model and _one_line(model), *_columns(conversation), number),
            )
            if known is None:
                connection.execute("DELETE FROM exchange WHERE session = ?", (number,))
            before = () if known is None else known.exchanges
            write_exchanges(connection, number, before, conversation.exchanges)
        self._remember(identity, revision + 1, conversation)
        return revision + 1

    def load(self, identity: str) -> Saved:
        """The session. Raises SpecchatError where it is gone or its rows make no sense."""
        with self._told(), self._transaction("DEFERRED") as connection:
            row = connection.execute(
                f"SELECT {_SUMMARY}, revision, number, CAST(system AS TEXT), CAST(unsent AS INTEGER) "
                "FROM session WHERE identity = ? AND deleted IS NULL",
                (identity,),
            ).fetchone()
            if row is None:
                raise SpecchatError("That chat is no longer there: it was deleted in another window.")
            summary, (revision, number, system, unsent) = _summary(row[:6]), row[6:]
            try:
                exchanges = read_exchanges(connection, number)
            except (ValueError, TypeError) as error:
                raise SpecchatError(f"The chat “{summary.title}” is damaged and cannot be opened.") from error
        conversation = Conversation(exchanges, clean(system), max(0, min(unsent, len(exchanges))))
        self._remember(identity, revision, conversation)
        return Saved(
            identity, revision, summary.title, summary.model, summary.created, summary.changed, conversation
        )

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
        with self._told(), self._transaction() as connection:
            if self._full_text:
                connection.execute(
                    f"DELETE FROM words WHERE rowid IN (SELECT number FROM session WHERE {condition})", before
                )
            return connection.execute(f"DELETE FROM session WHERE {condition}", before).rowcount

    # All sessions -----------------------------------------------------------------------------------

    def summaries(self) -> list[Summary]:
        """All sessions, the one changed last first."""
        with self._told():
            rows = self._connection.execute(f"SELECT {_SUMMARY} FROM session WHERE deleted IS NULL {_NEWEST}")
            return [_summary(row) for row in rows]

    def latest(self) -> Saved | None:
        """The session changed last, None where there is none."""
        with self._told():
            row = self._connection.execute(
                f"SELECT identity FROM session WHERE deleted IS NULL {_NEWEST} LIMIT 1"
            ).fetchone()
        return None if row is None else self.load(row[0])

    def find(self, name: str) -> Summary:
        """The one session meant by `name`: its identity or title, or the beginning of either, or a part
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
                raise SpecchatError(f"Several chats are called so: {some}{more}; name one by its first word.")
        raise SpecchatError(f"There is no chat called “{_one_line(name)}”: F8 in the chat lists them all.")

    def search(self, text: str, most: int = MOST_FOUND) -> list[tuple[Summary, str]]:
        """Sessions that hold every word, the last word perhaps only begun; newest first, `most` at most.

        With each a line of its text round the words. Searched are titles, questions, names of documents
        and answers. Every session where no word is given.
        """
        words = words_of(text)
        with self._told():
            try:
                return self._search(words, most)
            except sqlite3.DatabaseError as error:
                if not self._full_text or is_busy(error):
                    raise
                # The index is made from the other tables: a broken one is made again.
                self._full_text = make_search(self._connection, anew=True)
                return self._search(words, most)

    def _search(self, words: tuple[str, ...], most: int) -> list[tuple[Summary, str]]:
        conditions, values = ["deleted IS NULL"], dict[str, str | int]()
        signs = words
        if self._full_text:
            self._bring_index_up_to_date()
            signs = tuple(word for word in words if not has_letters(word))
            if len(signs) < len(words):
                conditions.append("number IN (SELECT rowid FROM words WHERE words MATCH :expression)")
                values["expression"] = expression(words)
        for index, word in enumerate(signs):
            conditions.append(_HOLDS.replace(":word", f":word{index}"))
            values[f"word{index}"] = like(word)
        rows = self._connection.execute(
            f"SELECT {_SUMMARY}, number FROM session WHERE {' AND '.join(conditions)} {_NEWEST} LIMIT :most",
            {**values, "most": most},
        ).fetchall()
        return [(_summary(row[:6]), excerpt(searched_text(self._connection, row[6]), words)) for row in rows]

    def _bring_index_up_to_date(self) -> None:
        # Not done by `write`, which would pay for it every second while a reply grows.
        stale = "SELECT number, revision, title FROM session WHERE indexed <> revision AND deleted IS NULL"
        if self._connection.execute(f"{stale} LIMIT 1").fetchone() is None:
            return
        with self._transaction() as connection:
            for number, revision, title in connection.execute(stale).fetchall():
                body = spaced("\n".join(searched_text(connection, number)))
                connection.execute(
                    "INSERT OR REPLACE INTO words (rowid, title, body) VALUES (?, ?, ?)",
                    (number, spaced(str(title)), body),
                )
                connection.execute("UPDATE session SET indexed = ? WHERE number = ?", (revision, number))

    # ------------------------------------------------------------------------------------------------

    def _remember(self, identity: str, revision: int, conversation: Conversation) -> None:
        # Two: the one that is written, and one that is read meanwhile, to export it.
        self._known.pop(identity, None)
        self._known[identity] = (revision, conversation)
        while len(self._known) > 2:
            del self._known[next(iter(self._known))]

    def _update(self, change: str, identity: str, value: str | float | None) -> None:
        with self._told(), self._transaction() as connection:
            cursor = connection.execute(f"UPDATE session SET {change} WHERE identity = ?", (value, identity))
            if not cursor.rowcount:
                raise SpecchatError("That chat is no longer there: it was removed in another window.")

    @contextmanager
    def _transaction(self, kind: str = "IMMEDIATE") -> Iterator[sqlite3.Connection]:
        """All of it or nothing."""
        self._connection.execute(f"BEGIN {kind}")
        try:
            yield self._connection
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise explained(error, self.path) from error


def _one_line(text: str) -> str:
    return " ".join(clean(text).split())


def _columns(conversation: Conversation) -> tuple[str, int, int]:
    return clean(conversation.system), conversation.unsent, len(conversation.exchanges)


def _summary(row: tuple[str, str, str, float, float, int]) -> Summary:
    identity, title, model, created, changed, exchanges = row
    return Summary(identity, _one_line(title), _one_line(model), created, changed, exchanges)
