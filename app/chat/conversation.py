"""A conversation: its turns, which of them are sent to the model, and what a person may change.

Each change gives a new Conversation, so that what the screen shows, what the store holds and what the engine
was sent can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from app.chat.documents import Document, with_documents
from app.chat.message import Message

# How a reply ended; "crashed": the engine's process died; None: it is still being written.
End = Literal["stop", "length", "stop_string", "context", "cancelled", "crashed"] | None


@dataclass(frozen=True, slots=True)
class Figures:
    """A reply's speed, and what speculation gave it. None where a figure was not measured.

    proposer: those that drafted, or that were on where none did; then acceptance_rate is None.
    """

    proposer: str
    tokens: int
    tokens_per_second: float | None
    plain_tokens_per_second: float | None
    speedup: float | None
    acceptance_rate: float | None
    tokens_per_pass: float | None
    prefill_seconds: float
    read_tokens: int
    seed: int


@dataclass(frozen=True, slots=True)
class Question:
    """A person's turn. documents: attached files and large pastes, put before the text."""

    text: str
    documents: tuple[Document, ...] = ()

    @property
    def content(self) -> str:
        """What the model reads."""
        return with_documents(self.text, self.documents)


@dataclass(frozen=True, slots=True)
class Answer:
    """The model's turn. pieces: text of each token; origins: where each came from; same lengths.

    rejected: (index of the token it stood before, text) of each rejected draft.
    """

    text: str = ""
    token_ids: tuple[int, ...] = ()
    pieces: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    rejected: tuple[tuple[int, str], ...] = ()
    end: End = None
    figures: Figures | None = None

    def cut(self, size: int) -> Answer:
        """With no more than `size` tokens; the text stays."""
        return replace(
            self,
            token_ids=self.token_ids[:size],
            pieces=self.pieces[:size],
            origins=self.origins[:size],
            rejected=tuple(draft for draft in self.rejected if draft[0] <= size),
        )


# A version of a turn with what followed it.
Branch: TypeAlias = "tuple[Exchange, ...]"


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and its answer, None before the answer has begun; and the turn's other versions.

    earlier, later: versions made before and after this one, oldest first, each with what followed it. The
    turns of a branch have versions of their own in the same way, but for the first.
    """

    question: Question
    answer: Answer | None = None
    earlier: tuple[Branch, ...] = ()
    later: tuple[Branch, ...] = ()

    @property
    def version(self) -> int:
        """Which version of the turn this is, counted from 1."""
        return len(self.earlier) + 1

    @property
    def versions(self) -> int:
        """How many there are, with this one."""
        return len(self.earlier) + 1 + len(self.later)

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions of all versions, oldest first."""
        return tuple(branch[0].question for branch in (*self.earlier, (self,), *self.later))


@dataclass(frozen=True, slots=True)
class Conversation:
    """Exchanges in order, each in the version that is shown. unsent: how many of the oldest are no longer
    sent."""

    exchanges: tuple[Exchange, ...] = ()
    system: str = ""
    unsent: int = 0

    @property
    def last(self) -> Exchange | None:
        return self.exchanges[-1] if self.exchanges else None

    def asked(self, question: Question) -> Conversation:
        """With one more question."""
        return replace(self, exchanges=(*self.exchanges, Exchange(question)))

    def answered(self, answer: Answer) -> Conversation:
        """With this answer to the last question."""
        *before, last = self.exchanges
        return replace(self, exchanges=(*before, replace(last, answer=answer)))

    def with_version(self, question: Question | None = None) -> Conversation:
        """With another version of the last exchange, without an answer: this question, None for the same.

        No version is added where the last question is the same and has no answer yet.
        """
        last = self.exchanges[-1]
        asked = Exchange(question or last.question)
        if asked == replace(last, earlier=(), later=()):
            return self
        versions = (*_versions(self.exchanges[-1:]), (asked,))
        return self._ending(-1, _shown(versions, len(versions)))

    def show_version(self, index: int, number: int) -> Conversation:
        """With version `number`, from 1, of the exchange at `index`, and with what followed that version.

        Raises IndexError where there is no such exchange or version.
        """
        if not 0 <= index < len(self.exchanges) or not 1 <= number <= self.exchanges[index].versions:
            raise IndexError(f"no version {number} of exchange {index}")
        return self._ending(index, _shown(_versions(self.exchanges[index:]), number))

    def without_version(self) -> Conversation:
        """Without the shown version of the last exchange, if it has others: the one before, or after, is
        shown."""
        if not self.exchanges or self.exchanges[-1].versions == 1:
            return self
        last = self.exchanges[-1]
        return self._ending(-1, _shown((*last.earlier, *last.later), max(1, last.version - 1)))

    @property
    def last_versioned(self) -> int | None:
        """The index of the last exchange that has several versions."""
        return max((index for index, each in enumerate(self.exchanges) if each.versions > 1), default=None)

    def _ending(self, index: int, branch: Branch) -> Conversation:
        exchanges = (*self.exchanges[:index], *branch)
        return replace(self, exchanges=exchanges, unsent=min(self.unsent, len(exchanges) - 1))

    def dropping(self, count: int) -> Conversation:
        """With `count` more of the oldest exchanges not sent; the last always is."""
        return replace(self, unsent=max(0, min(self.unsent + count, len(self.exchanges) - 1)))

    def messages(self) -> tuple[Message, ...]:
        """What is sent for an answer to the last question: that question is the last message.

        Raises ValueError where nothing was asked.
        """
        if not self.exchanges:
            raise ValueError("nothing was asked")
        said = self.spoken()
        return said if said[-1].role == "user" else said[:-1]

    def spoken(self) -> tuple[Message, ...]:
        """All that is sent with a next question, before it."""
        said = [Message("system", self.system)] if self.system.strip() else []
        for exchange in self.exchanges[self.unsent :]:
            said.append(Message("user", exchange.question.content))
            if exchange.answer is not None:
                said.append(Message("assistant", exchange.answer.text, exchange.answer.token_ids))
        return tuple(said)


def _versions(tail: Branch) -> tuple[Branch, ...]:
    """All versions of the first exchange, oldest first; the shown one with the rest of `tail`."""
    first = tail[0]
    return (*first.earlier, (replace(first, earlier=(), later=()), *tail[1:]), *first.later)


def _shown(versions: tuple[Branch, ...], number: int) -> Branch:
    first, *followed = versions[number - 1]
    return (replace(first, earlier=versions[: number - 1], later=versions[number:]), *followed)


def title_of(question: Question, longest: int = 60) -> str:
    """A session's first title: the question's first line, or the name of its first document."""
    names = [each.name for each in question.documents]
    lines = [*question.text.strip().splitlines(), *names]
    line = " ".join(lines[0].split()) if lines else ""
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"
