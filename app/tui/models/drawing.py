"""What the picker of models shows: a line a model, what is known of one, and how far a download is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from textual.content import Content

from app.models.pull import readable, readable_time
from app.models.row import ModelRow, readable_context, readable_count
from app.models.transfer import DownloadProgress
from app.tui.dialogs.picker import one_line

_QUIET = "$muted not bold"
_MARK = 2
_GAP = 2
_LEAST_NAME = 14
_CONTEXT = len("context")
# A quantisation that says more is cut where the line is short.
_SHORT_LINE, _SHORT_QUANTISATION = 90, 8
_BAR = "━"
_MOST_DRAFTS = 3


@dataclass(frozen=True, slots=True)
class Widths:
    """Cells of the columns of a list; what they leave of the line is the name's."""

    name: int
    quantisation: int
    size: int
    fits: int


def widths(rows: Sequence[ModelRow], columns: int) -> Widths:
    """Columns as wide as these models need, in lines of so many cells."""
    most = _SHORT_QUANTISATION if columns < _SHORT_LINE else columns
    quantisation = min(most, max([5, *(cell_len(row.quantisation or "") for row in rows)]))
    size = max([4, *(len(_size(row)) for row in rows)])
    fits = max([len("loaded"), *(len(row.room.words) for row in rows if row.room)])
    taken = _MARK + quantisation + _CONTEXT + size + fits + 4 * _GAP
    return Widths(max(_LEAST_NAME, columns - taken), quantisation, size, fits)


def heading(text: str, at: Widths, first: bool) -> Content:
    """The line above a group. The first names the columns too, others stand apart."""
    if not first:
        return Content.styled(f"\n{' ' * _MARK}{text}", _QUIET)
    cells = (
        _cut(text, at.name),
        "quant".ljust(at.quantisation),
        "context",
        "size".rjust(at.size),
        "fits".ljust(at.fits),
    )
    return Content.styled(" " * _MARK + (" " * _GAP).join(cells), _QUIET)


def line(row: ModelRow, loaded: bool, at: Widths) -> Content:
    """One model: mark, name, quantisation, context, size to have or to download, and whether it fits."""
    quiet = not row.path or row.problem is not None
    context = readable_context(row.context_length) if row.context_length else ""
    fits = "loaded" if loaded else row.room.words if row.room else ""
    short = row.room is not None and not row.room.fits and not loaded
    gap = " " * _GAP
    return Content.assemble(
        ("● ", "$accent") if loaded else " " * _MARK,
        (_name(row, at.name), _QUIET if quiet else ""),
        (
            f"{gap}{_cut(one_line(row.quantisation or ''), at.quantisation)}"
            f"{gap}{context.rjust(_CONTEXT)}{gap}{_size(row).rjust(at.size)}{gap}",
            _QUIET,
        ),
        (_cut(fits, at.fits), "$warning not bold" if short else _QUIET),
    )


def _size(row: ModelRow) -> str:
    size = row.size if row.path else row.missing
    if not size:
        return ""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def _name(row: ModelRow, width: int) -> str:
    """The name; where it is too long, without who published it."""
    name = one_line(row.name)
    publisher, slash, rest = name.partition("/")
    return _cut(f"…/{rest}" if slash and publisher and cell_len(name) > width else name, width)


def _cut(text: str, width: int) -> str:
    if cell_len(text) > width:
        return set_cell_size(text, width - 1) + "…"
    return set_cell_size(text, width)


def about(row: ModelRow, loaded: bool) -> str:
    """What is known of a model, in a few lines of plain text."""
    if row.problem is not None:
        return one_line(row.problem)
    return "\n".join(filter(None, (" · ".join(_facts(row)), _drafting(row), _warning(row, loaded))))


def _facts(row: ModelRow) -> Iterator[str]:
    if row.title and one_line(row.title) != row.name:
        yield one_line(row.title)
    if row.parameters:
        yield f"{readable_count(row.parameters)} parameters"
    if row.architecture:
        yield one_line(row.architecture)
    if row.memory_kind:
        yield f"{one_line(row.memory_kind)} memory"
    if row.origin:
        yield one_line(row.origin)
    if not row.path and row.parts:
        yield "not here"
    if row.licence:
        yield one_line(row.licence)
    if row.unverified:
        yield "never checked against the hub"


def _drafting(row: ModelRow) -> str:
    """What could guess ahead for it."""
    partner = row.partner
    if not row.path:
        return f"draft: {one_line(partner.words)}" if partner else ""
    if partner and row.lacks_draft:
        size = readable(partner.size)
        return f"its draft {one_line(partner.words)} ({size}) is not here: Ctrl+D downloads it"
    names = [one_line(each.name) for each in row.fitting]
    if not names:
        return "no draft for it is here; lookup needs none"
    more = f" and {len(names) - _MOST_DRAFTS} more" if len(names) > _MOST_DRAFTS else ""
    return f"drafts that fit: {', '.join(names[:_MOST_DRAFTS])}{more}"


def _warning(row: ModelRow, loaded: bool) -> str:
    return one_line(row.room.remark) if row.room and row.room.remark and not loaded else ""


def question(row: ModelRow) -> str:
    """What is asked before a download."""
    files = "\n".join(
        f"  {one_line(part.file.rpartition('/')[2])}  {readable(part.size)}  from {one_line(part.repository)}"
        for part in row.lacking
    )
    whose = "The draft of " if row.lacks_draft else ""
    said = (
        f"{whose}{one_line(row.name)} is not on this disk. "
        f"To download, {readable(row.missing)} in all:\n\n{files}"
    )
    if row.licence:
        said += f"\n\nLicence: {one_line(row.licence)}."
    if row.unverified:
        said += "\nThese names were never checked against the hub: a file may not be there."
    if row.room and not row.room.fits and not row.path:
        said += f"\nIt needs about {readable(row.room.needed)} of memory, and less is free."
    return said


def files(names: Sequence[str], told: dict[str, DownloadProgress], columns: int) -> Content:
    """How far each file of a download is: its name and figures, and a bar below them."""
    lines: list[Content] = []
    for name in names:
        progress = told.get(name)
        figures = _figures(progress)
        room = max(8, columns - cell_len(figures) - 2)
        done = min(1.0, progress.done / progress.total) if progress and progress.total else 0.0
        filled = int(done * columns)
        lines += [
            Content.assemble(_cut(one_line(name), room), "  ", (figures, "$muted")),
            Content.assemble((_BAR * filled, "$accent"), (_BAR * (columns - filled), "$rule")),
            Content(""),
        ]
    return Content("\n").join(lines)


def _figures(progress: DownloadProgress | None) -> str:
    """Share, bytes, rate and time left of a file; nothing jumps as they grow."""
    if progress is None:
        return "–"
    if progress.doing == "waiting":
        return "waiting" + (f", {readable_time(progress.left)}" if progress.left is not None else "")
    parts = []
    if progress.total:
        share = 100 * progress.done // progress.total
        parts.append(f"{share:3} %  {readable(progress.done)} of {readable(progress.total)}")
    if progress.doing == "checking":
        parts.append("checking")
    elif progress.rate and progress.done < progress.total:
        parts.append(f"{progress.rate / 1e6:5.1f} MB/s")
    if progress.left is not None and progress.done < progress.total:
        parts.append(f"{readable_time(progress.left):>8} left")
    return "  ".join(parts)
