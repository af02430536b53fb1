"""What `specchat models` prints of its rows: the tables, and the page of one model."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from app.chat.gate import clean
from app.commands.table import Column, Paint, lines_of
from app.models.memory_words import kind_in_words
from app.models.pull import readable
from app.models.row import Listing, ModelRow, readable_context, readable_count

_LABEL = 14
_LEAST_WIDTH = 40
_NOTHING_HERE = (
    "No model is on this disk yet. `specchat pull NAME` downloads one of those below; a folder with .gguf "
    "files is looked through with --folder DIR."
)


def tables(rows: Sequence[ModelRow], width: int | None, paint: Paint) -> list[str]:
    """What is here, and what can be downloaded, each as a table of its own."""
    here = [row for row in rows if row.path]
    others = [row for row in rows if not row.path]
    lines: list[str] = []
    if here:
        lines += _table(_columns_here(here), width, paint)
    elif others:
        lines += textwrap.wrap(_NOTHING_HERE, width) if width else [_NOTHING_HERE]
    else:
        lines.append("No model is on this disk yet: specchat models lists those that can be downloaded.")
    if others:
        lines += ["", paint.bold("To download, with specchat pull NAME")]
        lines += _table(_columns_catalogue(others), width, paint)
    return lines


def _table(columns: Sequence[Column], width: int | None, paint: Paint) -> list[str]:
    first, *rest = lines_of(columns, width)
    return [paint.quiet(first), *rest]


def _columns_here(rows: Sequence[ModelRow]) -> list[Column]:
    def cells(texts: Iterator[str]) -> tuple[str, ...]:
        return tuple(map(_line, texts))

    return [
        Column("NAME", cells(row.name for row in rows), narrowest=32),
        Column("QUANT", cells(row.quantisation or "" for row in rows), 7),
        Column("CONTEXT", cells(_context(row) for row in rows), 6, right=True),
        Column("PARAMS", cells(_parameters(row) for row in rows), 4, right=True),
        Column("ARCH", cells(row.architecture or "" for row in rows), 3),
        Column("SIZE", cells(readable(row.size) for row in rows), 9, right=True),
        Column("FITS", cells(_fits(row) for row in rows), 8),
        Column("WHERE", cells(row.origin for row in rows), 5),
        Column("DRAFTS", cells(_drafts(row) for row in rows), 3),
        Column("MEMORY", cells(row.memory_kind or "" for row in rows), 2),
        Column("LICENCE", cells(row.licence or "" for row in rows), 1),
    ]


def _columns_catalogue(rows: Sequence[ModelRow]) -> list[Column]:
    def cells(texts: Iterator[str]) -> tuple[str, ...]:
        return tuple(map(_line, texts))

    return [
        Column("NAME", cells(row.name for row in rows)),
        Column("QUANT", cells(row.quantisation or "" for row in rows), 6),
        Column("SIZE", cells(readable(row.missing) for row in rows), 9, right=True),
        Column("FITS", cells(row.room.words if row.room else "" for row in rows), 8),
        Column(
            "DRAFT",
            cells(row.partner.words if row.partner else "" for row in rows),
            5,
            narrowest=16,
        ),
        Column("CHECKED", cells("no" if row.unverified else "yes" for row in rows), 4),
        Column("MEMORY", cells(row.memory_kind or "" for row in rows), 2),
        Column("LICENCE", cells(row.licence or "" for row in rows), 3),
    ]


def _fits(row: ModelRow) -> str:
    return "cannot chat" if row.problem else row.room.words if row.room else ""


def _context(row: ModelRow) -> str:
    return readable_context(row.context_length) if row.context_length else ""


def _parameters(row: ModelRow) -> str:
    return readable_count(row.parameters) if row.parameters else ""


def _drafts(row: ModelRow) -> str:
    fitting = row.fitting
    more = f" +{len(fitting) - 1}" if len(fitting) > 1 else ""
    return f"{fitting[0].name}{more}" if fitting else ""


def hidden_lines(count: int, width: int | None, paint: Paint) -> list[str]:
    """That there are files which no table shows."""
    files = "1 more file" if count == 1 else f"{count} more files"
    said = f"{files} cannot be chatted with: specchat models --all says why."
    return [paint.quiet(line) for line in _wrapped(said, width, "")]


def passed_lines(listing: Listing, width: int | None, paint: Paint) -> list[str]:
    """Every file that was left out, with the reason."""
    reasons = [row.problem for row in listing.rows if row.problem]
    reasons += [each.reason for each in listing.unusable]
    if not reasons:
        return []
    lines = ["", paint.bold("Left out")]
    for reason in reasons:
        lines += _wrapped(f"- {_line(reason)}", width, "  ")
    return lines


def details(row: ModelRow, width: int | None, paint: Paint) -> list[str]:
    """All that is known of one model, and the command to type next."""
    lines = [paint.bold(_line(row.name))]
    for label, text in _facts(row):
        first, *rest = _wrapped(_line(text), None if width is None else width - _LABEL - 2, "")
        lines.append(f"  {paint.quiet(label.ljust(_LABEL))}{first}")
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


def _wrapped(text: str, width: int | None, indent: str) -> list[str]:
    if width is None:
        return [text]
    width = max(width, _LEAST_WIDTH)
    return textwrap.wrap(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    ) or [""]


def _line(text: str) -> str:
    return " ".join(clean(text).split())
