"""The visual language: one accent, one family of greys, one colour an origin; dark, light, terminal.

The colours of the origins are Okabe and Ito's, which stay apart for colour-blind eyes, darkened for the
light theme; each origin differs without colours too, by its underline.
"""

from __future__ import annotations

from functools import cache

from rich.style import Style
from textual.color import Color
from textual.theme import Theme

from app.colours import DARK_PAGE, LIGHT_PAGE, LOOKS, OWN

DARK = Theme(
    name="specchat-dark",
    primary="#7fb7a8",
    secondary="#5f8f84",
    accent="#7fb7a8",
    foreground=DARK_PAGE.text,
    background=DARK_PAGE.ground,
    surface="#1a1e22",
    panel="#22272c",
    success="#7fb7a8",
    warning="#d8b26a",
    error="#e08070",
    dark=True,
    variables={
        "muted": DARK_PAGE.quiet,
        "faint": "#59626a",
        "rule": DARK_PAGE.rule,
        "border": "#39424a",
        "border-blurred": "#2e353b",
        "block-cursor-background": "#7fb7a8",
        "block-cursor-foreground": "#14171a",
        "input-selection-background": "#7fb7a8 35%",
        "footer-key-foreground": "#7fb7a8",
        "footer-background": "#14171a",
        "footer-description-foreground": "#8b949c",
        "footer-description-background": "#14171a",
    },
)

LIGHT = Theme(
    name="specchat-light",
    primary="#2c6e60",
    secondary="#4a8376",
    accent="#2c6e60",
    foreground=LIGHT_PAGE.text,
    background=LIGHT_PAGE.ground,
    surface="#f4f3ef",
    panel="#eae8e2",
    success="#2c6e60",
    warning="#8a6100",
    error="#b03a2a",
    dark=False,
    variables={
        "muted": LIGHT_PAGE.quiet,
        "faint": "#a3a8ab",
        "rule": LIGHT_PAGE.rule,
        "border": "#c7c5bd",
        "border-blurred": "#dcdad3",
        "block-cursor-background": "#2c6e60",
        "block-cursor-foreground": "#fbfaf7",
        "input-selection-background": "#2c6e60 25%",
        "footer-key-foreground": "#2c6e60",
        "footer-background": "#fbfaf7",
        "footer-description-foreground": "#646c72",
        "footer-description-background": "#fbfaf7",
    },
)

# Colours that the terminal defines; greys are its bright black.
TERMINAL = Theme(
    name="specchat-terminal",
    primary="ansi_cyan",
    secondary="ansi_cyan",
    accent="ansi_cyan",
    foreground="ansi_default",
    background="ansi_default",
    surface="ansi_default",
    panel="ansi_default",
    success="ansi_green",
    warning="ansi_yellow",
    error="ansi_red",
    boost="ansi_default",
    dark=True,
    # Else Textual would send its own idea of these colours.
    ansi=True,
    variables={
        "ansi-background": "ansi_default",
        "ansi-foreground": "ansi_default",
        "screen-selection-background": "ansi_cyan",
        "screen-selection-foreground": "ansi_black",
        "muted": "ansi_bright_black",
        "faint": "ansi_bright_black",
        "rule": "ansi_bright_black",
        "border": "ansi_bright_black",
        "border-blurred": "ansi_bright_black",
        "block-cursor-background": "ansi_cyan",
        "block-cursor-foreground": "ansi_black",
        "input-selection-background": "ansi_bright_black",
        "footer-key-foreground": "ansi_cyan",
        "footer-background": "ansi_default",
        "footer-description-foreground": "ansi_default",
        "footer-description-background": "ansi_default",
    },
)

# The names that settings use.
THEMES = {"dark": DARK, "light": LIGHT, "terminal": TERMINAL}

# What is tinted, and how much: enough to be seen, little enough to be read on.
_TINTS = {"dark": (DARK_PAGE.ground, 0.22), "light": (LIGHT_PAGE.ground, 0.16)}


def origin_style(origin: str, theme: str) -> Style:
    """The colour of an origin in the theme of that settings name; nothing for "plain".

    A proposer that came later than this table, such as a head, looks like "head".
    """
    if origin in ("plain", "off", "auto"):
        return Style()
    look = LOOKS.get(origin, LOOKS["head"])
    return Style(color={"dark": look.dark, "light": look.light}.get(theme, look.ansi))


@cache
def token_style(origin: str, theme: str) -> Style:
    """How a token looks that a proposer of that name drafted: on a tint of its colour, which is quiet.

    The terminal's own sixteen colours have no tints: there it is the text that has the colour. In the theme
    "none", of a terminal without colours, it has an underline. The model's own words look like any text.
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
