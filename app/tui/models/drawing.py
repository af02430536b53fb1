"""What the picker of models shows: a line a model, what is known of one, and how far a download is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from textual.content import Content

from app.models.pull import readable, readable_time
from app.models.row import ModelRow, readable_context, readable_count
from app.models.transfer import DownloadProgress
from app.text import one_line
from app.tui.dialogs.lines import QUIET, fit

_MARK = 2
_GAP = "  "
_LEAST_NAME = 14
_CONTEXT = len("context")
# A longer quantisation is cut where the line is short.
_SHORT_LINE, _SHORT_QUANTISATION = 90, 8
_BAR = "━"
_MOST_DRAFTS = 3


@dataclass(frozen=True, slots=True)
class ColumnWidths:
    """Cells that the columns of a list need; what they leave of a line is the name's."""

    quantisation: int
    size: int
    fits: int

    @classmethod
    def of(cls, rows: Sequence[ModelRow]) -> ColumnWidths:
        """Columns as wide as these models need."""
        return cls(
            max([5, *(cell_len(row.quantisation or "") for row in rows)]),
            max([4, *(len(_size(row)) for row in rows)]),
            max([len("loaded"), *(len(row.room.words) for row in rows if row.room)]),
        )

    def within(self, columns: int) -> tuple[int, int]:
        """Cells for the name and the quantisation, in lines of so many cells."""
        quantisation = min(self.quantisation, _SHORT_QUANTISATION if columns < _SHORT_LINE else columns)
        taken = _MARK + quantisation + _CONTEXT + self.size + self.fits + 4 * len(_GAP)
        return max(_LEAST_NAME, columns - taken), quantisation


def heading(text: str, widths: ColumnWidths, first: bool, columns: int) -> Content:
    """The line above a group, after an empty one. The first group's names the columns instead."""
    if not first:
        return Content.styled(f"\n{' ' * _MARK}{text}", QUIET)
    name, quantisation = widths.within(columns)
    cells = (
        fit(text, name),
        "quant".ljust(quantisation),
        "context",
        "size".rjust(widths.size),
        "fits".ljust(widths.fits),
    )
    return Content.styled(" " * _MARK + _GAP.join(cells), QUIET)


def line(row: ModelRow, loaded: bool, widths: ColumnWidths, columns: int) -> Content:
    """One model: mark, name, quantisation, context, size to have or to download, and whether it fits."""
    name, quantisation = widths.within(columns)
    context = readable_context(row.context_length) if row.context_length else ""
    fits = "loaded" if loaded else row.room.words if row.room else ""
    short = row.room is not None and not row.room.fits and not loaded
    cells = (
        fit(one_line(row.quantisation or ""), quantisation),
        context.rjust(_CONTEXT),
        _size(row).rjust(widths.size),
    )
    return Content.assemble(
        ("● ", "$accent") if loaded else " " * _MARK,
        (_name(row, name), QUIET if not row.path or row.problem is not None else ""),
        (f"{_GAP}{_GAP.join(cells)}{_GAP}", QUIET),
        (fit(fits, widths.fits), "$warning not bold" if short else QUIET),
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
    return fit(f"…/{rest}" if slash and publisher and cell_len(name) > width else name, width)


def about(row: ModelRow, loaded: bool) -> str:
    """What is known of a model, in a few lines of plain text."""
    if row.problem is not None:
        return one_line(row.problem)
    facts = (
        row.title if row.title and one_line(row.title) != row.name else "",
        f"{readable_count(row.parameters)} parameters" if row.parameters else "",
        row.architecture,
        f"{row.memory_kind} memory" if row.memory_kind else "",
        row.origin,
        "not on this disk" if not row.path and row.parts else "",
        row.licence,
        "never checked against the hub" if row.unverified else "",
    )
    warning = row.room.remark if row.room and not loaded else None
    lines = (" · ".join(filter(None, facts)), _drafting(row), warning)
    return "\n".join(one_line(line) for line in lines if line)


def _drafting(row: ModelRow) -> str:
    """What could guess ahead for it."""
    partner = row.partner
    if not row.path:
        return f"comes with the draft {partner.words}" if partner else ""
    if partner and row.lacks_draft:
        return f"its draft {partner.words} ({readable(partner.size)}) is not here: Ctrl+D downloads it"
    names = [each.name for each in row.fitting]
    if not names:
        return "no draft for it is here; lookup needs none"
    more = f" and {len(names) - _MOST_DRAFTS} more" if len(names) > _MOST_DRAFTS else ""
    return f"drafts that fit: {', '.join(names[:_MOST_DRAFTS])}{more}"


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
            Content.assemble(fit(one_line(name), room), "  ", (figures, "$muted")),
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
