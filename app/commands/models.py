"""`specchat models`: the models on this disk and in the catalogue, or all that is known of one."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from app.arguments import Parser
from app.assembly.machine import cpu_copies, machine_memory
from app.commands.models_text import details, hidden_lines, left_out_lines, tables
from app.commands.status import StatusLine
from app.commands.table import paint_for, width_of
from app.config.fields import nearest, shown
from app.config.file import read_settings, settings_path
from app.errors import SpecchatError
from app.models.listing import look
from app.models.locate import bundled_model
from app.models.row import Listing, ModelRow
from app.text import clean, one_line


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    parser = Parser(
        prog="specchat models",
        description="List the models on this disk, whichever program keeps them, and those that the "
        "catalogue can download; with a NAME, all that is known of one. Nothing is asked of a network.",
        epilog="`fits` says whether the free memory holds it, with how long a context and how many of its "
        "layers on the GPU. A name in the list is what `specchat NAME` and `specchat pull NAME` take.",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="a model, or words that its name holds")
    parser.add_argument("--here", action="store_true", help="only what is on this disk")
    parser.add_argument("--all", action="store_true", help="also files that cannot be chatted with, and why")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    parser.add_argument(
        "--folder",
        action="append",
        default=[],
        metavar="DIR",
        type=Path,
        help="look there too, besides the draft folders of the settings; can be given more than once",
    )
    options = parser.parse_args(arguments)
    # os.path answers for any name; pathlib raises for some.
    path = os.path.expanduser(options.name) if options.name else ""
    named = Path(path) if path and os.path.isfile(path) else None
    listing = _find_models(options.folder, named, options.here)
    if listing.fault:
        print(f"specchat: {one_line(listing.fault)} Only the built-in catalogue is used.", file=sys.stderr)
    chosen = listing.rows
    if options.name is not None:
        chosen = _named(listing, options.name, named)
    elif not options.all:
        chosen = tuple(row for row in chosen if row.problem is None)
    if options.json:
        shown_rows = [asdict(row) for row in chosen]
        unusable = [asdict(each) for each in listing.unusable]
        print(json.dumps({"models": shown_rows, "left_out": unusable, "fault": listing.fault}, indent=2))
        return 0
    width, paint = width_of(sys.stdout), paint_for(sys.stdout)
    if options.name is not None and len(chosen) == 1:
        lines = details(chosen[0], width, paint)
    else:
        lines = tables(chosen, width, paint)
        hidden = len(listing.unusable) + len(listing.rows) - len(chosen)
        if options.all:
            lines += left_out_lines(listing, width, paint)
        elif options.name is None and hidden:
            lines += hidden_lines(hidden, width, paint)
    print("\n".join(lines))
    return 0


def _find_models(folders: Sequence[Path], named: Path | None, here_only: bool) -> Listing:
    own = [Path(folder) for folder in read_settings(settings_path()).model.draft_folders]
    line = StatusLine()

    def report(done: int, total: int) -> None:
        if done < total:
            line.show(f"reading models: {done} of {total}")

    try:
        return look(
            [*own, *folders],
            machine_memory(),
            bundled=bundled_model(),
            named=named,
            here_only=here_only,
            copies=cpu_copies(),
            report=report,
        )
    finally:
        line.clear()


def _named(listing: Listing, name: str, path: Path | None) -> tuple[ModelRow, ...]:
    """The model of that name or path, else all whose names hold each of its words.

    Raises SpecchatError where there is none; for a file that was left out the error says why.
    """
    rows = listing.rows
    if path is not None:
        real = os.path.realpath(path)
        exact = [row for row in rows if row.path and os.path.realpath(row.path) == real]
    else:
        exact = [row for row in rows if row.name == name] or [row for row in rows if row.file_name == name]
    if exact:
        return tuple(exact[:1])
    words = name.casefold().split()
    near = tuple(
        row for row in rows if all(word in f"{row.name} {row.title or ''}".casefold() for word in words)
    )
    if near:
        return near
    for each in listing.unusable:
        if Path(each.path).name == name or each.reason.startswith(f"{name} "):
            raise SpecchatError(clean(each.reason))
    guess = nearest(name.lower(), [row.name for row in rows])
    meant = f" (did you mean {clean(guess)}?)" if guess else ""
    raise SpecchatError(f"There is no model {shown(name)}{meant}: `specchat models` lists what there is.")
