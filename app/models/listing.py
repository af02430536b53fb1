"""Which models there are: on this disk and in the catalogue, and what each fits with."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from app.errors import SpecchatError
from app.models.catalogue import Entry, catalogue, offered, shipped_catalogue
from app.models.discovery import discover_here, same_file
from app.models.disk_search import Found
from app.models.estimate import NO_COPIES, Copies
from app.models.facts import facts_of
from app.models.fit import Memory, fit
from app.models.gguf import Header, read_header
from app.models.hub import HubFile, downloaded
from app.models.naming import split_name
from app.models.pairs import pair_problem
from app.models.row import Facts, Listing, ModelRow, Partner, Room, UsableDraft

# More models than this are drafts for each other in far too many pairs to look at.
_MOST_PAIRED = 60


def look(
    folders: Sequence[Path],
    memory: Memory,
    *,
    bundled: Path | None = None,
    named: Path | None = None,
    here_only: bool = False,
    copies: Copies = NO_COPIES,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> Listing:
    """Look at every place, in `folders` too. named: one more file. report: headers read, of how many.

    copies: as `fit` has it. A fault in the person's catalogue is told in the listing.
    """
    fault = None
    try:
        entries: Mapping[str, Entry] = catalogue()
    except SpecchatError as error:
        entries, fault = shipped_catalogue(), str(error)
    found, unusable = discover_here(folders)
    for path, origin in ((bundled, "bundled"), (named, "file")):
        if (
            path is not None
            and os.path.isfile(path)
            and _real(path) not in {_real(each.path) for each in found}
        ):
            found.append(Found(path, path.name, origin, path.stat().st_size))
    known: dict[Path, Facts] = {}
    headers = {}
    for number, (path, facts) in enumerate(facts_of([each.path for each in found]), 1):
        known[path] = facts
        report(number, len(found))
        try:
            if facts.problem is None:
                headers[path] = read_header(path)
        except SpecchatError as error:  # it changed meanwhile
            known[path] = Facts(problem=str(error))
    parts = {part for entry in entries.values() for part in entry.parts}
    here = {part: file for part in parts if (file := downloaded(part) or same_file(part, found))}
    listed = rows(found, known, headers, entries, here, memory, copies)
    if here_only:
        listed = tuple(row for row in listed if row.path)
    return Listing(listed, tuple(unusable), fault)


def rows(
    found: Sequence[Found],
    known: Mapping[Path, Facts],
    headers: Mapping[Path, Header],
    entries: Mapping[str, Entry],
    here: Mapping[HubFile, Path],
    memory: Memory,
    copies: Copies = NO_COPIES,
) -> tuple[ModelRow, ...]:
    """What is here first, by name; then what can be downloaded, in the catalogue's order; last what is no
    model to chat with.

    known: the facts of every file found; headers: of those without a problem. here: the file of each part
    of the catalogue that is on this disk. An entry whose target is here is one row, under its own name.
    """
    by_file = {
        _real(each.path): ModelRow(
            name=each.name,
            file_name=each.name,
            origin=each.origin,
            path=str(each.path),
            size=each.size,
            **asdict(known[each.path]),
        )
        for each in found
    }
    files = {entry.name: _real(here[entry.target]) for entry in offered(entries) if entry.target in here}
    listed = [
        _of_entry(entry, by_file.get(files.get(entry.name, "")), here, memory) for entry in offered(entries)
    ]
    listed += [row for file, row in by_file.items() if file not in files.values()]
    listed = _shortened(listed)
    # An entry's target may be a draft as well, under its own name.
    names = {row.path: row.name for row in reversed(listed) if row.path}
    drafts = [each for each in found if each.path in headers][:_MOST_PAIRED]
    whole = []
    for row in listed:
        header = headers.get(Path(row.path)) if row.path else None
        if header is not None:
            others = [
                UsableDraft(
                    names.get(str(each.path), each.name),
                    str(each.path),
                    each.size,
                    _pair(header, headers[each.path]),
                )
                for each in drafts
                if _real(each.path) != _real(header.path)
            ]
            others.sort(key=lambda each: (each.problem is not None, each.size, each.name))
            row = replace(row, drafts=tuple(others), room=_room(header, memory, copies))
        whole.append(row)
    return tuple(sorted(whole, key=_place))


def _place(row: ModelRow) -> tuple[object, ...]:
    if row.problem is not None:
        return 2, row.name.casefold()
    return (0, row.name.casefold()) if row.path else (1,)


def _shortened(listed: Sequence[ModelRow]) -> list[ModelRow]:
    """With org/repo for a file whose repository has no other model here, as `find_model` takes it."""
    models = [row.file_name.partition(":")[0] for row in listed if row.problem is None]
    short = []
    for row in listed:
        repository, colon, _ = row.name.partition(":")
        alone = colon and "/" in repository and row.problem is None and models.count(repository) == 1
        short.append(replace(row, name=repository) if alone else row)
    return short


def _of_entry(entry: Entry, found: ModelRow | None, here: Mapping[HubFile, Path], memory: Memory) -> ModelRow:
    """found: the row of its target's file; None where it is not here."""
    if found is None:
        # By the catalogue's figure alone: layers may lie on the GPU and beside it.
        usable = memory.system_usable + (0 if memory.shared else memory.gpu_usable)
        row = ModelRow(
            name=entry.name,
            origin="",
            path=None,
            size=entry.target.size,
            quantisation=split_name(entry.target.file)[1] or None,
            room=Room(entry.memory <= usable, entry.memory),
        )
    else:
        row = replace(found, name=entry.name)
    partner = None
    for draft in entry.parts[1:]:
        path = here.get(draft)
        partner = Partner(draft.file, draft.size, str(path) if path else None)
    return replace(
        row,
        partner=partner,
        licence=entry.licence,
        unverified=entry.unverified,
        memory_kind=row.memory_kind or entry.memory_kind,
        parts=entry.parts,
        missing=sum(part.size for part in entry.parts if part not in here),
    )


def _pair(target: Header, draft: Header) -> str | None:
    try:
        return pair_problem(target, draft)
    except SpecchatError as error:
        return str(error)


def _room(header: Header, memory: Memory, copies: Copies) -> Room | None:
    try:
        chosen = fit(header, memory, copies=copies)
    except SpecchatError:  # it changed meanwhile
        return None
    layers = (header.block_count or 0) + 1
    notes = chosen.context_note, chosen.layers_note, chosen.window_note
    on_gpu = None if not memory.gpus else layers if chosen.gpu_layers < 0 else chosen.gpu_layers
    return Room(
        fits=chosen.problem is None,
        needed=chosen.needed,
        context_length=chosen.context_length,
        gpu_layers=on_gpu,
        layers=layers,
        remark=chosen.problem or " ".join(filter(None, notes)) or None,
    )


def _real(path: Path) -> str:
    return os.path.realpath(path)
