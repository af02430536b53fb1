"""What the benchmarks share: options, models, replies, progress, tables."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, fields
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

from app.arguments import Parser, ask, whole
from app.assembly.assembly import Assembly
from app.assembly.template import template_for
from app.bench.prompts import load_prompts
from app.chat.message import Message
from app.chat.prompt import encode
from app.commands.status import StatusLine
from app.commands.table import TableColumn, table
from app.config.values import LoadSettings
from app.engine.control import Controller
from app.engine.events import Event, Finished, Pass, Request
from app.engine.loop import Engine
from app.engine.settings import Sampling
from app.llama.model import Model
from app.llama.quantise import requantise
from app.llama.threads import performance_cores
from proposers.base import Proposer
from proposers.registry import PROPOSERS

LENGTH = 2048
GREEDY = Sampling(temperature=0.0)

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


def bench_parser(
    name: str,
    about: str | None,
    *,
    model: bool = True,
    rounds: int | None = None,
    tokens: int | None = None,
    json: bool = True,
) -> Parser:
    """A parser for `specchat bench NAME` with the usual options; the numbers are their defaults."""
    parser = Parser(prog=f"specchat bench {name}", description=about)
    add = parser.add_argument
    if model:
        add("--model", metavar="M", help="a .gguf or a name of the catalogue (default: the bundled model)")
    if rounds:
        add("--rounds", type=whole(1), default=rounds, metavar="N", help=f"default: {rounds}")
    if tokens:
        add("--tokens", type=whole(2), default=tokens, metavar="N", help=f"of each reply (default: {tokens})")
    if json:
        add("--json", action="store_true", help="print JSON instead of a table")
    return parser


def open_assembly(settings: LoadSettings) -> Assembly:
    """The model; what is said while it loads goes to stderr."""
    return Assembly(settings, stop=lambda: False, say=lambda line: print(line, file=sys.stderr), agree=ask)


def chat_tokens(model: Model, text: str, template: str | None = None) -> tuple[int, ...]:
    """The prompt of a chat that begins with this text. template: as --template takes it."""
    return tuple(encode([Message("user", text)], template_for(model, template), model))


def greedy_request(prompt: Sequence[int], tokens: int, k: int | None = None) -> Request:
    """At most so many tokens at temperature 0."""
    return Request(tuple(prompt), GREEDY, seed=0, max_tokens=tokens, k=k)


def calibrate(engine: Engine, seconds: float) -> None:
    """Let the engine measure what its passes cost, for about so long."""
    engine.calibrate([max(engine.target.model.bos, 0)], seconds)


def finish(reply: Iterable[Event], each: Callable[[Pass], None] = lambda entry: None) -> Finished:
    """A reply to its end; `each` is called with every pass."""
    for event in reply:
        if isinstance(event, Pass):
            each(event)
        elif isinstance(event, Finished):
            return event
    raise AssertionError("a reply ends with Finished")


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """The items by key, in their order."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def with_progress(items: Iterable[Item], expected: int, what: str) -> Iterator[Item]:
    """Pass the items on, with a line on stderr that says how many of them there are and how long the rest
    will take. what: their name, in the plural."""
    line, started = StatusLine(shown=True), time.monotonic()
    try:
        for done, each in enumerate(items, start=1):
            left = (time.monotonic() - started) / done * max(0, expected - done)
            line.show(f"{done} of {expected} {what}, about {left:.0f} s left")
            yield each
    finally:
        line.end()


def print_rows(rows: Sequence[Any], as_json: bool = False, **about: object) -> int:
    """Print dataclasses as a table under the names of their fields, or as JSON; returns the exit code.

    about: what JSON tells besides the rows; without it, it is a list of them.
    """
    if as_json:
        records = [asdict(row) for row in rows]
        print(json.dumps({**about, "rows": records} if about else records))
        return 0
    names = [field.name for field in fields(rows[0])]
    columns = [
        TableColumn(_title(name), partial(_cell, name), right=not isinstance(getattr(rows[0], name), str))
        for name in names
    ]
    print("\n".join(table(rows, columns)))
    return 0


def print_record(record: Any, as_json: bool) -> int:
    """Print a dataclass, a line for each field, or as JSON; returns the exit code."""
    if as_json:
        print(json.dumps(asdict(record)))
    else:
        for field in fields(record):
            print(f"{_title(field.name):<30}{_cell(field.name, record):>10}")
    return 0


def _title(name: str) -> str:
    return " ".join("µs" if word == "us" else word for word in name.split("_"))


def _cell(name: str, row: object) -> str:
    value = getattr(row, name)
    if isinstance(value, float):
        return f"{value:,.{1 if value >= 100 else 2 if value >= 10 else 3}f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


class Workbench(ExitStack):
    """A model with a requantised copy of it as draft, and its layer-skipped one; to be used in a `with`."""

    def __init__(self, path: Path, exact: bool = False, threads: int | None = None) -> None:
        super().__init__()
        folder = Path(self.enter_context(tempfile.TemporaryDirectory()))
        draft = requantise(path, folder / "draft.gguf", "Q4_0")
        # A fixed number of threads: what is measured should not change with it.
        threads = threads or performance_cores()
        settings = LoadSettings(str(path), str(draft), context_length=LENGTH, threads=threads, exact=exact)
        self.assembly = self.enter_context(open_assembly(settings))
        self._engine = self.assembly.engine("off")

    def proposers(self) -> dict[str, Proposer]:
        """New proposers by name."""
        return {name: each.fork() for name in PROPOSERS for each in self.assembly.proposers.choose(name)}

    def prompts(self, count: int, room: int) -> list[tuple[int, ...]]:
        """`count` of the project's prompts as tokens, the shortest of each category first; they leave `room`
        tokens of the context."""
        by_category: dict[str, list[tuple[int, ...]]] = {}
        for entry in load_prompts():
            tokens = chat_tokens(self.assembly.target, entry.prompt)
            if len(tokens) + room <= LENGTH:
                by_category.setdefault(entry.category, []).append(tokens)
        ranks = zip_longest(*(sorted(prompts, key=len) for prompts in by_category.values()))
        return [prompt for rank in ranks for prompt in rank if prompt is not None][:count]

    def reply(
        self,
        prompt: Sequence[int],
        proposer: Proposer,
        *,
        k: int | None = None,
        tokens: int = 128,
        sampling: Sampling = GREEDY,
        controller: Controller | None = None,
        each: Callable[[Engine], None] = lambda engine: None,
    ) -> Finished:
        """One reply; `each` is called after every pass. The prompt stays in the target's cache."""
        engine = self._engine
        engine.sequence.proposers, engine.controller = (proposer,), controller or Controller()
        request = Request(tuple(prompt), sampling, seed=0, max_tokens=tokens, k=k)
        return finish(engine.generate(request), lambda entry: each(engine))
