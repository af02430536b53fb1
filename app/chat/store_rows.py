"""Exchanges as rows of the store, and back. What comes back is cleaned."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable
from dataclasses import asdict, replace
from itertools import chain, count, groupby, repeat
from typing import Any, get_args

from app.chat.conversation import Answer, Branch, End, Exchange, Figures, Question
from app.chat.documents import Document
from app.text import clean

_ENDS = {None, *(end for part in get_args(End) for end in get_args(part))}
# Figures that every reply has.
_ALWAYS = ("tokens", "prefill_seconds", "read_tokens", "seed")

# An exchange. If it is of a version that is not shown: the position of the exchange that it is a version of,
# or followed a version of, and which of the versions that is, from 0.
_Row = tuple[Exchange, "int | None", int]


def write_exchanges(
    connection: sqlite3.Connection, session: int, before: tuple[Exchange, ...], after: tuple[Exchange, ...]
) -> None:
    """Turn the rows of `before` into those of `after`, by writing only what differs."""
    old_rows, rows = _laid_out(before), _laid_out(after)
    for position, (exchange, *place) in rows.items():
        key = session, position
        old, *old_place = old_rows.get(position, (None,))
        if old is None or place != old_place or old.question != exchange.question:
            _write_question(connection, key, exchange.question, place)
        if old is None or (old is not exchange and old.answer != exchange.answer):
            if (answer := exchange.answer) is None:
                connection.execute("DELETE FROM answer WHERE session = ? AND position = ?", key)
            else:
                row = (*key, clean(answer.text), packed(answer))
                connection.execute("INSERT OR REPLACE INTO answer VALUES (?, ?, ?, ?)", row)
    connection.executemany(
        "DELETE FROM exchange WHERE session = ? AND position = ?",
        [(session, position) for position in old_rows.keys() - rows.keys()],
    )


def _laid_out(exchanges: tuple[Exchange, ...]) -> dict[int, _Row]:
    """Every exchange by its position: what is shown from 0 on, other versions from −1 down.

    Each is below what it is a version of, so that it is read before that; and a new version of the last
    exchange is below all others, so that none of them has to be written again.
    """
    rows: dict[int, _Row] = {position: (exchange, None, 0) for position, exchange in enumerate(exchanges)}
    owners = [(position, exchange) for position, (exchange, *_) in reversed(rows.items())]
    while owners:
        owner, exchange = owners.pop()
        for place, branch in enumerate((*exchange.earlier, (), *exchange.later)):
            for each in branch:
                position = len(exchanges) - len(rows) - 1
                rows[position] = each, owner, place
                owners.append((position, each))
    return rows


def _write_question(
    connection: sqlite3.Connection, key: tuple[int, int], question: Question, place: list[int | None]
) -> None:
    # Not INSERT OR REPLACE, which would delete the answer along with the old row.
    connection.execute(
        "INSERT INTO exchange VALUES (?, ?, ?, ?, ?) ON CONFLICT (session, position) "
        "DO UPDATE SET question = excluded.question, fork = excluded.fork, place = excluded.place",
        (*key, clean(question.text), *place),
    )
    connection.execute("DELETE FROM document WHERE session = ? AND position = ?", key)
    connection.executemany(
        "INSERT INTO document VALUES (?, ?, ?, ?, ?)",
        [
            (*key, number, clean(each.name), clean(each.text))
            for number, each in enumerate(question.documents)
        ],
    )


def read_exchanges(connection: sqlite3.Connection, session: int) -> tuple[Exchange, ...]:
    """The exchanges of a session. Raises ValueError or TypeError where a row makes no sense."""
    documents: dict[int, list[Document]] = {}
    for position, name, text in connection.execute(
        "SELECT position, name, text FROM document WHERE session = ? ORDER BY position, place", (session,)
    ):
        documents.setdefault(position, []).append(Document(clean(name), clean(text)))
    shown: list[Exchange] = []
    others: dict[int, dict[int, list[Exchange]]] = {}
    for position, question, text, details, fork, place in connection.execute(
        "SELECT position, question, text, details, fork, place FROM exchange "
        "LEFT JOIN answer USING (session, position) WHERE session = ? ORDER BY position",
        (session,),
    ):
        asked = Question(clean(question), tuple(documents.get(position, ())))
        answer = None if details is None else unpacked(text, details)
        exchange = Exchange(asked, answer, *_versions(others.pop(position, {})))
        if position >= 0:
            shown.append(exchange)
        elif fork > position:
            others.setdefault(fork, {}).setdefault(place, []).insert(0, exchange)
        else:
            raise ValueError("a version of what comes after it")
    return tuple(shown)


def _versions(branches: dict[int, list[Exchange]]) -> tuple[tuple[Branch, ...], tuple[Branch, ...]]:
    """Those before and those after the place that is free, which is of the version that is shown."""
    free = next(place for place in count() if place not in branches)
    placed = sorted((place, tuple(branch)) for place, branch in branches.items())
    return tuple(b for place, b in placed if place < free), tuple(b for place, b in placed if place > free)


def searched_text(connection: sqlite3.Connection, session: int) -> Iterable[str]:
    """What a search looks at, exchange by exchange, other versions last: question, names of documents,
    answer."""
    for row in connection.execute(
        "SELECT question, (SELECT group_concat(name, char(10)) FROM document "
        "WHERE document.session = exchange.session AND document.position = exchange.position), text "
        "FROM exchange LEFT JOIN answer USING (session, position) WHERE session = ? "
        "ORDER BY position < 0, position",
        (session,),
    ):
        yield from (clean(part) for part in row if part)


def packed(answer: Answer) -> bytes:
    """All of an answer but its text: compressed JSON, origins as runs.

    A token's figures and piece weigh more than its text; level 1 takes two thirds off in less time than
    it saves in writing.
    """
    value = {
        "token_ids": answer.token_ids,
        "pieces": answer.pieces,
        "origins": [(origin, len(list(run))) for origin, run in groupby(answer.origins)],
        # The name that the first version of the file gave to rejected drafts.
        "ghosts": answer.rejected,
        "end": answer.end,
        "figures": None if answer.figures is None else asdict(answer.figures),
    }
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode("ascii"), 1)


def unpacked(text: str, details: bytes) -> Answer:
    """The answer again. Raises ValueError or TypeError where the details make no sense."""
    try:
        value: dict[str, Any] = json.loads(zlib.decompress(details))
        if value["end"] not in _ENDS:
            raise ValueError(f"unknown end {value['end']!r}")
        names, counts = _columns(value["origins"])
        places, rejected = _columns(value["ghosts"])
        return Answer(
            text=clean(text),
            token_ids=tuple(map(int, value["token_ids"])),
            pieces=_all_clean(value["pieces"]),
            origins=tuple(chain.from_iterable(map(repeat, _all_clean(names), counts))),
            rejected=tuple(zip(map(int, places), _all_clean(rejected), strict=True)),
            end=value["end"],
            figures=None if value["figures"] is None else _figures(**value["figures"]),
        )
    except (zlib.error, KeyError, AttributeError) as error:
        raise ValueError("an answer's details cannot be read") from error


def _figures(proposer: str, **numbers: Any) -> Figures:
    if not all(isinstance(each, (int, float)) or each is None for each in numbers.values()):
        raise ValueError("a figure is not a number")
    if any(numbers[name] is None for name in _ALWAYS):
        raise ValueError("a figure is missing")
    figures = Figures(clean(proposer), **numbers)
    if proposer == "off" or figures.acceptance_rate is None:
        # Earlier versions kept a ratio where nothing was drafted.
        return replace(figures, speedup=1.0 if proposer == "off" else None)
    return figures


def _columns(pairs: list[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    return [first for first, _ in pairs], [second for _, second in pairs]


def _all_clean(pieces: list[str]) -> tuple[str, ...]:
    # One look at all: a thousand small ones are what loading would spend its time on.
    whole = "".join(pieces)
    return tuple(pieces) if clean(whole) == whole else tuple(map(clean, pieces))
