"""Files that could draft for a target, and why others cannot."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from app.errors import SpecchatError
from app.models.facts import facts_of
from app.models.gguf import Header, read_header
from app.models.locate import bundled_model
from app.models.pairs import token_problem
from app.models.row import Facts
from app.process.messages import Candidate

# A folder of more model files than this is a mistake in the settings.
_MOST = 200


def candidates(
    target: Path, folders: Sequence[str], loaded: Path | None, bridge: bool = False
) -> tuple[Candidate, ...]:
    """Every GGUF in the target's folder, in `folders` and bundled; those that fit come first, the
    smallest of them at the top, as it costs least a token. bridge: another vocabulary fits too."""
    header = read_header(target)
    files = facts_of(_files(target, folders))
    found = [_candidate(header, path, facts, loaded, bridge) for path, facts in files]
    return tuple(sorted(found, key=lambda each: (each.problem is not None, each.bytes, each.name)))


def _files(target: Path, folders: Sequence[str]) -> Iterator[Path]:
    seen: set[str] = set()
    places = [target.parent, *(Path(os.path.expanduser(folder)) for folder in folders)]
    listed = [path for place in places if place.is_dir() for path in sorted(place.glob("*.gguf"))]
    bundled = bundled_model()
    for path in [*listed, *([bundled] if bundled else [])]:
        real = os.path.realpath(path)
        if real not in seen and len(seen) < _MOST and os.path.isfile(real):
            seen.add(real)
            yield path


def _candidate(target: Header, path: Path, facts: Facts, loaded: Path | None, bridge: bool) -> Candidate:
    return Candidate(
        path=str(path),
        name=path.name,
        bytes=path.stat().st_size,
        problem=_problem(target, path, facts, bridge),
        loaded=loaded is not None and os.path.realpath(path) == os.path.realpath(loaded),
    )


def _problem(target: Header, path: Path, facts: Facts, bridge: bool) -> str | None:
    if os.path.realpath(path) == os.path.realpath(target.path):
        return "it is the model itself"
    if facts.problem is not None:
        return facts.problem
    if bridge:
        return None
    try:
        return token_problem(target, read_header(path))
    except SpecchatError as error:
        return str(error)
