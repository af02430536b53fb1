"""The three themes (dark, light, terminal): one accent, one family of greys, and one colour per origin.

The origins' colours are Okabe and Ito's, which colour-blind people can tell from each other, darkened for
the light theme. Each origin also has an underline of its own, for terminals without colours.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Literal

from rich.style import Style
from textual.color import Color
from textual.theme import Theme

from app.colours import DARK_PAGE, LIGHT_PAGE, LOOKS, OWN, Page

_PREFIX = "specchat-"


def _theme(
    name: str,
    page: Page,
    *,
    dark: bool,
    accent: str,
    secondary: str,
    surface: str,
    panel: str,
    warning: str,
    error: str,
    faint: str,
    border: str,
    selection: str,
) -> Theme:
    """A theme on this page. selection: the ground of what is selected in a field."""
    return Theme(
        name=f"{_PREFIX}{name}",
        primary=accent,
        secondary=secondary,
        accent=accent,
        foreground=page.text,
        background=page.ground,
        surface=surface,
        panel=panel,
        success=accent,
        warning=warning,
        error=error,
        dark=dark,
        variables={
            "muted": page.quiet,
            "faint": faint,
            "rule": page.rule,
            "border": border,
            "border-blurred": page.rule,
            "block-cursor-background": accent,
            "block-cursor-foreground": page.ground,
            "input-selection-background": selection,
            "footer-key-foreground": accent,
            "footer-background": page.ground,
            "footer-description-foreground": page.quiet,
            "footer-description-background": page.ground,
        },
    )


DARK = _theme(
    "dark",
    DARK_PAGE,
    dark=True,
    accent="#7fb7a8",
    secondary="#5f8f84",
    surface="#1a1e22",
    panel="#22272c",
    warning="#d8b26a",
    error="#e08070",
    faint="#59626a",
    border="#39424a",
    selection="#7fb7a8 35%",
)
LIGHT = _theme(
    "light",
    LIGHT_PAGE,
    dark=False,
    accent="#2c6e60",
    secondary="#4a8376",
    surface="#f4f3ef",
    panel="#eae8e2",
    warning="#8a6100",
    error="#b03a2a",
    faint="#a3a8ab",
    border="#c7c5bd",
    selection="#2c6e60 25%",
)

# Colours that the terminal defines; greys are its bright black.
_GREY = "ansi_bright_black"
_TERMINAL = _theme(
    "terminal",
    Page("ansi_default", "ansi_default", _GREY, _GREY),
    dark=True,
    accent="ansi_cyan",
    secondary="ansi_cyan",
    surface="ansi_default",
    panel="ansi_default",
    warning="ansi_yellow",
    error="ansi_red",
    faint=_GREY,
    border=_GREY,
    selection=_GREY,
)
TERMINAL = replace(
    _TERMINAL,
    success="ansi_green",
    boost="ansi_default",
    # Without this Textual would send its own idea of these colours.
    ansi=True,
    variables=_TERMINAL.variables
    | {
        "ansi-background": "ansi_default",
        "ansi-foreground": "ansi_default",
        "screen-selection-background": "ansi_cyan",
        "screen-selection-foreground": "ansi_black",
        "block-cursor-foreground": "ansi_black",
        "footer-description-foreground": "ansi_default",
    },
)

# By the names that settings use.
THEMES = {"dark": DARK, "light": LIGHT, "terminal": TERMINAL}

# The ground and how much of an origin's colour tints it: enough to be seen, little enough to read on.
_TINTS = {"dark": (DARK_PAGE.ground, 0.22), "light": (LIGHT_PAGE.ground, 0.16)}


def settings_theme(name: str) -> str:
    """The settings' name of a registered theme."""
    return name.removeprefix(_PREFIX)


def grey(name: Literal["muted", "faint", "rule"], theme: str) -> Style:
    """One of the theme's quiet colours. theme: as the settings name it, here and below."""
    return Style(color=THEMES[theme].variables[name].removeprefix("ansi_"))


def accent(theme: str) -> Style:
    """The theme's accent, in bold."""
    return Style(color=(THEMES[theme].accent or "").removeprefix("ansi_"), bold=True)


def origin_style(origin: str, theme: str) -> Style:
    """The colour of an origin; none for "plain". Proposers that have no colour here take that of heads."""
    if origin in ("plain", "off", "auto"):
        return Style()
    look = LOOKS.get(origin, LOOKS["head"])
    return Style(color={"dark": look.dark, "light": look.light}.get(theme, look.ansi))


@cache
def token_style(origin: str, theme: str) -> Style:
    """How a token of this origin looks: on a tint of the origin's colour; the model's own tokens are plain.

    The terminal's sixteen colours have no tints, so there the text has the colour. In the theme "none", for
    terminals without colours, the text is underlined.
    """
    look = LOOKS.get(origin, LOOKS["head"])
    if origin in OWN:
        return Style()
    if theme == "none":
        return Style.parse(look.attributes)
    if theme not in _TINTS:
        return Style(color=look.ansi)
    ground, share = _TINTS[theme]
    colour = look.dark if theme == "dark" else look.light
    return Style(bgcolor=Color.parse(ground).blend(Color.parse(colour), share).hex)
