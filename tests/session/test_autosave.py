"""What keeps the chat: without these another window freezes this one, or what was said is lost."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from app.chat.conversation import Answer, Conversation, Question
from app.chat.store import Store
from app.errors import SpecchatError
from app.session.autosave import Autosave


class Window:
    """A autosave, and what it told."""

    def __init__(self, path: Path) -> None:
        self.told: list[str] = []
        self.news = Event()
        self.autosave = Autosave(path, self._tell)
        self.autosave.start()

    def _tell(self, sentence: str) -> None:
        if sentence:
            self.told.append(sentence)
            self.news.set()

    def settle(self) -> None:
        """All that was asked is done, what was tried once more too."""
        for _ in range(2):
            self.autosave.ask(lambda store: None).result()


@pytest.fixture
def window(tmp_path: Path) -> Iterator[Window]:
    made = Window(tmp_path / "sessions.db")
    yield made
    made.autosave.close()


@pytest.fixture
def other(window: Window, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Another program on the same file."""
    window.settle()
    connection = sqlite3.connect(tmp_path / "sessions.db", isolation_level=None)
    yield connection
    connection.close()


def asked(text: str) -> Conversation:
    return Conversation().asked(Question(text))


def test_what_waits_is_written_to_its_own_chat_in_its_newest_state(
    window: Window, other: sqlite3.Connection, tmp_path: Path
) -> None:
    """Else: a reply that grows beside a busy window piles up writes, or ends up in the next chat."""
    autosave = window.autosave
    first, second = asked("first"), asked("second")
    other.execute("BEGIN IMMEDIATE")
    for length in range(100):
        autosave.keep(first.answered(Answer("word " * length)), "m")
    title = autosave.title
    autosave.begin_another()
    autosave.keep(second, "m")
    done = autosave.ask(lambda store: None)
    assert not done.done() and (title, autosave.title) == ("first", "second")
    other.execute("ROLLBACK")
    done.result()
    store = Store(tmp_path / "sessions.db")
    saved = {each.title: store.load(each.identity) for each in store.summaries()}
    store.close()
    assert saved["first"].conversation == first.answered(Answer("word " * 99))
    assert saved["second"].conversation == second and autosave.identity == saved["second"].identity
    # The first state may have been taken to be written before the second came.
    assert saved["first"].revision <= 2


def test_what_another_program_held_up_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else: the end of an answer is lost because a backup ran just then."""
    monkeypatch.setattr("app.chat.store_schema.BUSY_SECONDS", 0.01)
    path = tmp_path / "sessions.db"
    window = Window(path)
    window.settle()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    window.autosave.keep(asked("first"), "m")
    assert window.news.wait(10)
    other.execute("ROLLBACK")
    window.settle()
    assert other.execute("SELECT title FROM session").fetchall() == [("first",)]
    first, second = window.told
    assert "not kept yet: another program" in first and second == "Chats are kept again."
    # Held until the end: it is said, and the end comes.
    other.execute("BEGIN IMMEDIATE")
    window.autosave.keep(asked("first").answered(Answer("end")), "m")
    said = window.autosave.close()
    assert said is not None and "held by another program" in said and str(tmp_path / "first.md") in said
    assert "end" in (tmp_path / "first.md").read_text("utf-8")
    other.close()


def test_closing_writes_what_waits(tmp_path: Path) -> None:
    """Else: the last second of a chat is lost."""
    autosave = Window(tmp_path / "sessions.db").autosave
    autosave.keep(asked("last"), "m")
    assert autosave.close() is None
    store = Store(tmp_path / "sessions.db")
    latest = store.latest()
    assert latest is not None and latest.conversation == asked("last")
    store.close()


def test_closing_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else: the terminal does not come back while an index of years is made."""
    monkeypatch.setattr("app.session.autosave._CLOSING_SECONDS", 0.01)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    window = Window(tmp_path / "sessions.db")
    window.settle()
    autosave = window.autosave
    search = autosave.ask(lambda store: store._connection.execute(endless).fetchall())
    autosave.keep(asked("last"), "m")
    assert autosave.close() is None
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        search.result()
    store = Store(tmp_path / "sessions.db")
    assert [each.title for each in store.summaries()] == ["last"]
    store.close()


def test_a_store_that_cannot_be_used_is_told_once_and_used_when_it_can(tmp_path: Path) -> None:
    """Else: a full disk ends the chat, fills the screen with the same sentence, or stops all keeping."""
    folder = tmp_path / "folder"
    folder.write_text("in the way")
    window = Window(folder / "sessions.db")
    autosave = window.autosave
    for text in ("a", "b"):
        autosave.keep(asked(text), "m")
    with pytest.raises(SpecchatError, match="cannot be kept"):
        autosave.resume("").result()
    folder.unlink()
    with pytest.raises(SpecchatError, match="no chat to resume"):
        autosave.resume("").result()
    autosave.keep(asked("c"), "m")
    saved = autosave.resume("").result()
    assert saved.conversation == asked("c") and saved.title == "a"
    assert len(window.told) == 2 and window.told[0].startswith("Chats are not kept")
    assert autosave.close() is None


def test_two_windows_on_one_chat_harm_neither(window: Window, tmp_path: Path) -> None:
    """Else: one window overwrites what the other was told."""
    mine = window.autosave
    mine.keep(asked("a"), "m")
    window.settle()
    theirs = Window(tmp_path / "sessions.db")
    assert theirs.autosave.go_on(theirs.autosave.resume("a").result()) == asked("a")
    theirs.autosave.keep(asked("a").answered(Answer("theirs")), "m")
    theirs.settle()
    theirs.autosave.rename(theirs.autosave.identity or "", "renamed").result()
    assert theirs.autosave.title == "renamed"
    mine.keep(asked("a").answered(Answer("mine")), "m")
    window.settle()
    assert mine.title == "a (this window)" and len(window.told) == 1
    found = mine.ask(lambda store: {each.title: store.load(each.identity) for each in store.summaries()})
    answers = {title: saved.conversation.last for title, saved in found.result().items()}
    assert {title: last.answer.text for title, last in answers.items() if last and last.answer} == {
        "renamed": "theirs",
        "a (this window)": "mine",
    }
    theirs.autosave.close()
