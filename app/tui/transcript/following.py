"""A view that follows its end while the reader is there, and is never moved under one who is not."""

from __future__ import annotations

from textual.geometry import Size

from app.tui.transcript.canvas import Canvas
from app.tui.transcript.sheet import Sheet

# So many rows at the end of a growing sheet are blank, and may be filled before the view moves.
CLOSING = 2


class FollowingCanvas(Canvas):
    """Scrolls without animation: a view that glides while text comes in can neither follow nor stand."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._following = True
        self._placing = False
        self._news = 0

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

        growing: its last rows are blank, and are filled before the view moves. Each move paints the whole
        view, which takes most of the time that a growing answer costs.
        """
        self.sheet = sheet
        self._placing = True
        if not (growing and 0 <= sheet.height - self.virtual_size.height <= CLOSING):
            self.virtual_size = Size(self.width, sheet.height)
        if self._following:
            self.scroll_to(y=self.max_scroll_y, animate=False, force=True)
        else:
            if top is not None and top != int(self.scroll_y):
                self.scroll_to(y=top, animate=False, force=True)
            if self.scroll_y >= self.max_scroll_y:
                self.follow()
        self._placing = False
        self.paint()

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
        super().watch_scroll_y(old_value, new_value)
        if self._placing:
            return
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
        return f"  ↓ {self._news:,} new · End " if self._news else "  ↓ newer below · End "
