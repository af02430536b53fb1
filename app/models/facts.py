"""What is known of model files, kept between runs, as reading the header of a large vocabulary takes a while.

What was kept may be lost or damaged at any time: then the file is read again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, fields, replace
from pathlib import Path

import platformdirs

from app.errors import SpecchatError
from app.files import whole_file
from app.models import gguf, gguf_source, gguf_types, shape, usable
from app.models.disk_search import parts_of
from app.models.gguf import Header, read_header
from app.models.row import Facts
from app.models.shape import memory_kind
from app.models.usable import file_problem

VERSION = 3
# Files that are kept: the oldest make room.
_MOST = 2000
# Of a name that a file gives itself, which may be as long as it likes.
_MOST_CHARACTERS = 200


def facts_file() -> Path:
    """Where facts are kept."""
    return Path(platformdirs.user_cache_dir("specchat", appauthor=False)) / "facts.json"


def facts_of(paths: Iterable[Path], kept_in: Path | None = None) -> Iterator[tuple[Path, Facts]]:
    """The facts of each file as soon as they are known. What was read is kept at the end, or where the
    caller stops. kept_in: the file, `facts_file()` where it is None."""
    kept_in = kept_in or facts_file()
    rules = _rules()
    known = _read(kept_in, rules)
    new: dict[str, dict[str, object]] = {}
    try:
        for path in paths:
            key, stamp = _stamp(path)
            entry = known.get(key, {}) if stamp else {}
            found = _parse(entry.get("facts")) if entry.get("stamp") == stamp else None
            if found is None:
                found, lasting = _look(path)
                if stamp and lasting:
                    new[key] = {"stamp": stamp, "facts": asdict(found)}
            yield path, found
    finally:
        if new:
            _write(kept_in, rules, new)


def _look(path: Path) -> tuple[Facts, bool]:
    """The facts, and whether they depend on the file alone: a lack of permission may end."""
    try:
        header = read_header(path)
    except SpecchatError as error:
        return Facts(problem=str(error)), not isinstance(error.__cause__, OSError)
    found = Facts(
        architecture=_cut(header.architecture),
        quantisation=header.quantisation,
        context_length=header.context_length,
        layers=header.block_count,
        title=_cut(header.text("general.name")),
    )
    try:
        found = replace(found, parameters=_parameters(header) or None)
        problem = file_problem(header)
        # Of a header that llama.cpp would refuse nothing is to be computed.
        return replace(found, problem=problem, memory_kind=None if problem else memory_kind(header)), True
    except SpecchatError as error:
        return replace(found, problem=str(error)), not isinstance(error.__cause__, OSError)


def _parameters(header: Header) -> int:
    """Of all parts. Raises SpecchatError where one of them cannot be read."""
    others = parts_of(os.fspath(header.path))[1:] if "split.count" in header.metadata else ()
    return header.parameters + sum(read_header(Path(part)).parameters for part in others)


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:_MOST_CHARACTERS]


def _stamp(path: Path) -> tuple[str, list[int]]:
    """What a file's facts are kept under, and what changes with it: sizes and times of all parts. The name
    belongs to it, as it is in the sentence of a problem. [] where the file cannot be seen."""
    try:
        seen = [os.stat(part) for part in parts_of(os.fspath(path))]
        return os.path.join(os.path.realpath(path), path.name), [
            number for about in seen for number in (about.st_size, about.st_mtime_ns)
        ]
    except (OSError, ValueError):
        return "", []


def _rules() -> list[int]:
    """What changes with the code that reads and judges headers: facts that other code found are dropped."""
    modules = (gguf, gguf_source, gguf_types, shape, usable)
    about = [os.stat(path) for module in modules if (path := module.__file__)]
    return [VERSION, *(number for each in about for number in (each.st_size, each.st_mtime_ns))]


def _read(path: Path, rules: list[int]) -> Mapping[str, Mapping[str, object]]:
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    known = data.get("facts") if isinstance(data, dict) and data.get("rules") == rules else None
    if not isinstance(known, dict):
        return {}
    return {key: entry for key, entry in known.items() if isinstance(entry, dict)}


def _write(path: Path, rules: list[int], new: Mapping[str, Mapping[str, object]]) -> None:
    """Add what is new to what other runs wrote meanwhile. A folder that cannot be written only costs time."""
    known = {key: entry for key, entry in _read(path, rules).items() if key not in new}
    kept = dict(list({**known, **new}.items())[-_MOST:])
    with suppress(OSError), whole_file(path) as file:
        file.write(json.dumps({"rules": rules, "facts": kept}).encode())


def _parse(entry: object) -> Facts | None:
    """The facts that were kept; None where they have other fields or types."""
    names = {field.name: str(field.type) for field in fields(Facts)}
    if not isinstance(entry, dict) or entry.keys() != names.keys():
        return None
    for name, value in entry.items():
        kind = str if "str" in names[name] else int
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            return None
    return Facts(**entry)
