"""A scrolled view that paints the lines of a sheet, of which many may be there and few are seen."""

from __future__ import annotations

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from app.tui.transcript.flow import Line
from app.tui.transcript.palette import PREFIX, Palette
from app.tui.transcript.sheet import Sheet, selected

# Painted rows that are kept: some views' worth.
KEPT = 1_000


class Canvas(ScrollView):
    """Paints its sheet. A heir puts lines on the sheet, calls `paint`, and redraws when restyled."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.sheet = Sheet()
        self._palette: Palette | None = None
        self._ground: Style | None = None
        # What was painted last, by row: each new line at the end moves all others, but changes none.
        self._strips: dict[int, tuple[Line | None, Strip]] = {}
        self._painted: tuple[int, int, str] | None = None
        self._pressed = 0

    @property
    def hint(self) -> str:
        """What stands at the right of the last row, over the text; "" for nothing."""
        return ""

    def restyled(self) -> None:
        """The palette is another one: all lines are to be drawn anew."""

    @property
    def width(self) -> int:
        """Cells of a row."""
        return self.scrollable_content_region.width

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

    def paint(self) -> None:
        """Paint what changed: where the view did not move, only rows that show another line."""
        if len(self._strips) > KEPT:
            self._strips.clear()
        top = self.scroll_offset.y
        before, self._painted = self._painted, (top, self.width, self.hint)
        if before != self._painted:
            self.refresh()
            return
        for row in range(top, top + self.size.height):
            known, line = self._strips.get(row), self.sheet.line(row)
            if known is not None and known[0] is not line and known[0] == line:
                # Made anew, and the same: were it painted, so would be all between it and the end.
                self._strips[row] = (line, known[1])
            elif known is None or known[0] is not line:
                self.refresh_line(row)

    def forget(self) -> None:
        """Paint every row anew when it is next seen."""
        self._ground = None
        self._strips.clear()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        # The styles of the components follow only after this.
        self.call_later(self._restyle)

    def _restyle(self) -> None:
        self.forget()
        before, self._palette = self._palette, None
        if before is not None and self.palette != before:
            self.restyled()

    def render_line(self, y: int) -> Strip:
        row = y + self.scroll_offset.y
        line = self.sheet.line(row)
        selection = self.text_selection
        if line is not None and selection is not None:
            style = self.screen.get_component_rich_style("screen--selection")
            strip = self._finished(selected(line, selection, row, style), row)
        else:
            known = self._strips.get(row)
            if known is None or known[0] is not line:
                known = (line, self._finished(Strip([]) if line is None else line.strip, row))
                self._strips[row] = known
            strip = known[1]
        if not self.hint or y != self.size.height - 1:
            return strip
        hint = Segment(self.hint, self.ground + self.get_component_rich_style(f"{PREFIX}hint", partial=True))
        return Strip.join([strip.crop(0, self.width - cell_len(self.hint)), Strip([hint])])

    def _finished(self, strip: Strip, row: int) -> Strip:
        return strip.apply_style(self.ground).crop_extend(0, self.width, self.ground).apply_offsets(0, row)

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
