"""A scrolled view that paints lines, of which there may be many more than are seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.filter import ANSIToTruecolor, LineFilter
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from app.tui.transcript.line_index import LineIndex, selected
from app.tui.transcript.rendering import PREFIX, Palette
from app.tui.transcript.wrapping import Line

# Painted rows that are kept: some views' worth.
KEPT = 1_000


class _PaintedRow(NamedTuple):
    """A row with what stands beside it, the line that it shows, and the hint over that."""

    line: Line | None
    hint: str
    strip: Strip


class LinesView(ScrollView):
    """Paints `line_index`. A subclass sets that, calls `paint`, and renders lines again when `restyled`."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.line_index = LineIndex()
        self._palette: Palette | None = None
        self._base_style: Style | None = None
        # What was painted last, by row: a new line at the end moves all others, but changes none.
        self._rows: dict[int, _PaintedRow] = {}
        self._painted: tuple[int, Size, str] | None = None
        # What stands left and right of each row, and for which width and size that was made.
        self._sides: tuple[Strip, Strip] = (Strip([]), Strip([]))
        self._sides_for: tuple[int, Size] | None = None
        self._pressed_row = 0

    @property
    def hint(self) -> str:
        """What stands at the right of the last row, over the text; "" for nothing."""
        return ""

    def restyled(self) -> None:
        """The palette has changed: all lines must be rendered again."""

    @property
    def view(self) -> Size:
        """What is seen, scrollbar included. Equals `size`, which asks the whole screen for it."""
        return self.outer_size - self.styles.gutter.totals

    @property
    def width(self) -> int:
        """Cells of a row."""
        return self.view.width - self.scrollbar_size_vertical

    @property
    def palette(self) -> Palette:
        """The styles of the theme."""
        if self._palette is None:
            self._palette = Palette.read(lambda name: self.get_component_rich_style(name, partial=True))
        return self._palette

    @property
    def base_style(self) -> Style:
        """The style under all others; kept, as Textual computes it from all that lies below."""
        if self._base_style is None:
            self._base_style = self.rich_style
        return self._base_style

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Without the one that turns the terminal's colours into fixed ones: here those are meant."""
        return [each for each in super().get_line_filters() if not isinstance(each, ANSIToTruecolor)]

    def paint(self) -> None:
        """Paint what changed: where the view did not move, only the rows that show another line."""
        if len(self._rows) > KEPT:
            self._rows.clear()
        top, size = self.scroll_offset.y, self.view
        before, self._painted = self._painted, (top, size, self.hint)
        if before != self._painted:
            self.refresh()
            return
        changed: list[Region] = []
        for y, line in enumerate(self.line_index.lines(top, size.height)):
            known = self._rows.get(top + y)
            if known is None or (known.line is not line and known.line != line):
                changed.append(Region(0, y, size.width, 1))
            elif known.line is not line:
                # An equal line takes its place. Painting it would also paint all rows down to the last one.
                self._rows[top + y] = known._replace(line=line)
        if changed:
            self.refresh(*changed)

    def forget_painted(self) -> None:
        """Paint every row again when it is next seen."""
        self._base_style = None
        self._sides_for = None
        self._rows.clear()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.forget_painted()
        # The component styles are updated only after this.
        self.call_later(self._restyle)

    def _restyle(self) -> None:
        self.forget_painted()
        before, self._palette = self._palette, None
        if before is not None and self.palette != before:
            self.restyled()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Known rows as they are, wherever they moved to; new ones are put between the same sides.

        Textual caches rows by their place in the view, builds each line from all styles, and asks for the
        whole view at each change. That was most of what a streaming reply cost.
        """
        if self.text_selection is not None or self.get_line_filters() or crop.x:
            return super().render_lines(crop)
        size, above, top, hint = self.view, self.gutter.top, self.scroll_offset.y, self.hint
        if self._sides_for != (crop.width, size):
            self.forget_painted()
            self._sides_for = (crop.width, size)
            sample = super().render_lines(Region(0, above, crop.width, 1))[0]
            left = self.gutter.left
            self._sides = sample.crop(0, left), sample.crop(left + self.width)
        lines = self.line_index.lines(top, size.height)
        strips: list[Strip] = []
        for y in range(crop.y - above, crop.bottom - above):
            inside = 0 <= y < size.height
            # What is above and below the view does not move with the rows.
            row, line = (top + y, lines[y]) if inside else (-1 - above - y, None)
            over = hint if y == size.height - 1 else ""
            known = self._rows.get(row)
            if known is None or known.line is not line or known.hint != over:
                if inside:
                    left_side, right_side = self._sides
                    strip = Strip.join([left_side, self._row(row, line, over), right_side])
                else:
                    strip = super().render_lines(Region(0, above + y, crop.width, 1))[0]
                known = self._rows[row] = _PaintedRow(line, over, strip)
            strips.append(known.strip)
        return strips

    def render_line(self, y: int) -> Strip:
        row = y + self.scroll_offset.y
        hint = self.hint if y == self.view.height - 1 else ""
        return self._row(row, self.line_index.line(row), hint, self.text_selection)

    def _row(self, row: int, line: Line | None, hint: str, selection: Selection | None = None) -> Strip:
        if line is None:
            strip = Strip([])
        elif selection is None:
            strip = line.strip
        else:
            style = self.screen.get_component_rich_style("screen--selection")
            strip = selected(line, selection, row, style)
        width, base = self.width, self.base_style
        strip = strip.apply_style(base).crop_extend(0, width, base).apply_offsets(0, row)
        if not hint:
            return strip
        end = Segment(hint, base + self.get_component_rich_style(f"{PREFIX}hint", partial=True))
        return Strip.join([strip.crop(0, width - cell_len(hint)), Strip([end])])

    # Selection ----------------------------------------------------------------------------------

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._pressed_row = event.get_content_offset_capture(self).y + self.scroll_offset.y

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        return self.line_index.copied(selection), "\n"

    @property
    def select_container(self) -> LinesView:
        """Keeps a triple click in here."""
        return self

    def text_select_all(self) -> None:
        """A double click selects the paragraph under it, as what is here is more than one text."""
        paragraph = self.line_index.paragraph(self._pressed_row)
        if paragraph is not None:
            self.screen.selections = {self: paragraph}
