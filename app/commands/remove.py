"""`specchat remove`: take a model's files off this disk, save those that another model needs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.arguments import Parser, ask
from app.chat.gate import clean
from app.commands.pull import find
from app.errors import SpecchatError, UsageError
from app.models.catalogue import Entry, catalogue
from app.models.hub import HubFile, downloaded
from app.models.pull import readable
from app.models.removal import remove


@dataclass(frozen=True, slots=True)
class Plan:
    """Which files go, and which stay for the models that need them, by name."""

    going: tuple[HubFile, ...]
    staying: tuple[tuple[HubFile, tuple[str, ...]], ...]


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    parser = Parser(
        prog="specchat remove",
        description="Remove a model and its draft from the cache of Hugging Face. What another downloaded "
        "model needs stays.",
    )
    parser.add_argument("name", metavar="NAME", help="a name of the catalogue, or org/repo:file.gguf")
    parser.add_argument("--yes", action="store_true", help="remove without asking")
    options = parser.parse_args(arguments)
    _, parts = find(options.name)
    here = [part for part in parts if downloaded(part) is not None]
    if not here:
        # What a stopped download left is nothing that anybody has to be asked about.
        freed = sum(map(remove, parts))
        if not freed:
            raise SpecchatError(
                f"{options.name} is not in the cache of Hugging Face: there is nothing to remove."
            )
        print(f"Removed a download that was not whole; {readable(freed)} freed.", file=sys.stderr)
        return 0
    plan = plan_of(here, [entry for entry in catalogue().values() if _is_here(entry)], parts)
    for part, names in plan.staying:
        print(f"{clean(part.file)} stays: {clean(', '.join(names))} uses it.", file=sys.stderr)
    if not plan.going:
        return 0
    listed = ", ".join(f"{clean(part.file)} ({readable(_bytes(part))})" for part in plan.going)
    if not options.yes and not ask(f"Remove {listed}?"):
        raise UsageError("Nothing was removed: agree, or give --yes.")
    freed = sum(map(remove, plan.going))
    print(f"Removed {listed}; {readable(freed)} freed.", file=sys.stderr)
    return 0


def plan_of(here: Sequence[HubFile], present: Iterable[Entry], named: Sequence[HubFile]) -> Plan:
    """Which of the files `here` go when the files `named` are to be removed.

    present: the entries whose files are all on the disk. One that has these very files is the same model
    under another name, and keeps none.
    """
    own = {_key(part) for part in named}
    users: dict[tuple[str, str], list[str]] = {}
    for entry in present:
        keys = {_key(part) for part in entry.parts}
        if keys != own:
            for key in keys:
                users.setdefault(key, []).append(entry.name)
    return Plan(
        tuple(part for part in here if _key(part) not in users),
        tuple((part, tuple(users[_key(part)])) for part in here if _key(part) in users),
    )


def _key(part: HubFile) -> tuple[str, str]:
    return part.repository, part.file


def _is_here(entry: Entry) -> bool:
    return all(downloaded(part) is not None for part in entry.parts)


def _bytes(part: HubFile) -> int:
    path = downloaded(part)
    return 0 if path is None else path.stat().st_size
