"""What `specchat models` prints: the tables, and the page of one model."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from app.commands.table import Paint, TableColumn, table
from app.models.memory_words import kind_in_words
from app.models.pull import readable
from app.models.row import Listing, ModelRow, readable_context, readable_count
from app.text import one_line

_LABEL = 14
_LEAST_WIDTH = 40
_NOTHING_HERE = (
    "No model is on this disk yet. `specchat pull NAME` downloads one of those below; a folder with .gguf "
    "files is looked through with --folder DIR."
)

_HERE: Sequence[TableColumn[ModelRow]] = (
    TableColumn("NAME", lambda row: row.name, narrowest=32),
    TableColumn("QUANT", lambda row: row.quantisation or "", 7),
    TableColumn("CONTEXT", lambda row: _context(row), 6, right=True),
    TableColumn(
        "PARAMS", lambda row: readable_count(row.parameters) if row.parameters else "", 4, right=True
    ),
    TableColumn("ARCH", lambda row: row.architecture or "", 3),
    TableColumn("SIZE", lambda row: readable(row.size), 9, right=True),
    TableColumn("FITS", lambda row: "cannot chat" if row.problem else _fits(row), 8),
    TableColumn("WHERE", lambda row: row.origin, 5),
    TableColumn("DRAFTS", lambda row: _drafts(row), 3),
    TableColumn("MEMORY", lambda row: row.memory_kind or "", 2),
    TableColumn("LICENCE", lambda row: row.licence or "", 1),
)
_TO_DOWNLOAD: Sequence[TableColumn[ModelRow]] = (
    TableColumn("NAME", lambda row: row.name),
    TableColumn("QUANT", lambda row: row.quantisation or "", 6),
    TableColumn("SIZE", lambda row: readable(row.missing), 9, right=True),
    TableColumn("FITS", lambda row: _fits(row), 8),
    TableColumn("DRAFT", lambda row: row.partner.words if row.partner else "", 5, narrowest=16),
    TableColumn("CHECKED", lambda row: "no" if row.unverified else "yes", 4),
    TableColumn("MEMORY", lambda row: row.memory_kind or "", 2),
    TableColumn("LICENCE", lambda row: row.licence or "", 3),
)


def tables(rows: Sequence[ModelRow], width: int | None, paint: Paint) -> list[str]:
    """What is on this disk, and what can be downloaded, each in a table of its own."""
    here = [row for row in rows if row.path]
    others = [row for row in rows if not row.path]
    lines: list[str] = []
    if here:
        lines += _table(here, _HERE, width, paint)
    elif others:
        lines += _wrap(_NOTHING_HERE, width)
    else:
        lines.append("No model is on this disk yet: specchat models lists those that can be downloaded.")
    if others:
        lines += ["", paint.bold("To download, with specchat pull NAME")]
        lines += _table(others, _TO_DOWNLOAD, width, paint)
    return lines


def _table(
    rows: Sequence[ModelRow], columns: Sequence[TableColumn[ModelRow]], width: int | None, paint: Paint
) -> list[str]:
    titles, *rest = table(rows, columns, width)
    return [paint.dim(titles), *rest]


def _fits(row: ModelRow) -> str:
    return row.room.words if row.room else ""


def _context(row: ModelRow) -> str:
    return readable_context(row.context_length) if row.context_length else ""


def _drafts(row: ModelRow) -> str:
    fitting = row.fitting
    more = f" +{len(fitting) - 1}" if len(fitting) > 1 else ""
    return f"{fitting[0].name}{more}" if fitting else ""


def hidden_lines(count: int, width: int | None, paint: Paint) -> list[str]:
    """How many files no table shows."""
    files = "1 more file" if count == 1 else f"{count} more files"
    text = f"{files} cannot be chatted with: specchat models --all says why."
    return ["", *(paint.dim(line) for line in _wrap(text, width))]


def left_out_lines(listing: Listing, width: int | None, paint: Paint) -> list[str]:
    """Every file that cannot be chatted with, and why."""
    reasons = [row.problem for row in listing.rows if row.problem]
    reasons += [each.reason for each in listing.unusable]
    lines = ["", paint.bold("Left out")] if reasons else []
    for reason in reasons:
        lines += _wrap(f"- {one_line(reason)}", width, "  ")
    return lines


def details(row: ModelRow, width: int | None, paint: Paint) -> list[str]:
    """All that is known of one model, and the command to type next."""
    lines = [paint.bold(one_line(row.name))]
    for label, text in _facts(row):
        first, *rest = _wrap(one_line(text), None if width is None else width - _LABEL - 2, "")
        lines.append(f"  {paint.dim(label.ljust(_LABEL))}{first}")
        lines += [" " * (_LABEL + 2) + line for line in rest]
    return lines


def _facts(row: ModelRow) -> Iterator[tuple[str, str]]:
    """Labels and texts of one model's page; a label that is empty goes on with the one before."""
    if row.title:
        yield "calls itself", row.title
    if row.path:
        yield "file", row.path
        yield "kept by", row.origin
    else:
        yield "file", "not on this disk"
    sizes = [readable(row.size)]
    if row.quantisation:
        sizes.insert(0, row.quantisation)
    if row.parameters:
        sizes.append(f"{readable_count(row.parameters)} parameters")
    yield "size", ", ".join(sizes)
    if row.architecture:
        layers = f", {row.layers} {'layer' if row.layers == 1 else 'layers'}" if row.layers else ""
        yield "architecture", f"{row.architecture}{layers}"
    if row.memory_kind:
        yield "memory", kind_in_words(row.memory_kind)
    if row.context_length:
        yield "context", f"trained with up to {row.context_length:,} tokens"
    if row.problem:
        yield "cannot chat", row.problem
    elif row.room:
        yield "fits", _room(row)
    if row.licence:
        yield "licence", row.licence
    if row.unverified:
        yield "unverified", "its names were never checked against the hub: a file may not be there"
    yield from _drafting(row)
    if row.problem is None:
        yield "next", next_command(row)


