"""The file of the store: its tables, how it is opened, and what is done with a damaged one."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from app.errors import SpecchatError
from app.text import clean

VERSION = 2
BUSY_SECONDS = 3.0
# A quick check reads every page (0.2 s for 100 MB that are in memory). Of a larger file, only the parts that
# every start needs are read.
LARGEST_CHECKED = 32 * 1024 * 1024

SCHEMA = Path(__file__).with_name("store.sql").read_text("utf-8")
# Columns that version 1 did not have, when each turn had one version.
ADDED = (("exchange", "fork"), ("exchange", "place"))
# One row a session, with its number. It is made from the other tables, so it may be dropped at any time.
WORDS = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5"
    "(title, body, prefix = '1 2 3', tokenize = 'unicode61 remove_diacritics 2')"
)


class _Damaged(Exception):
    """The file is not, or is no longer, a store."""


def open_file(path: Path) -> tuple[sqlite3.Connection, Path | None]:
    """The open store at `path`, and where a damaged one that stood there was moved.

    Raises SpecchatError where the place cannot be used, or a newer specchat wrote the file.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Chats are private: only their owner may read them.
        path.touch(mode=0o600)
    except OSError as error:
        raise SpecchatError(
            f"Chats cannot be kept in {clean(str(path.parent))} ({error.strerror}): "
            "make that folder writable, or name another."
        ) from error
    try:
        try:
            return _connect(path), None
        except _Damaged:
            moved = _set_aside(path)
            return _connect(path), moved
    except sqlite3.Error as error:
        raise explained(error, path) from error


def explained(error: sqlite3.Error, path: Path) -> SpecchatError:
    """What a person can do about a fault of the store's file."""
    shown, reason = clean(str(path)), clean(str(error))
    if is_damage(error):
        advice = f"{shown} is damaged: start specchat again, which sets it aside and begins a new one."
    elif is_busy(error):
        advice = f"{shown} is held by another program: close that program, or try again."
    elif "full" in reason:
        advice = f"The chat cannot be kept: the disk that holds {shown} is full; make room."
    elif "readonly" in reason or "unable to open" in reason:
        advice = f"The chat cannot be kept: {shown} cannot be written; make it and its folder writable."
    else:
        advice = f"Chats cannot be kept in {shown}: {reason}."
    return SpecchatError(advice)


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the file itself is at fault."""
    # The module has no class of its own for that, and raises the base of the others.
    return type(error) is sqlite3.DatabaseError


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another program holds the file."""
    return "locked" in str(error) or "busy" in str(error)


def make_search(connection: sqlite3.Connection, again: bool = False) -> bool:
    """Make the search index where it is missing, or make it again.

    False where there can be none: this SQLite has no full-text search, or the index cannot be repaired.
    """
    try:
        if again:
            connection.execute("DROP TABLE IF EXISTS words")
            connection.execute("UPDATE session SET indexed = -1")
        connection.execute(WORDS)
        connection.execute("SELECT 1 FROM words LIMIT 0")
    except sqlite3.Error as error:
        return not again and "no such module" not in str(error) and make_search(connection, again=True)
    return True


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """All that is done within, or nothing."""
    connection.execute(f"BEGIN {kind}")
    with connection:
        yield


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        # Bytes that are not UTF-8 must not make a session unreadable.
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        _prepare(connection, path)
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.Error) and is_damage(error):
            raise _Damaged from error
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    if _version(connection) > VERSION:
        raise SpecchatError(
            f"{clean(str(path))} was written by a newer specchat: update this one to read its chats."
        )
    connection.execute("PRAGMA foreign_keys = ON")
    # Some network folders have no shared memory: SQLite's older journal stays there, which syncs more.
    if _use_wal(connection):
        connection.execute("PRAGMA synchronous = NORMAL")
    with transaction(connection):
        # Asked again: another specchat may have made the tables meanwhile.
        if _version(connection) == 0:
            if connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                raise _Damaged
            _create(connection)
    _check(connection, path)
    with transaction(connection):
        if _version(connection) == 1:
            for table, column in ADDED:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {column} INTEGER")
            connection.execute(f"PRAGMA user_version = {VERSION}")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _use_wal(connection: sqlite3.Connection) -> bool:
    # The change of the journal does not wait for other connections by itself.
    last = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return bool(connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] == "wal")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > last:
                raise
            time.sleep(0.02)


def _create(connection: sqlite3.Connection) -> None:
    # Not executescript, which would end the transaction.
    for statement in SCHEMA.split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _check(connection: sqlite3.Connection, path: Path) -> None:
    expected = sqlite3.connect(":memory:")
    _create(expected)
    missing = _columns(expected) - _columns(connection)
    expected.close()
    if missing - set(ADDED if _version(connection) == 1 else ()):
        raise _Damaged
    if path.stat().st_size <= LARGEST_CHECKED:
        if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise _Damaged
    else:
        connection.execute("SELECT count(changed), count(title) FROM session").fetchone()
        connection.execute("SELECT session, question FROM exchange ORDER BY rowid DESC LIMIT 1").fetchone()


def _columns(connection: sqlite3.Connection) -> set[tuple[str, str]]:
    return set(
        connection.execute(
            "SELECT t.name, c.name FROM sqlite_master AS t, pragma_table_info(t.name) AS c "
            "WHERE t.name IN ('session', 'exchange', 'document', 'answer')"
        )
    )


def _set_aside(path: Path) -> Path:
    moved = path.with_name(f"{path.stem}.damaged-{datetime.now():%Y%m%d-%H%M%S-%f}{path.suffix}")
    try:
        path.rename(moved)
        # The log may hold what is worth rescuing, and must not be taken for the new file's.
        for ending in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                path.with_name(path.name + ending).rename(moved.with_name(moved.name + ending))
    except OSError as error:
        raise SpecchatError(
            f"{clean(str(path))} is damaged and cannot be set aside ({error.strerror}): "
            "close other programs that use it, or move it away yourself."
        ) from error
    return moved
