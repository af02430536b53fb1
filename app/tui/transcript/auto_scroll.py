"""A view that follows its end while the reader is there, and stays where it is while the reader is not."""

from __future__ import annotations

import time

from textual.geometry import Size

from app.tui.transcript.line_index import LineIndex
from app.tui.transcript.lines_view import LinesView

# Blank rows at the end of a streaming reply, which are filled before the view moves.
BLANK_ROWS = 2

# The scrollbar follows a streaming reply at most this often: painting it costs as much as the text.
SCROLLBAR_SECONDS = 1.0


class AutoScrollView(LinesView):
    """Scrolls without animation: a view in motion can neither follow its end nor stay."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._following = True
        self._showing = False
        self._news = 0
        self._scrollbar_updated = 0.0

    @property
    def following(self) -> bool:
        """Whether the reader is at the end, and is shown what comes there."""
        return self._following

    @property
    def hint(self) -> str:
        """What lies below, while the reader is not at the end."""
        if self._following:
            return ""
        return f"  ↓ {self._news:,} new · Ctrl+End " if self._news else "  ↓ newer below · Ctrl+End "

    def reached_top(self) -> None:
        """The reader is at the first row, and may want more above it."""

    def follow(self) -> None:
        """Follow the end, from the next `show_lines` on."""
        self._following = True
        self._news = 0

    def stop_following(self) -> None:
        """Stay here: what comes at the end is to be read from its beginning."""
        self._following = False

    def count_news(self) -> None:
        """Something came at the end. A reader who is not there is told so."""
        if not self._following:
            self._news += 1

    def show_lines(self, line_index: LineIndex, top: int | None, *, streaming: bool = False) -> None:
        """Show these lines: the end if following, else from row `top`, or from where the view is if None.

        streaming: the last rows are blank, and are filled before the view moves, which would paint all of it.
        """
        self.line_index = line_index
        self._showing = True
        if not (streaming and 0 <= line_index.height - self.virtual_size.height <= BLANK_ROWS):
            self._set_height(line_index.height)
        if self._following:
            if self.scroll_y != self.max_scroll_y:
                self.scroll_to(y=self.max_scroll_y, animate=False, force=True)
        else:
            if top is not None and top != int(self.scroll_y):
                self.scroll_to(y=top, animate=False, force=True)
            if self.scroll_y >= self.max_scroll_y:
                self.follow()
        self._showing = False
        if not streaming or time.monotonic() - self._scrollbar_updated >= SCROLLBAR_SECONDS:
            self._update_scrollbar()
        self.paint()

    def _set_height(self, height: int) -> None:
        """Set how many rows there are to scroll through.

        Setting `virtual_size` lays out the whole screen, which cost more than all else of a streaming reply.
        That is needed only where the scrollbar comes or goes, which changes the room for text.
        """
        size = Size(self.width, height)
        if height < self.virtual_size.height:
            self.virtual_size = size
            return
        self.set_reactive(AutoScrollView.virtual_size, size)
        if self.show_vertical_scrollbar != (self.max_scroll_y > 0):
            self.refresh(layout=True)
            # A scrollbar that is new knows nothing yet.
            self.call_after_refresh(self._update_scrollbar)

    def _update_scrollbar(self) -> None:
        """Make the scrollbar show where the view is."""
        if self.show_vertical_scrollbar:
            self._scrollbar_updated = time.monotonic()
            self.vertical_scrollbar.window_virtual_size = self.virtual_size.height
            self.vertical_scrollbar.position = self.scroll_y

    def go_to_end(self) -> None:
        """Show the end, and follow it again."""
        self.follow()
        self.show_lines(self.line_index, None)

    def action_scroll_end(self) -> None:
        self.go_to_end()

    def action_scroll_home(self) -> None:
        self.scroll_to(y=0, animate=False)

    def action_scroll_up(self) -> None:
        self.scroll_relative(y=-1, animate=False)

    def action_scroll_down(self) -> None:
        self.scroll_relative(y=1, animate=False)

    def action_page_up(self) -> None:
        if self.scroll_y <= 0:
            self.reached_top()
        self.scroll_relative(y=-self._page, animate=False)

    def action_page_down(self) -> None:
        self.scroll_relative(y=self._page, animate=False)

    @property
    def _page(self) -> int:
        """Rows of a page, less two that show where the reader was."""
        return max(1, self.size.height - 2)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        if self._showing:
            # `show_lines` does what is needed.
            return
        super().watch_scroll_y(old_value, new_value)
        self._update_scrollbar()
        if new_value >= self.max_scroll_y:
            self.follow()
        else:
            self.stop_following()
        if new_value <= 0:
            self.call_later(self.reached_top)
