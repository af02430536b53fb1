"""Which models and which drafts there are, for FindModels and FindDrafts."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from app.assembly.machine import cpu_copies, machine_memory
from app.errors import SpecchatError, told
from app.models.facts import facts_of
from app.models.fit import Memory
from app.models.gguf import Header, read_header
from app.models.listing import look
from app.models.locate import bundled_model
from app.models.pairs import token_problem
from app.models.row import Facts
from app.process.commands import FindDrafts, FindModels
from app.process.events import Candidate, Drafts, Failed, Models

# A folder of more model files than this is a mistake in the settings.
_MOST = 200


def find_models(
    command: FindModels, memory: Memory | None, deliver: Callable[[Models | Failed], None]
) -> None:
    """Look for models and deliver what there is, in a thread: headers that were never read take seconds.

    memory: what was free before the model was loaded; None for what is free now.
    """

    def find() -> None:
        try:
            listing = look(
                [Path(folder) for folder in command.folders],
                memory or machine_memory(),
                bundled=bundled_model(),
                copies=cpu_copies(),
            )
        except Exception as error:
            # Raised in a thread it would reach nobody, and the screen would wait for ever.
            deliver(Failed(command.identity, told(error)))
        else:
            deliver(Models(listing, command.identity))

    threading.Thread(target=find, name="models", daemon=True).start()


def find_drafts(command: FindDrafts, target: Path, loaded: Path | None, bridge: bool) -> Drafts:
    """Every GGUF in the target's folder, in those named and bundled. Those that can draft come first, the
    smallest at the top, as it costs least a token. bridge: another vocabulary is no problem."""
    header, own = read_header(target), os.path.realpath(target)
    in_use = loaded and os.path.realpath(loaded)
    found = []
    for path, facts in facts_of(_files(target, command.folders)):
        real = os.path.realpath(path)
        problem = "it is the model itself" if real == own else _problem(header, path, facts, bridge)
        found.append(Candidate(str(path), path.name, path.stat().st_size, problem, real == in_use))
    found.sort(key=lambda each: (each.problem is not None, each.bytes, each.name))
    return Drafts(tuple(found), command.identity)


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


def _problem(target: Header, path: Path, facts: Facts, bridge: bool) -> str | None:
    if facts.problem is not None or bridge:
        return facts.problem
    try:
        return token_problem(target, read_header(path))
    except SpecchatError as error:
        return str(error)
