"""Files that could draft for a target, and why others cannot."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from app.errors import SpecchatError
from app.llama import Model, ModelSettings
from app.models.compatibility import draft_problem
from app.models.locate import bundled_model, open_model
from app.process.messages import Candidate

# A folder of more model files than this is a mistake in the settings.
_MOST = 200


def candidates(target: Model, folders: Sequence[str], loaded: Path | None) -> tuple[Candidate, ...]:
    """Every GGUF in the target's folder, in `folders` and bundled; those that fit come first, the
    smallest of them at the top, as it costs least a token."""
    found = [_candidate(target, path, loaded) for path in _files(target.path, folders)]
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


def _candidate(target: Model, path: Path, loaded: Path | None) -> Candidate:
    return Candidate(
        path=str(path),
        name=path.name,
        bytes=path.stat().st_size,
        problem=_problem(target, path),
        loaded=loaded is not None and os.path.realpath(path) == os.path.realpath(loaded),
    )


def _problem(target: Model, path: Path) -> str | None:
    if os.path.realpath(path) == os.path.realpath(target.path):
        return "it is the model itself"
    try:
        with open_model(path, ModelSettings(vocabulary_only=True)) as draft:
            return draft_problem(target, draft)
    except SpecchatError as error:
        return str(error)
