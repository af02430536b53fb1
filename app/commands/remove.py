"""`specchat remove`: delete a model's files, except those that another model needs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from app.arguments import Parser, ask
from app.commands.pull import find
from app.errors import SpecchatError, UsageError
from app.models.catalogue import catalogue
from app.models.hub import HubFile, downloaded
from app.models.pull import readable
from app.models.removal import remove
from app.text import clean


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
        # A part of a download is nothing that anybody has to be asked about.
        freed = sum(map(remove, parts))
        if not freed:
            raise SpecchatError(
                f"{options.name} is not in the cache of Hugging Face: there is nothing to remove."
            )
        print(f"Removed an unfinished download; {readable(freed)} freed.", file=sys.stderr)
        return 0
    users = _users(parts)
    for part in here:
        if names := users.get(_key(part)):
            print(f"{clean(part.file)} stays: {clean(', '.join(names))} uses it.", file=sys.stderr)
    unused = [part for part in here if _key(part) not in users]
    if not unused:
        return 0
    listed = ", ".join(f"{clean(part.file)} ({readable(_bytes(part))})" for part in unused)
    if not options.yes and not ask(f"Remove {listed}?"):
        raise UsageError("Nothing was removed: agree, or give --yes.")
    freed = sum(map(remove, unused))
    print(f"Removed {listed}; {readable(freed)} freed.", file=sys.stderr)
    return 0


def _users(parts: Sequence[HubFile]) -> dict[tuple[str, str], list[str]]:
    """The names of the models on this disk that need each file.

    An entry of the catalogue with exactly these parts is the same model under another name: it needs none.
    """
    own = set(map(_key, parts))
    users: dict[tuple[str, str], list[str]] = {}
    for entry in catalogue().values():
        keys = set(map(_key, entry.parts))
        if keys != own and all(downloaded(part) is not None for part in entry.parts):
            for key in keys:
                users.setdefault(key, []).append(entry.name)
    return users


def _key(part: HubFile) -> tuple[str, str]:
    return part.repository, part.file


def _bytes(part: HubFile) -> int:
    path = downloaded(part)
    return 0 if path is None else path.stat().st_size
