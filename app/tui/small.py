"""What a terminal shows that is too small for anything else."""

from __future__ import annotations

from textual.app import RenderResult
from textual.widget import Widget


class TooSmall(Widget):
    """One sentence, in the middle."""

    DEFAULT_CSS = """
    TooSmall {
        width: 1fr;
        height: 1fr;
        content-align: center middle;
        text-align: center;
        color: $muted;
    }
    """

    def render(self) -> RenderResult:
        width, height = self.app.size
        return f"This terminal has {width} × {height} cells.\nMake it larger to chat: 80 × 24 is good."
