"""Colours that the screen and pictures share: one look for each origin of tokens, and two pages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Look:
    """How one origin looks. ansi: one of the terminal's own sixteen colours. attributes: used instead where
    there are no colours."""

    dark: str
    light: str
    ansi: str
    attributes: str


@dataclass(frozen=True, slots=True)
class Page:
    """The colours of a page: background, text, quieter text, and the lines between parts."""

    ground: str
    text: str
    quiet: str
    rule: str


# The model's own words are plain text: they are most of an answer, and the eye needs rest.
OWN = frozenset({"plain", "off", "correction", "bonus"})

LOOKS: dict[str, Look] = {
    "lookup": Look("#56b4e9", "#0068a5", "cyan", "underline"),
    "draft": Look("#e69f00", "#9a5b00", "yellow", "underline2"),
    "skip": Look("#cc79a7", "#9c3f74", "magenta", "underline italic"),
    "head": Look("#2fbf91", "#00694c", "green", "underline2 italic"),
    "correction": Look("#aab2b9", "#5a6269", "bright_black", "bold"),
    "bonus": Look("#d9c93a", "#6b5f00", "bright_yellow", "italic"),
}

DARK_PAGE = Page("#14171a", "#d6d9dc", "#8b949c", "#2e353b")
LIGHT_PAGE = Page("#fbfaf7", "#23282c", "#646c72", "#dcdad3")
