"""The catalogue, `models.toml`: names for targets and the drafts or heads that go with them.

The file's own first lines say what its keys mean. A fault in it is told with its line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NoReturn, TypeAlias, cast, get_args

from app.config.fields import nearest, shown
from app.config.file import line_of, load_toml, settings_path
from app.errors import SpecchatError
from app.models.hub import HubFile, file_problem, repository_problem, revision_problem
from app.text import clean

Kind: TypeAlias = Literal["draft", "eagle3", "mtp"]
"""What drafts: a smaller model, or a head of one of these kinds."""

RUNNABLE: frozenset[Kind] = frozenset({"draft"})
"""The kinds that a proposer can run. The files of the others are not offered until one can."""

_Path: TypeAlias = tuple[str, ...]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_GIGABYTE = 1_000_000_000
_MOST_GIGABYTES = 100_000


@dataclass(frozen=True, slots=True)
class Entry:
    """A target and what drafts for it.

    draft: the draft or head; None where it is inside the target's file, or there is none. memory: bytes
    that the pair takes with a context of 8,192 tokens. unverified: no listing has shown the files, so a
    name may be wrong. memory_kind: "hybrid", "sliding window", …; None for plain attention. rpc: HOST:PORT of
    the llama.cpp RPC servers that take layers of it.
    """

    name: str
    target: HubFile
    draft: HubFile | None
    kind: Kind
    licence: str
    memory: int
    unverified: bool
    memory_kind: str | None
    rpc: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[HubFile, ...]:
        """The files to have, the target first; not a head that nothing can run."""
        return (self.target, self.draft) if self.draft and self.kind in RUNNABLE else (self.target,)


def user_catalogue_file() -> Path:
    """Where the person's own catalogue is, beside the settings; it need not be there."""
    return settings_path().with_name("models.toml")


def catalogue() -> dict[str, Entry]:
    """The entries by name: the shipped ones, and the person's own, which add to them and replace whole ones.

    Raises SpecchatError with file and line where the person's file has a fault. A caller that can do without
    the file shows the error and takes `shipped_catalogue`.
    """
    own = user_catalogue_file()
    shipped = dict(shipped_catalogue())
    return {**shipped, **read_catalogue(own, shipped)} if os.path.lexists(own) else shipped


def offered(entries: Mapping[str, Entry]) -> list[Entry]:
    """The entries without those that differ from another only by a head that nothing can run."""
    targets = {entry.target for entry in entries.values() if entry.kind in RUNNABLE}
    return [each for each in entries.values() if each.kind in RUNNABLE or each.target not in targets]


@cache
def shipped_catalogue() -> Mapping[str, Entry]:
    """The entries that come with specchat. Their file lies beside this one; in a checkout, at the top."""
    here = Path(__file__).parent
    shipped = here / "models.toml"
    return MappingProxyType(read_catalogue(shipped if shipped.exists() else here.parents[1] / "models.toml"))


def read_catalogue(path: Path, known: Mapping[str, Entry] = MappingProxyType({})) -> dict[str, Entry]:
    """The entries in that file. known: those of another that `same_as` may name too.

    Raises SpecchatError with file and line for whatever is wrong in it.
    """
    label = clean(str(path))
    try:
        # Some editors put a byte order mark before the text, which is no TOML.
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        reason = error.strerror or str(error)
        raise SpecchatError(f"The catalogue {label} cannot be read: {reason}.") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise SpecchatError(f"{label} line {line}: not UTF-8; save the file as UTF-8.") from error
    file = _File(text, label, load_toml(text, label), known)
    return {name: file.entry(name, raw) for name, raw in file.data.items()}


