"""Texts that fit their columns, and lines and pictures that are drawn at the size they are seen at."""

from __future__ import annotations

from collections.abc import Callable

from rich.cells import cell_len, set_cell_size
from rich.text import Text
from textual.content import Content
from textual.css.styles import RulesMap
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual
from textual.widget import Widget

from app.tui.theme import settings_theme

QUIET = "$muted not bold"


def cut(text: str, width: int) -> str:
    """`text` in at most `width` cells, with an ellipsis where it is cut."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(0, width - 1)).rstrip() + "…"


def fit(text: str, width: int, right: bool = False) -> str:
    """`text` in exactly `width` cells, cut or filled with spaces."""
    text = cut(text, width)
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


class LazyLines(Visual):
    """Draws itself for the width that it is shown at; thousands in a list cost what the visible ones do.

    height: lines that `draw` returns at any width; None to count them, which draws them.
    """

    def __init__(self, draw: Callable[[int], Content], height: int | None = None) -> None:
        self._draw = draw
        self._height = height

    def get_height(self, rules: RulesMap, width: int) -> int:
        return self._height or self._draw(width).get_height(rules, width)

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        return container_width

    def render_strips(
        self, width: int, height: int | None, style: Style, options: RenderOptions
    ) -> list[Strip]:
        return self._draw(width).render_strips(width, height, style, options)


class Picture(Widget):
    """Shows what `draw` makes of the width and height there is, and the settings' name of the theme."""

    ALLOW_SELECT = False

    def __init__(self, draw: Callable[[int, int, str], Text], id: str, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._draw = draw

    def render(self) -> Text:
        width, height = self.content_size
        return self._draw(width, height, settings_theme(self.app.theme))
