"""The store of conversations: without these a person loses what was said, or reads what was not."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.chat.conversation import Answer, Conversation, Exchange, Figures, Question
from app.chat.documents import Document
from app.chat.store import Conflict, Store, Summary
from app.chat.store_rows import packed
from app.errors import SpecchatError

FIGURES = Figures("lookup", 3, 128.4, 79.3, None, 0.1, 1 / 3, 0.25, 40, 7)
FULL = Answer(
    text="Größe: 5 €\n\t東京 👩‍👩‍👧",
    token_ids=(1, 2, 3),
    pieces=("Größe", "", ": 5 €\n\t東京 👩‍👩‍👧"),
    origins=("lookup", "lookup", "plain"),
    rejected=((0, "Gro"), (2, " six")),
    end="stop_string",
    figures=FIGURES,
)
EVERYTHING = Conversation(
    exchanges=(
        Exchange(Question("", (Document("a.md", "one\n"), Document("a.md", "two\ttabs\n"))), FULL),
        Exchange(Question("‘'\"%_; DROP TABLE session"), Answer("it grows", end=None)),
        Exchange(Question("not answered yet")),
    ),
    system="Be brief.\nBe kind.",
    unsent=1,
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "data" / "sessions.db")
    yield opened
    opened.close()


def talk(*pairs: tuple[str, str]) -> Conversation:
    return Conversation(tuple(Exchange(Question(asked), Answer(said, end="stop")) for asked, said in pairs))


def titles(found: list[tuple[Summary, str]]) -> list[str]:
    return [summary.title for summary, _ in found]


# What is written is what is read -----------------------------------------------------------------


def test_everything_comes_back_as_it_was(store: Store) -> None:
    """Else: a resumed chat shows other text, or its token ids no longer fit the cache."""
    saved = store.create(EVERYTHING, "  Rivers\nreport ", "SmolLM2")
    loaded = store.load(saved.identity)
    assert loaded == saved
    assert loaded.conversation == EVERYTHING
    assert (loaded.title, loaded.model) == ("Rivers report", "SmolLM2")
    other = Store(store.path)
    assert other.load(saved.identity).conversation == EVERYTHING
    other.close()


def test_a_ratio_that_nothing_was_earned_by_is_not_taken_over(store: Store) -> None:
    """Else: a chat of an earlier version says that plain decoding is slower than itself."""
    kept = [
        replace(FIGURES, proposer="off", acceptance_rate=None, speedup=0.98),
        replace(FIGURES, acceptance_rate=None, speedup=1.04),
        replace(FIGURES, speedup=1.62),
    ]
    session = store.create(
        Conversation(tuple(Exchange(Question("q"), replace(FULL, figures=each)) for each in kept)), "t", "m"
    )
    read = store.load(session.identity).conversation.exchanges
    assert [each.answer.figures.speedup for each in read if each.answer and each.answer.figures] == [
        1.0,
        None,
        1.62,
    ]


def test_a_document_of_five_megabytes_comes_back(store: Store) -> None:
    """Else: who pastes a book loses it."""
    book = Conversation().asked(Question("sum up", (Document("book.txt", "line of text\n" * 400_000),)))
    assert store.load(store.create(book, "book", "m").identity).conversation == book


@pytest.mark.parametrize("known", [True, False], ids=["same store", "another store"])
def test_each_kind_of_change_is_written(store: Store, known: bool) -> None:
    """Else: an edited question, a regenerated answer or a removed exchange comes back after a restart."""
    first, second, third = EVERYTHING.exchanges
    saved = store.create(EVERYTHING, "t", "m")
    changes = [
        EVERYTHING.answered(Answer("now it is", pieces=("now", " it is"))),
        Conversation((first,), "Be brief.", 1),
        Conversation((first, replace(second, answer=None)), "Other.", 0),
        Conversation((replace(first, question=Question("no documents")), second, third)),
        Conversation(
            (replace(first, question=Question("one", (Document("b", "b"),))), third, second), unsent=2
        ),
        Conversation(),
    ]
    for changed in changes:
        writer = store if known else Store(store.path)
        saved = writer.write(saved if known else writer.load(saved.identity), changed)
        assert Store(store.path).load(saved.identity).conversation == changed
    assert store.summaries()[0].exchanges == 0


def test_only_what_grew_is_written(store: Store) -> None:
    """Else: a long session costs more each second than the tokens that it gains."""
    conversation = talk(*[(f"question {n}", f"answer {n}") for n in range(200)])
    conversation = conversation.asked(Question("q", (Document("d", "x" * 100_000),)))
    saved = store.create(conversation, "t", "m")
    store._connection.set_trace_callback((statements := list[str]()).append)
    store.write(saved, conversation.answered(Answer("grows")))
    written = [each for each in statements if each.split()[0] in ("INSERT", "UPDATE", "DELETE")]
    assert len(written) == 2
    assert not any("xxx" in each for each in written)


def test_nothing_new_writes_nothing(store: Store) -> None:
    """Else: opening an old session to read it makes it the newest."""
    saved = store.create(EVERYTHING, "t", "m")
    loaded = store.load(saved.identity)
    assert store.write(loaded, replace(EVERYTHING)) == loaded
    assert store.load(saved.identity).changed == saved.changed


def test_escape_codes_in_the_file_do_not_reach_the_terminal(store: Store) -> None:
    """Else: a database from elsewhere writes to the clipboard or clears the screen."""
    saved = store.create(EVERYTHING, "t", "m")
    hostile = "a\x1b]52;c;eA==\x07b\tc\nd"
    packed = sqlite3.connect(store.path)
    for table, column in [
        ("session", "title"),
        ("session", "model"),
        ("session", "system"),
        ("exchange", "question"),
        ("document", "name"),
        ("document", "text"),
        ("answer", "text"),
    ]:
        packed.execute(f"UPDATE {table} SET {column} = ?", (hostile,))
    packed.commit()
    packed.close()
    store.write(
        saved,
        EVERYTHING.answered(Answer("x", pieces=("\x1b[2J", "\ud800y"), rejected=((0, "\x9b2J"),))),
    )
    loaded = store.load(saved.identity)
    assert "\x1b" not in repr(loaded).replace("\\x1b", "\x1b")
    assert loaded.conversation.exchanges[0].question.text == "a]52;c;eA==b\tc\nd"
    last = loaded.conversation.exchanges[2].answer
    assert last is not None
    assert (last.pieces, last.rejected) == (("[2J", "\ufffdy"), ((0, "2J"),))
    assert all("\x1b" not in f"{summary}{line}" for summary, line in store.search("eA"))


def test_rows_that_make_no_sense_are_told(store: Store) -> None:
    """Else: one damaged session crashes the chat each time it is opened."""
    saved = store.create(EVERYTHING, "t", "m")
    for details in (b"", b"not compressed", 7, "text"):
        store._connection.execute("UPDATE answer SET details = ?", (details,))
        with pytest.raises(SpecchatError, match="damaged"):
            store.load(saved.identity)


# Sessions ----------------------------------------------------------------------------------------


def test_the_list_is_newest_change_first(store: Store) -> None:
    """Else: the chat of a minute ago must be searched for."""
    assert store.latest() is None
    first = store.create(talk(("a", "b")), "first", "m")
    store.create(talk(("c", "d"), ("e", "f")), "second", "n")
    assert [(each.title, each.exchanges) for each in store.summaries()] == [("second", 2), ("first", 1)]
    store.write(first, talk(("a", "changed")), model="other")
    assert [(each.title, each.model) for each in store.summaries()] == [("first", "other"), ("second", "n")]
    latest = store.latest()
    assert latest is not None
    assert latest.conversation == talk(("a", "changed"))


def test_renaming_keeps_place_and_revision(store: Store) -> None:
    """Else: a rename while a reply grows makes a conflict, or shuffles the list."""
    first = store.create(talk(("a", "b")), "first", "m")
    store.create(talk(("a", "b")), "second", "m")
    store.rename(first.identity, " Rivers \x1b[1m of\nFrance ")
    assert [each.title for each in store.summaries()] == ["second", "Rivers [1m of France"]
    assert store.write(first, talk(("a", "c"))).revision == 2
    assert titles(store.search("rivers")) == ["Rivers [1m of France"]
    with pytest.raises(SpecchatError, match="title"):
        store.rename(first.identity, " \n")


def test_deleting_can_be_undone_until_purged(store: Store) -> None:
    """Else: a slip of the finger is for good, or what was deleted stays in the file."""
    saved = store.create(talk(("the secret", "b")), "t", "m")
    store.search("secret")
    store.delete(saved.identity)
    assert store.summaries() == [] and store.search("secret") == [] and store.latest() is None
    with pytest.raises(SpecchatError, match="no longer"):
        store.load(saved.identity)
    assert store.purge(3600) == 0
    store.undelete(saved.identity)
    assert store.load(saved.identity).conversation == saved.conversation
    store.delete(saved.identity)
    assert store.purge(0) == 1
    for table in ("session", "exchange", "answer", "words"):
        assert store._connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    with pytest.raises(SpecchatError, match="no longer"):
        store.undelete(saved.identity)


def test_a_session_is_found_by_what_a_person_remembers(store: Store) -> None:
    """Else: --resume opens another chat than the one meant."""
    rivers = store.create(talk(("a", "b")), "Rivers of France", "m")
    store.create(talk(("a", "b")), "Rivers of Spain", "m")
    store.create(talk(("a", "b")), "Rivers", "m")
    for name in (rivers.identity, rivers.identity[:9], "rivers OF france", "rivers of f", "france"):
        assert store.find(name).identity == rivers.identity
    assert store.find("rivers").title == "Rivers"
    with pytest.raises(SpecchatError, match="Several"):
        store.find("rivers of")
    for unknown in ("Danube", "", " "):
        with pytest.raises(SpecchatError, match="no chat called"):
            store.find(unknown)


# Search ------------------------------------------------------------------------------------------

SAID = Conversation(
    (
        Exchange(Question("Which rivers?", (Document("loire-report.md", "hidden words"),)), Answer("Many.")),
        Exchange(
            Question("In C++?"), Answer("Über die Brücke, don't say 50 % of 東京都は大きい to foo_bar.")
        ),
    )
)


@pytest.mark.parametrize("full_text", [True, False])
@pytest.mark.parametrize(
    "query",
    [
        "rivers",
        "RIVER",
        "loire-rep",
        "c++",
        "don't",
        "50 %",
        "%",
        "京都",
        "東京",
        "foo_b",
        "title many",
        "Brück",
        '"',
        "",
    ],
)
def test_what_was_said_is_found(store: Store, full_text: bool, query: str) -> None:
    """Else: a person searches a word that is there and is told that there is none."""
    store._full_text = store._full_text and full_text
    quoted = SAID.asked(Question('a "quote"'))
    store.create(quoted, "A title", "m")
    store.create(talk(("other", "words")), "Else", "m")
    assert "A title" in titles(store.search(query))
    if query and (full_text or query != '"'):
        assert "Else" not in titles(store.search(query))


@pytest.mark.parametrize(
    "query", ["ivers", "many more", "hidden", "大き小", "+-", "rivers AND NOT many", "_z"]
)
def test_what_was_not_said_is_not_found(store: Store, query: str) -> None:
    """Else: the list is long and wrong."""
    store.create(SAID, "A title", "m")
    assert store.search(query) == []


def test_accents_do_not_hide_a_word(store: Store) -> None:
    """Else: who has no umlauts on the keyboard finds nothing, or finds it without the line."""
    store.create(SAID, "A title", "m")
    ((_, line),) = store.search("brucke")
    assert line.startswith("Über die Brücke")


def test_the_line_shows_where_the_words_stand(store: Store) -> None:
    """Else: each result must be opened to see whether it is the one."""
    store.create(
        talk(("first", "nothing"), ("q", "filler " * 50 + "the heron\nstands " + "x " * 500)), "t", "m"
    )
    ((_, line),) = store.search("heron")
    assert line.startswith("…filler filler") and "the heron stands x" in line and len(line) <= 201
    ((_, line),) = store.search("t")
    assert line == "first" or "the heron" in line


def test_the_index_follows_every_change(store: Store) -> None:
    """Else: the search finds what was edited away and misses what was said last."""
    saved = store.create(talk(("alpha", "beta")), "t", "m")
    assert len(store.search("alpha")) == 1
    saved = store.write(saved, talk(("gamma", "beta")))
    assert (len(store.search("alpha")), len(store.search("gamma"))) == (0, 1)
    other = Store(store.path)
    other.write(saved, talk(("delta", "beta")))
    other.close()
    assert (len(store.search("gamma")), len(store.search("delta"))) == (0, 1)


@pytest.mark.parametrize("fault", ["DELETE FROM words_data", "DROP TABLE words_idx", "DROP TABLE words_data"])
def test_a_broken_index_is_made_again(store: Store, fault: str) -> None:
    """Else: a fault in what can be rebuilt costs the person the search, or all chats."""
    store.create(talk(("alpha", "beta")), "t", "m")
    assert len(store.search("alpha")) == 1
    sqlite3.connect(store.path, isolation_level=None).execute(fault)
    reopened = Store(store.path)
    assert reopened.set_aside is None
    assert len(reopened.search("alpha")) == 1
    reopened.close()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text())
def test_no_query_breaks_the_search(store: Store, query: str) -> None:
    """Else: a quote, a bracket or an operator typed into the filter crashes the chat."""
    if not store.summaries():
        store.create(SAID, "A title", "m")
    store.search(query)
    store.search(f'title {query}" OR (NEAR * {query}')


# Several at once ---------------------------------------------------------------------------------


def test_a_stale_write_is_refused_and_nothing_is_lost(store: Store) -> None:
    """Else: two windows on one chat overwrite each other's answers."""
    saved = store.create(talk(("a", "b")), "t", "m")
    other = Store(store.path)
    mine, theirs = talk(("a", "b"), ("mine", "1")), talk(("a", "b"), ("theirs", "2"))
    other.write(other.load(saved.identity), theirs)
    with pytest.raises(Conflict):
        store.write(saved, mine)
    fork = store.create(mine, "t", "m")
    assert store.load(saved.identity).conversation == theirs
    assert other.load(fork.identity).conversation == mine
    other.delete(fork.identity)
    with pytest.raises(Conflict):
        store.write(fork, theirs)
    other.close()