@dataclass(frozen=True, slots=True)
class _File:
    """A catalogue's text, and what tomllib makes of it. known: entries of another that may be named."""

    text: str
    label: str
    data: Mapping[str, object]
    known: Mapping[str, Entry]

    def fail(self, at: _Path, message: str) -> NoReturn:
        raise SpecchatError(f"{self.label} line {line_of(self.text, at)}: {message}")

    def table(self, at: _Path, raw: object, wanted: str) -> _Table:
        if not isinstance(raw, dict):
            self.fail(at, f"{at[-1]} is {shown(raw)}: {wanted}.")
        return _Table(self, at, raw)

    def entry(self, name: str, raw: object) -> Entry:
        if not _NAME.fullmatch(name):
            self.fail((name,), f"a name is of letters, digits and . _ -, not {shown(name)}.")
        table = self.table((name,), raw, f"write [{name}] on a line of its own and its keys below")
        optional = ("draft", "kind", "memory_kind", "unverified", "rpc")
        table.check_keys(("target", "licence", "memory"), optional)
        kind = table.text("kind", "draft")
        if kind not in get_args(Kind):
            table.fail("kind", f'kind is {shown(kind)}: give "draft", "eagle3" or "mtp".')
        if kind == "eagle3" and "draft" not in table.fields:
            table.fail("", f"{name} has no draft: an EAGLE-3 head is a file of its own, so name it.")
        unverified = table.fields.get("unverified", False)
        if not isinstance(unverified, bool):
            table.fail("unverified", f"unverified is {shown(unverified)}: give true or false.")
        rpc = table.fields.get("rpc", [])
        if not isinstance(rpc, list) or not all(isinstance(each, str) and _is_line(each) for each in rpc):
            table.fail("rpc", f'rpc is {shown(rpc)}: give a list, such as ["192.0.2.7:50052"].')
        return Entry(
            name=name,
            target=self.part((name, "target"), table.fields["target"]),
            draft=self.part((name, "draft"), table.fields["draft"]) if "draft" in table.fields else None,
            kind=cast(Kind, kind),
            licence=table.text("licence"),
            memory=table.gigabytes("memory"),
            unverified=unverified,
            memory_kind=table.text("memory_kind") if "memory_kind" in table.fields else None,
            rpc=tuple(rpc),
        )

    def part(self, at: _Path, raw: object) -> HubFile:
        key = at[-1]
        table = self.table(at, raw, f"write {key}.repository, {key}.file and {key}.size")
        if "same_as" in table.fields:
            return self._same(table, key)
        table.check_keys(("repository", "file", "size"), ("revision",), "same_as")
        repository, file = table.text("repository"), table.text("file")
        revision = table.fields.get("revision")
        problems = {
            "repository": repository_problem(repository),
            "file": file_problem(file),
            "revision": None if revision is None else revision_problem(revision),
        }
        for name, problem in problems.items():
            if problem:
                table.fail(name, f"{name} is {shown(table.fields[name])}: {problem}.")
        return HubFile(repository, file, table.gigabytes("size"), None if revision is None else str(revision))

    def _same(self, table: _Table, key: str) -> HubFile:
        """The same part of another entry, which must say itself what it is."""
        table.check_keys(("same_as",), ())
        name = table.text("same_as")
        if name in self.data:
            entry = self.data[name]
            part = entry.get(key) if isinstance(entry, dict) else None
            if isinstance(part, dict) and "same_as" in part:
                table.fail("same_as", f"{key} is the same as in {name}, which names another: name that one.")
            if part is not None:
                return self.part((name, key), part)
        elif name in self.known:
            known = self.known[name].target if key == "target" else self.known[name].draft
            if known is not None:
                return known
        else:
            near = nearest(name, {*self.data, *self.known})
            hint = f"did you mean {shown(near)}?" if near else "name an entry that there is."
            table.fail("same_as", f"same_as is {shown(name)}, which is no entry; {hint}")
        table.fail("same_as", f"{name} has no {key} that could be the same; name another entry.")


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of the file, whose values are checked as they are taken."""

    file: _File
    at: _Path
    fields: Mapping[str, object]

    def fail(self, key: str, message: str) -> NoReturn:
        """key: "" for the table itself."""
        self.file.fail((*self.at, key) if key else self.at, message)

    def check_keys(self, required: Collection[str], optional: Collection[str], instead: str = "") -> None:
        """Check that every key is known and those required are there. instead: one that replaces them all."""
        inner = "".join(f"{each}." for each in self.at[1:])
        keys = [*required, *optional, *([instead] if instead else [])]
        for key in self.fields:
            if key not in keys:
                near = nearest(key, keys)
                hint = f"did you mean {inner}{near}?" if near else f"there are {', '.join(keys)}."
                self.fail(key, f"{self.at[0]} has no key {inner}{_short(key)}; {hint}")
        for key in required:
            if key not in self.fields:
                other = f", or {inner}{instead}" if instead else ""
                self.fail("", f"{self.at[0]} has no {inner}{key}: add it{other}.")

    def text(self, key: str, default: str = "") -> str:
        """A line of text. default: where the key is not there."""
        raw = self.fields.get(key, default)
        if not isinstance(raw, str) or not _is_line(raw):
            self.fail(key, f"{key} is {shown(raw)}: give a text in quotation marks, on one line.")
        return raw

    def gigabytes(self, key: str) -> int:
        """Bytes, of a number that is given in GB."""
        raw = self.fields[key]
        if isinstance(raw, bool) or not isinstance(raw, int | float):
            self.fail(key, f"{key} is {shown(raw)}: give a number of GB, such as 4.92.")
        # Written so that it holds for nan too.
        if not raw > 0:
            self.fail(key, f"{key} is {_short(shown(raw))}: give a number of GB above 0.")
        if raw > _MOST_GIGABYTES:
            self.fail(key, f"{key} is {_short(str(raw))}: give it in GB, not in bytes.")
        return max(1, round(raw * _GIGABYTE))


def _is_line(text: str) -> bool:
    return bool(text.strip()) and text.isprintable()


def _short(key: str) -> str:
    """A key as its writer wrote it, made safe and short."""
    return " ".join(clean(key).split())[:40]
