"""A view that follows its end while the reader is there, and is never moved under one who is not."""

from __future__ import annotations

import time

from textual.geometry import Size

from app.tui.transcript.canvas import Canvas
from app.tui.transcript.sheet import Sheet

# So many rows at the end of a growing sheet are blank, and may be filled before the view moves.
CLOSING = 2

# The scrollbar of a growing sheet follows it at most as often: to paint it costs as much as the text.
BAR_SECONDS = 1.0


class FollowingCanvas(Canvas):
    """Scrolls without animation: a view that glides while text comes in can neither follow nor stand."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._following = True
        self._placing = False
        self._news = 0
        self._bar_told = 0.0

    @property
    def following(self) -> bool:
        """Whether the reader is at the end, and new text keeps being shown."""
        return self._following

    def reached_top(self) -> None:
        """The reader came to the first row, or wants to go on from there."""

    def follow(self) -> None:
        """Follow from the next `place` on."""
        self._following = True
        self._news = 0

    def stay(self) -> None:
        """Do not follow: what comes next at the end is to be read from its beginning."""
        self._following = False

    def tell_news(self) -> None:
        """Something came at the end that a reader who is not there is to be told of."""
        if not self._following:
            self._news += 1

    def place(self, sheet: Sheet, top: int | None, *, growing: bool = False) -> None:
        """Show this sheet from row `top`, or from where the view is if None, or, if following, its end.

        growing: its last rows are blank, and are filled before the view moves, as each move paints the
        whole view.
        """
        self.sheet = sheet
        self._placing = True
        if not (growing and 0 <= sheet.height - self.virtual_size.height <= CLOSING):
            self._take_height(sheet.height)
        if self._following:
            if self.scroll_y != self.max_scroll_y:
                self.scroll_to(y=self.max_scroll_y, animate=False, force=True)
        else:
            if top is not None and top != int(self.scroll_y):
                self.scroll_to(y=top, animate=False, force=True)
            if self.scroll_y >= self.max_scroll_y:
                self.follow()
        self._placing = False
        if not growing or time.monotonic() - self._bar_told >= BAR_SECONDS:
            self._tell_bar()
        self.paint()

    def _take_height(self, height: int) -> None:
        """Have so many rows to scroll through.

        Setting `virtual_size` lays out the whole screen, which cost more than all else of a growing answer.
        But only a scrollbar that comes or goes takes or gives room.
        """
        size = Size(self.width, height)
        if height < self.virtual_size.height:
            self.virtual_size = size
            return
        self.set_reactive(FollowingCanvas.virtual_size, size)
        if self.show_vertical_scrollbar != (self.max_scroll_y > 0):
            self.refresh(layout=True)
            # A bar that was not there yet was told nothing.
            self.call_after_refresh(self._tell_bar)

    def _tell_bar(self) -> None:
        """Have the scrollbar show where the view is."""
        if self.show_vertical_scrollbar:
            self._bar_told = time.monotonic()
            self.vertical_scrollbar.window_virtual_size = self.virtual_size.height
            self.vertical_scrollbar.position = self.scroll_y

    def go_to_end(self) -> None:
        """Show the end, and follow it again."""
        self.follow()
        self.place(self.sheet, None)

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
        """Rows of a page, less two that show where one was."""
        return max(1, self.size.height - 2)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        if self._placing:
            # What `place` does then is enough.
            return
        super().watch_scroll_y(old_value, new_value)
        self._tell_bar()
        if new_value >= self.max_scroll_y:
            self.follow()
        else:
            self.stay()
        if new_value <= 0:
            self.call_later(self.reached_top)

    @property
    def hint(self) -> str:
        """What lies below, while the reader is not at the end."""
        if self._following:
            return ""
        return f"  ↓ {self._news:,} new · Ctrl+End " if self._news else "  ↓ newer below · Ctrl+End "
