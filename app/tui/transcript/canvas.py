"""A scrolled view that paints the lines of a sheet, of which many may be there and few are seen."""

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

from app.tui.transcript.flow import Line
from app.tui.transcript.palette import PREFIX, Palette
from app.tui.transcript.sheet import Sheet, selected

# Painted rows that are kept: some views' worth.
KEPT = 1_000


class _Painted(NamedTuple):
    """A row with all that stands beside it, the line that it shows, and the hint over that."""

    line: Line | None
    hint: str
    strip: Strip


class Canvas(ScrollView):
    """Paints its sheet. A heir puts lines on the sheet, calls `paint`, and redraws when restyled."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.sheet = Sheet()
        self._palette: Palette | None = None
        self._ground: Style | None = None
        # What was painted last, by row: each new line at the end moves all others, but changes none.
        self._strips: dict[int, _Painted] = {}
        self._painted: tuple[int, Size, str] | None = None
        # What stands left and right of each row, and for which width and size.
        self._sides: tuple[Strip, Strip] = (Strip([]), Strip([]))
        self._sides_of: tuple[int, Size] | None = None
        self._pressed = 0

    @property
    def hint(self) -> str:
        """What stands at the right of the last row, over the text; "" for nothing."""
        return ""

    def restyled(self) -> None:
        """The palette is another one: all lines are to be drawn anew."""

    @property
    def view(self) -> Size:
        """What is seen, with the scrollbar. The same as `size`, which asks the whole screen for it."""
        return self.outer_size - self.styles.gutter.totals

    @property
    def width(self) -> int:
        """Cells of a row."""
        return self.view.width - self.scrollbar_size_vertical

    @property
    def palette(self) -> Palette:
        """The styles of the theme that is on."""
        if self._palette is None:
            self._palette = Palette.read(lambda name: self.get_component_rich_style(name, partial=True))
        return self._palette

    @property
    def ground(self) -> Style:
        """The style under all others; asked for once, as it is made from all that lies below."""
        if self._ground is None:
            self._ground = self.rich_style
        return self._ground

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Not the one that makes true colours of the terminal's own: ours are true, or meant as they are."""
        return [each for each in super().get_line_filters() if not isinstance(each, ANSIToTruecolor)]

    def paint(self) -> None:
        """Paint what changed: where the view did not move, only rows that show another line."""
        if len(self._strips) > KEPT:
            self._strips.clear()
        top, size = self.scroll_offset.y, self.view
        before, self._painted = self._painted, (top, size, self.hint)
        if before != self._painted:
            self.refresh()
            return
        changed: list[Region] = []
        for y, line in enumerate(self.sheet.lines(top, size.height)):
            known = self._strips.get(top + y)
            if known is None or (known.line is not line and known.line != line):
                changed.append(Region(0, y, size.width, 1))
            elif known.line is not line:
                # Made anew, and the same: were it painted, so would be all between it and the end.
                self._strips[top + y] = known._replace(line=line)
        if changed:
            self.refresh(*changed)

    def forget(self) -> None:
        """Paint every row anew when it is next seen."""
        self._ground = None
        self._sides_of = None
        self._strips.clear()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.forget()
        # The styles of the components follow only after this.
        self.call_later(self._restyle)

    def _restyle(self) -> None:
        self.forget()
        before, self._palette = self._palette, None
        if before is not None and self.palette != before:
            self.restyled()

    def render_lines(self, crop: Region) -> list[Strip]:
        """The rows that are known, wherever they moved to, and the others put between the same sides.

        Textual knows what it painted by its place in the view, puts each line together out of all styles,
        and asks for the whole view at each change: most of what a growing answer cost.
        """
        if self.text_selection is not None or self.get_line_filters() or crop.x:
            return super().render_lines(crop)
        size, above, top, hint = self.view, self.gutter.top, self.scroll_offset.y, self.hint
        if self._sides_of != (crop.width, size):
            self.forget()
            self._sides_of = (crop.width, size)
            sample = super().render_lines(Region(0, above, crop.width, 1))[0]
            left = self.gutter.left
            self._sides = sample.crop(0, left), sample.crop(left + self.width)
        lines = self.sheet.lines(top, size.height)
        strips: list[Strip] = []
        for y in range(crop.y - above, crop.bottom - above):
            inside = 0 <= y < size.height
            # What is above and below the view does not move with the rows.
            row, line = (top + y, lines[y]) if inside else (-1 - above - y, None)
            over = hint if y == size.height - 1 else ""
            known = self._strips.get(row)
            if known is None or known.line is not line or known.hint != over:
                if inside:
                    left_side, right_side = self._sides
                    made = Strip.join([left_side, self._row(row, line, over), right_side])
                else:
                    made = super().render_lines(Region(0, above + y, crop.width, 1))[0]
                known = self._strips[row] = _Painted(line, over, made)
            strips.append(known.strip)
        return strips

    def render_line(self, y: int) -> Strip:
        row = y + self.scroll_offset.y
        hint = self.hint if y == self.view.height - 1 else ""
        return self._row(row, self.sheet.line(row), hint, self.text_selection)

    def _row(self, row: int, line: Line | None, hint: str, selection: Selection | None = None) -> Strip:
        if line is None:
            strip = Strip([])
        elif selection is None:
            strip = line.strip
        else:
            style = self.screen.get_component_rich_style("screen--selection")
            strip = selected(line, selection, row, style)
        width, ground = self.width, self.ground
        strip = strip.apply_style(ground).crop_extend(0, width, ground).apply_offsets(0, row)
        if not hint:
            return strip
        end = Segment(hint, ground + self.get_component_rich_style(f"{PREFIX}hint", partial=True))
        return Strip.join([strip.crop(0, width - cell_len(hint)), Strip([end])])

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._pressed = event.get_content_offset_capture(self).y + self.scroll_offset.y

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        return self.sheet.copied(selection), "\n"

    @property
    def select_container(self) -> Canvas:
        """A triple click stays in here too."""
        return self

    def text_select_all(self) -> None:
        """A double click selects the paragraph under it: all that is here is not one text."""
        paragraph = self.sheet.paragraph(self._pressed)
        if paragraph is not None:
            self.screen.selections = {self: paragraph}
