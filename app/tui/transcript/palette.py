"""The styles that the transcript is drawn in, read once from its style sheet for each theme."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

from rich.style import Style

PREFIX = "transcript--"


@dataclass(frozen=True, slots=True)
class Palette:
    """One style for each kind of text; each field is a component class of the transcript."""

    body: Style
    strong: Style
    you: Style
    model: Style
    accent: Style
    muted: Style
    faint: Style
    rule: Style
    bar: Style
    ghost: Style
    code: Style
    inline: Style
    keyword: Style
    literal: Style
    comment: Style
    warning: Style
    error: Style
    hint: Style

    @classmethod
    def read(cls, component: Callable[[str], Style]) -> Palette:
        """The palette out of a widget's lookup of component styles."""
        return cls(**{name: component(PREFIX + name) for name in NAMES})


NAMES = tuple(field.name for field in fields(Palette))
COMPONENTS = {PREFIX + name for name in NAMES}