WRITER = """
import sys
from pathlib import Path
from app.chat.conversation import Answer, Conversation, Question
from app.chat.store import Store
store = Store(Path(sys.argv[1]))
conversation = Conversation().asked(Question(sys.argv[2])).answered(Answer())
saved = store.create(conversation, sys.argv[2], "m")
for count in range(1, int(sys.argv[3])):
    conversation = conversation.answered(Answer(f"{count} " * count))
    saved = store.write(saved, conversation)
    print(count, flush=True)
    store.search(sys.argv[2])
"""


def writer(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), name, str(count)], stdout=subprocess.PIPE, text=True
    )


def test_two_processes_begin_and_write_at_once(tmp_path: Path) -> None:
    """Else: a second window is told that the database is locked."""
    path = tmp_path / "sessions.db"
    processes = [writer(path, name, 60) for name in ("one", "two")]
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    store = Store(path)
    assert store.set_aside is None
    for summary in store.summaries():
        last = store.load(summary.identity).conversation.last
        assert last is not None and last.answer == Answer("59 " * 59)
    assert sorted(each.title for each in store.summaries()) == ["one", "two"]


def test_a_killed_process_loses_nothing_that_it_wrote(tmp_path: Path) -> None:
    """Else: a crash or a power cut takes the answer along."""
    path = tmp_path / "sessions.db"
    process = writer(path, "killed", 1_000_000)
    assert process.stdout is not None
    written = 0
    while written < 25:
        written = int(process.stdout.readline())
    process.kill()
    rest = process.stdout.read().split()
    assert process.wait() == (-signal.SIGKILL if os.name == "posix" else process.returncode)
    store = Store(path)
    assert store.set_aside is None
    latest = store.latest()
    assert latest is not None and latest.conversation.last is not None
    answer = latest.conversation.last.answer
    assert answer is not None
    assert int(answer.text.split()[0]) >= int(rest[-1] if rest else written)