def _room(row: ModelRow) -> str:
    assert row.room is not None
    room = row.room
    if room.context_length is None:
        fits = "yes" if room.fits else "no"
        return f"{fits}: about {readable(room.needed)} with a context of 8,192 tokens"
    if not room.fits:
        return f"no. {room.remark}"
    said = f"yes: about {readable(room.needed)} with a context of {room.context_length:,} tokens"
    if room.gpu_layers is not None:
        said += f", {min(room.gpu_layers, room.layers)} of {room.layers} layers on the GPU"
    return f"{said}. {room.remark}" if room.remark else said


def _drafting(row: ModelRow) -> Iterator[tuple[str, str]]:
    """The catalogue's draft, and every file here: which fit, and why others do not."""
    partner = row.partner
    if partner is not None:
        here = "" if partner.path else f", {readable(partner.size)}, not on this disk"
        yield "catalogue's", f"{partner.words}{here}"
    label = "drafts"
    for draft in row.drafts:
        size = readable(draft.size)
        if draft.problem is None:
            yield label, f"{draft.name} ({size}) fits"
        else:
            yield label, f"{draft.name} ({size}) does not: {draft.problem}"
        label = ""
    if row.path and not row.drafts and row.problem is None:
        yield label, "no other model is here that could guess for it"


def next_command(row: ModelRow) -> str:
    """What to type to have this model: download it, or chat with it."""
    if row.missing:
        return f"specchat pull {row.name}"
    what = row.path if row.origin in ("bundled", "file") and row.path else row.name
    paired = [each for each in row.fitting if row.partner and each.path == row.partner.path]
    fitting = [*paired, *row.fitting]
    draft = f" --draft {_quoted(fitting[0].name)}" if fitting else ""
    return f"specchat {_quoted(what)}{draft}"


def _quoted(name: str) -> str:
    return f'"{name}"' if any(letter.isspace() for letter in name) else name


def _wrap(text: str, width: int | None, indent: str = "") -> list[str]:
    if width is None:
        return [text]
    width = max(width, _LEAST_WIDTH)
    return textwrap.wrap(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    ) or [""]
