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

from app.chat.gate import clean
from app.errors import SpecchatError
from app.models.hub import Part, file_problem, repository_problem, revision_problem
from app.settings.fields import nearest, shown
from app.settings.file import load_toml, settings_path
from app.settings.scan import line_of, scan

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
    target: Part
    draft: Part | None
    kind: Kind
    licence: str
    memory: int
    unverified: bool
    memory_kind: str | None
    rpc: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[Part, ...]:
        """The files to have, the target first; not a head that nothing can run."""
        return (self.target, self.draft) if self.draft and self.kind in RUNNABLE else (self.target,)


def user_catalogue_file() -> Path:
    """Where the person's own catalogue is, beside the settings; it need not be there."""
    return settings_path().with_name("models.toml")


def catalogue() -> dict[str, Entry]:
    """The entries by name: the shipped ones, and the person's own, which add to them and replace whole ones.

    Raises SpecchatError with file and line where the person's file has a fault: nobody is to look for an
    entry in vain, or to get another model than the one that was written down. Whoever can go on without
    the file tells the error and takes `shipped_catalogue`. A model named by its path needs neither.
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
    """The entries that come with specchat. Their file lies beside this one, in a checkout at the top."""
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
    return _Reader(text, label, known).entries()


class _Reader:
    """One file's content, held against what it should be."""

    def __init__(self, text: str, label: str, known: Mapping[str, Entry]) -> None:
        self._text = text
        self._label = label
        self._known = known
        self._data = load_toml(text, label)

    def entries(self) -> dict[str, Entry]:
        """Every entry, in the order of the file."""
        return {name: self._entry(name, raw) for name, raw in self._data.items()}

    def _entry(self, name: str, raw: object) -> Entry:
        at = (name,)
        if not _NAME.fullmatch(name):
            self._fail(at, f"a name is of letters, digits and . _ -, not {shown(name)}.")
        fields = self._table(at, raw, f"write [{name}] on a line of its own and its keys below")
        optional = ("draft", "kind", "memory_kind", "unverified", "rpc")
        self._check_keys(at, fields, ("target", "licence", "memory"), optional)
        kind = self._text_at((name, "kind"), fields.get("kind", "draft"))
        if kind not in get_args(Kind):
            self._fail((name, "kind"), f'kind is {shown(kind)}: give "draft", "eagle3" or "mtp".')
        if kind == "eagle3" and "draft" not in fields:
            self._fail(at, f"{name} has no draft: an EAGLE-3 head is a file of its own, so name it.")
        unverified = fields.get("unverified", False)
        if not isinstance(unverified, bool):
            self._fail((name, "unverified"), f"unverified is {shown(unverified)}: give true or false.")
        target = self._part((name, "target"), fields["target"])
        memory_kind = fields.get("memory_kind")
        return Entry(
            name=name,
            target=target,
            draft=self._part((name, "draft"), fields["draft"]) if "draft" in fields else None,
            kind=cast(Kind, kind),
            licence=self._text_at((name, "licence"), fields["licence"]),
            memory=self._gigabytes((name, "memory"), fields["memory"]),
            unverified=unverified,
            memory_kind=None if memory_kind is None else self._text_at((name, "memory_kind"), memory_kind),
            rpc=self._addresses((name, "rpc"), fields.get("rpc", [])),
        )

    def _part(self, at: _Path, raw: object) -> Part:
        fields = self._table(at, raw, f"write {at[-1]}.repository, {at[-1]}.file and {at[-1]}.size")
        if "same_as" in fields:
            return self._same(at, fields)
        self._check_keys(at, fields, ("repository", "file", "size"), ("revision",), "same_as")
        repository = self._text_at((*at, "repository"), fields["repository"])
        file = self._text_at((*at, "file"), fields["file"])
        revision = fields.get("revision")
        problems = {
            "repository": repository_problem(repository),
            "file": file_problem(file),
            "revision": None if revision is None else revision_problem(revision),
        }
        for key, problem in problems.items():
            if problem:
                self._fail((*at, key), f"{key} is {shown(fields[key])}: {problem}.")
        size = self._gigabytes((*at, "size"), fields["size"])
        return Part(repository, file, size, None if revision is None else str(revision))

    def _same(self, at: _Path, fields: Mapping[str, object]) -> Part:
        """The same part of another entry, which must say itself what it is."""
        self._check_keys(at, fields, ("same_as",), ())
        here, key = (*at, "same_as"), at[1]
        name = self._text_at(here, fields["same_as"])
        if name in self._data:
            entry = self._data[name]
            part = entry.get(key) if isinstance(entry, dict) else None
            if isinstance(part, dict) and "same_as" in part:
                self._fail(here, f"{key} is the same as in {name}, which names another: name that one.")
            if part is not None:
                return self._part((name, key), part)
        elif name in self._known:
            known = self._known[name].target if key == "target" else self._known[name].draft
            if known is not None:
                return known
        else:
            near = nearest(name, {*self._data, *self._known})
            hint = f"did you mean {shown(near)}?" if near else "name an entry that there is."
            self._fail(here, f"same_as is {shown(name)}, which is no entry; {hint}")
        self._fail(here, f"{name} has no {key} that could be the same; name another entry.")

    def _table(self, at: _Path, raw: object, wanted: str) -> Mapping[str, object]:
        if not isinstance(raw, dict):
            self._fail(at, f"{at[-1]} is {shown(raw)}: {wanted}.")
        return raw

    def _check_keys(
        self,
        at: _Path,
        fields: Mapping[str, object],
        required: Collection[str],
        optional: Collection[str],
        instead: str = "",
    ) -> None:
        """Every key is known, and those required are there. instead: one that would stand for them all."""
        inner = "".join(f"{each}." for each in at[1:])
        keys = [*required, *optional, *([instead] if instead else [])]
        for key in fields:
            if key not in keys:
                near = nearest(key, keys)
                hint = f"did you mean {inner}{near}?" if near else f"there are {', '.join(keys)}."
                self._fail((*at, key), f"{at[0]} has no key {inner}{_short(key)}; {hint}")
        for key in required:
            if key not in fields:
                other = f", or {inner}{instead}" if instead else ""
                self._fail(at, f"{at[0]} has no {inner}{key}: add it{other}.")

    def _text_at(self, at: _Path, raw: object) -> str:
        if not isinstance(raw, str) or not raw.strip() or not raw.isprintable():
            self._fail(at, f"{at[-1]} is {shown(raw)}: give a text in quotation marks, on one line.")
        return raw

    def _addresses(self, at: _Path, raw: object) -> tuple[str, ...]:
        if not isinstance(raw, list):
            self._fail(at, f'rpc is {shown(raw)}: give a list, such as ["192.0.2.7:50052"].')
        return tuple(self._text_at(at, each) for each in raw)

    def _gigabytes(self, at: _Path, raw: object) -> int:
        """Bytes, of a number that is given in GB."""
        if isinstance(raw, bool) or not isinstance(raw, int | float):
            self._fail(at, f"{at[-1]} is {shown(raw)}: give a number of GB, such as 4.92.")
        # So put that it is true for nan too.
        if not raw > 0:
            self._fail(at, f"{at[-1]} is {_short(shown(raw))}: give a number of GB above 0.")
        if raw > _MOST_GIGABYTES:
            self._fail(at, f"{at[-1]} is {_short(str(raw))}: give it in GB, not in bytes.")
        return max(1, round(raw * _GIGABYTE))

    def _fail(self, at: _Path, message: str) -> NoReturn:
        places = [each.key for each in scan(self._text) if each.path[: len(at)] == at]
        line = line_of(self._text, places[0] if places else 0)
        raise SpecchatError(f"{self._label} line {line}: {message}")


def _short(key: str) -> str:
    """A key as its writer wrote it, made safe and short."""
    return " ".join(clean(key).split())[:40]
