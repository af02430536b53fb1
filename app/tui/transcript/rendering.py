"""What lines are rendered with: the styles, read from the style sheet for each theme, and the options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

from rich.style import Style

from app.tui.transcript.colouring import Level

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
    rejected: Style
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
        """The palette from a widget's component styles."""
        return cls(**{name: component(PREFIX + name) for name in NAMES})


NAMES = tuple(field.name for field in fields(Palette))
COMPONENTS = {PREFIX + name for name in NAMES}


@dataclass(frozen=True, slots=True)
class KeyNames:
    """The names of keys that lines mention; a person may have chosen others."""

    thoughts: str = "Ctrl+G"
    go_on: str = "Ctrl+L"


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """All that lines depend on except their text. theme: its settings name. thoughts: whether unfolded."""

    width: int
    palette: Palette
    model_name: str = "model"
    level: Level = 0
    theme: str = "dark"
    thoughts: bool = False
    keys: KeyNames = KeyNames()