# The file ----------------------------------------------------------------------------------------


def damage_nothing_left(path: Path) -> None:
    path.write_bytes(b"this is no database, but it is long enough to be looked at" * 100)


def damage_truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:9000])


def damage_overwritten(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096 : len(data) - 4096] = b"\xa5" * (len(data) - 8192)
    path.write_bytes(bytes(data))


def damage_missing_table(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("ALTER TABLE answer RENAME TO something_else")
    connection.close()


def damage_foreign_tables(path: Path) -> None:
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE session (id, name)")
    connection.close()


@pytest.mark.parametrize(
    "damage",
    [damage_nothing_left, damage_truncated, damage_overwritten, damage_missing_table, damage_foreign_tables],
)
def test_a_damaged_file_is_set_aside_whole(tmp_path: Path, damage: object) -> None:
    """Else: one bad sector and the chat never starts again, or the old chats are thrown away."""
    path = tmp_path / "sessions.db"
    store = Store(path)
    for number in range(20):
        store.create(talk((f"question {number}", "answer " * 200)), f"t{number}", "m")
    store.close()
    assert callable(damage)
    damage(path)
    bytes_before = path.read_bytes()
    store = Store(path)
    assert store.set_aside is not None
    assert store.set_aside.name.startswith("sessions.damaged-") and store.set_aside.suffix == ".db"
    assert store.set_aside.read_bytes()[4096:] == bytes_before[4096:]
    assert store.summaries() == []
    identity = store.create(EVERYTHING, "new", "m").identity
    store.close()
    store = Store(path)
    assert store.set_aside is None
    assert store.load(identity).conversation == EVERYTHING


@pytest.mark.skipif(os.name != "posix", reason="elsewhere a file in use cannot be moved")
def test_the_log_goes_with_the_damaged_file(tmp_path: Path) -> None:
    """Else: the log of the old file is played into the new one."""
    path = tmp_path / "sessions.db"
    other = Store(path)
    other.create(talk(("question", "answer " * 5000)), "t", "m")
    other._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    other.create(talk(("question", "answer")), "t", "m")
    damage_overwritten(path)
    store = Store(path)
    assert store.set_aside is not None
    assert store.set_aside.with_name(store.set_aside.name + "-wal").stat().st_size > 0
    assert store.summaries() == []


VERSION_1 = """
CREATE TABLE session (number INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE, revision INTEGER NOT NULL,
    title TEXT NOT NULL, model TEXT NOT NULL, system TEXT NOT NULL, unsent INTEGER NOT NULL,
    exchanges INTEGER NOT NULL, created REAL NOT NULL, changed REAL NOT NULL, deleted REAL,
    indexed INTEGER NOT NULL DEFAULT -1);
CREATE TABLE exchange (session INTEGER NOT NULL REFERENCES session (number) ON DELETE CASCADE,
    position INTEGER NOT NULL, question TEXT NOT NULL, PRIMARY KEY (session, position));
CREATE TABLE document (session INTEGER NOT NULL, position INTEGER NOT NULL, place INTEGER NOT NULL,
    name TEXT NOT NULL, text TEXT NOT NULL, PRIMARY KEY (session, position, place),
    FOREIGN KEY (session, position) REFERENCES exchange (session, position) ON DELETE CASCADE);
CREATE TABLE answer (session INTEGER NOT NULL, position INTEGER NOT NULL, text TEXT NOT NULL,
    details BLOB NOT NULL, PRIMARY KEY (session, position),
    FOREIGN KEY (session, position) REFERENCES exchange (session, position) ON DELETE CASCADE);
CREATE INDEX session_changed ON session (changed);
PRAGMA user_version = 1;
"""


def test_a_file_of_version_1_is_taken_over_in_place(tmp_path: Path) -> None:
    """Else: an update costs all chats, or they are thrown out as damaged."""
    path = tmp_path / "sessions.db"
    connection = sqlite3.connect(path)
    connection.executescript(VERSION_1)
    connection.execute(
        "INSERT INTO session VALUES (1, 'abc', 4, 'Old', 'm', 'Be brief.', 1, 3, 5, 6, NULL, 4)"
    )
    for position, exchange in enumerate(EVERYTHING.exchanges):
        connection.execute("INSERT INTO exchange VALUES (1, ?, ?)", (position, exchange.question.text))
        for place, each in enumerate(exchange.question.documents):
            row = (position, place, each.name, each.text)
            connection.execute("INSERT INTO document VALUES (1, ?, ?, ?, ?)", row)
        if exchange.answer is not None:
            answer = (position, exchange.answer.text, packed(exchange.answer))
            connection.execute("INSERT INTO answer VALUES (1, ?, ?, ?)", answer)
    connection.commit()
    connection.close()
    expected = replace(EVERYTHING, system="Be brief.")
    first, second = Store(path), Store(path)
    assert first.set_aside is None and second.set_aside is None
    assert second.load("abc").conversation == expected
    changed = expected.with_version(Question("asked otherwise")).answered(Answer("yes"))
    assert first.write(first.load("abc"), changed).revision == 5
    assert second.load("abc").conversation == changed
    assert titles(second.search("otherwise")) == titles(first.search("not answered yet")) == ["Old"]
    first.close()
    second.close()
    path.unlink()
    connection = sqlite3.connect(path)
    connection.executescript(VERSION_1.replace("exchange (", "other ("))
    connection.close()
    assert Store(path).set_aside is not None


def test_a_newer_file_is_left_alone(tmp_path: Path) -> None:
    """Else: an older specchat destroys the chats of a newer one."""
    path = tmp_path / "sessions.db"
    store = Store(path)
    store._connection.execute("PRAGMA user_version = 99")
    store.close()
    before = path.read_bytes()
    with pytest.raises(SpecchatError, match="newer specchat"):
        Store(path)
    assert path.read_bytes() == before
    assert list(tmp_path.glob("*damaged*")) == []


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """Else: the chat starts with a traceback."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(SpecchatError, match="cannot be kept"):
        Store(tmp_path / "file" / "sessions.db")
    (tmp_path / "folder").mkdir()
    with pytest.raises(SpecchatError, match="cannot be"):
        Store(tmp_path / "folder")


def test_faults_while_it_runs_are_told(store: Store) -> None:
    """Else: a full disk or another program's lock ends the chat."""
    saved = store.create(talk(("a", "b")), "t", "m")
    store._connection.execute("PRAGMA busy_timeout = 0")
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(SpecchatError, match="another program"):
        store.write(saved, talk(("a", "c")))
    other.execute("ROLLBACK")
    store._connection.execute("PRAGMA max_page_count = 1")
    with pytest.raises(SpecchatError, match="full"):
        store.write(saved, talk(("a", "c" * 1_000_000)))
    store._connection.execute("PRAGMA max_page_count = 100000")
    assert store.write(saved, talk(("a", "c"))).revision == 2
    assert store.load(saved.identity).conversation == talk(("a", "c"))


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_only_the_owner_may_read_the_chats(store: Store) -> None:
    """Else: everyone on the machine can."""
    assert store.path.stat().st_mode & 0o077 == 0
    assert store.path.parent.stat().st_mode & 0o077 == 0
