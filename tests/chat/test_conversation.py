"""Versions of turns: without these a regenerated answer is lost, or an edit takes what followed along."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.chat.conversation import Answer, Branch, Conversation, Question
from app.chat.export import markdown
from app.chat.store import Store

Said = Counter[tuple[str, "str | None"]]

# What a person does: ask, have an answer, edit or regenerate, walk, delete, drop the oldest.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "answer", "again", "edit", "show", "delete", "drop"]), st.integers(0, 9)
    ),
    max_size=30,
)


def all_of(branch: Branch) -> Iterator[tuple[str, str | None]]:
    """Question and answer of every exchange, those of other versions too."""
    for exchange in branch:
        yield exchange.question.text, exchange.answer.text if exchange.answer else None
        for other in (*exchange.earlier, *exchange.later):
            yield from all_of(other)


def walk(steps: list[tuple[str, int]]) -> Iterator[tuple[Conversation, Said]]:
    """The conversation after each step, and what must be in it."""
    conversation, said = Conversation(), Said()
    for count, (step, number) in enumerate(steps):
        last = conversation.last
        if step == "ask" or last is None:
            conversation = conversation.asked(Question(f"question {count}"))
            said[f"question {count}", None] += 1
        elif step == "answer" and last.answer is None:
            conversation = conversation.answered(Answer(f"answer {count}", end="stop"))
            said[last.question.text, None] -= 1
            said[last.question.text, f"answer {count}"] += 1
        elif step == "again":
            conversation = conversation.with_version()
            said[last.question.text, None] += last.answer is not None
        elif step == "edit":
            conversation = conversation.with_version(Question(f"question {count}"))
            said[f"question {count}", None] += 1
        elif step == "show":
            index = number % len(conversation.exchanges)
            shown = conversation.exchanges[index]
            other = conversation.show_version(index, 1 + count % shown.versions)
            # Back again, all is as it was: nothing depends on what was looked at.
            assert other.show_version(index, shown.version).exchanges == conversation.exchanges
            assert other.exchanges[index].versions == shown.versions
            conversation = other
        elif step == "delete":
            said[last.question.text, last.answer.text if last.answer else None] -= last.versions > 1
            conversation = conversation.without_version()
        elif step == "drop":
            conversation = conversation.dropping(number)
        yield conversation, said


@given(STEPS)
def test_nothing_is_lost_but_what_is_deleted(steps: list[tuple[str, int]]) -> None:
    """Else: an answer is gone that a person only wanted to compare."""
    for conversation, said in walk(steps):
        assert Counter(all_of(conversation.exchanges)) == +said
        shown = [exchange.question.text for exchange in conversation.exchanges]
        asked = [message.content for message in conversation.messages() if message.role == "user"]
        assert asked == shown[conversation.unsent :] and asked
        for exchange in conversation.exchanges:
            assert 1 <= exchange.version <= exchange.versions
            others = (*exchange.earlier, *exchange.later)
            assert all(branch and branch[0].versions == 1 for branch in others)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    opened = Store(tmp_path_factory.mktemp("store") / "sessions.db")
    yield opened
    opened.close()


# What only the number of the version that is shown tells apart.
SAME_QUESTION = [(step, 0) for step in ("ask", "answer", "again", "answer", "show")]


@settings(max_examples=60, deadline=None)
@example(SAME_QUESTION)
@given(STEPS)
def test_every_state_is_stored_and_exported_whole(store: Store, steps: list[tuple[str, int]]) -> None:
    """Else: a version is there until the chat is opened again, or comes back after it was deleted."""
    saved = store.create(Conversation(), "t", "m")
    other = Store(store.path)
    for conversation, said in walk(steps):
        saved = store.write(saved, conversation)
        assert other.load(saved.identity).conversation == conversation
        text = markdown("t", "m", conversation)
        for question, answer in +said:
            assert question in text and (answer or "") in text
    other.close()
    loaded = store.load(saved.identity)
    assert loaded == saved
    written = store.write(loaded, replace(loaded.conversation, system="s"), "m")
    assert written.revision == saved.revision + 1
    store.delete(saved.identity)
    store.purge(-1)
    for table in ("exchange", "document", "answer"):
        assert store._connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


def test_what_followed_a_version_is_shown_with_it() -> None:
    """Else: the answer to one text is shown, and sent, below another."""
    asked = Conversation().asked(Question("a")).answered(Answer("1"))
    regenerated = asked.with_version().answered(Answer("2"))
    longer = regenerated.asked(Question("b")).answered(Answer("3"))
    first = longer.show_version(0, 1)
    assert [message.content for message in first.asked(Question("c")).messages()] == ["a", "1", "c"]
    assert first.last_versioned == 0 and first.exchanges[0].version == 1
    assert first.asked(Question("c")).show_version(0, 2).exchanges[1] == longer.exchanges[1]
    with pytest.raises(IndexError):
        longer.show_version(0, 3)
    assert asked.last_versioned is None and asked.without_version() == asked


def test_a_new_version_writes_no_other_again(store: Store) -> None:
    """Else: ten answers to a question about a book write the book ten times each second."""
    conversation = Conversation()
    for question in ("book", "more"):
        conversation = conversation.asked(Question(question)).answered(Answer("one"))
        for text in ("two", "three"):
            conversation = conversation.with_version().answered(Answer(text))
    saved = store.create(conversation, "t", "m")
    store._connection.set_trace_callback((statements := list[str]()).append)
    store.write(saved, conversation.with_version().answered(Answer("four")))
    store._connection.set_trace_callback(None)
    written = [each for each in statements if each.startswith("INSERT")]
    assert any("four" in each for each in written) and any("three" in each for each in written)
    assert not any("one" in each or "two" in each for each in written)


def test_versions_are_found_by_what_they_say(store: Store, tmp_path: Path) -> None:
    """Else: the answer that was good is in the file, and cannot be found."""
    conversation = Conversation().asked(Question("which bird")).answered(Answer("The heron."))
    other = conversation.with_version(Question("which fish")).answered(Answer("The pike."))
    store.create(other, "t", "m")
    for word in ("heron", "bird", "pike", "fish"):
        assert len(store.search(word)) == 1
    assert store.search("")[0][1] == "which fish"
