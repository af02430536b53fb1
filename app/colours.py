"""Colours that the screen and pictures share: one look an origin of tokens, and the two pages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Look:
    """How tokens of one origin look. ansi: one of the terminal's own sixteen colours."""

    dark: str
    light: str
    ansi: str
    attributes: str
    sample: str


@dataclass(frozen=True, slots=True)
class Page:
    """The colours of a page: its ground, text, quieter text, and the lines between parts."""

    ground: str
    text: str
    quiet: str
    rule: str


# "plain" has no look of its own: most of the text is plain, and the eye must have rest.
LOOKS: dict[str, Look] = {
    "lookup": Look("#56b4e9", "#0068a5", "bright_blue", "underline", "copied from earlier text"),
    "draft": Look("#e69f00", "#9a5b00", "yellow", "underline2", "guessed by the draft model"),
    "skip": Look("#cc79a7", "#9c3f74", "magenta", "underline italic", "guessed with fewer layers"),
    "head": Look("#2fbf91", "#00694c", "green", "underline2 italic", "guessed by a head"),
    "correction": Look("#f0764a", "#b33c00", "red", "bold", "the model's own, after a rejection"),
    "bonus": Look("#d9c93a", "#6b5f00", "bright_yellow", "italic", "the model's own, all accepted"),
}

DARK_PAGE = Page("#14171a", "#d6d9dc", "#8b949c", "#2e353b")
LIGHT_PAGE = Page("#fbfaf7", "#23282c", "#646c72", "#dcdad3")
