"""The visual language: one accent, one family of greys, one colour an origin; dark, light, terminal.

The colours of the origins are Okabe and Ito's, which stay apart for colour-blind eyes, darkened for the
light theme; each origin differs without colour too, by its underline or weight.
"""

from __future__ import annotations

from dataclasses import dataclass

from rich.style import Style
from textual.theme import Theme


@dataclass(frozen=True, slots=True)
class Look:
    """How tokens of one origin look. ansi: one of the terminal's own sixteen colours."""

    dark: str
    light: str
    ansi: str
    attributes: str
    sample: str


# "plain" has no look of its own: most of the text is plain, and the eye must have rest.
LOOKS: dict[str, Look] = {
    "lookup": Look("#56b4e9", "#0068a5", "bright_blue", "underline", "copied from earlier text"),
    "draft": Look("#e69f00", "#9a5b00", "yellow", "underline2", "guessed by the draft model"),
    "skip": Look("#cc79a7", "#9c3f74", "magenta", "underline italic", "guessed with fewer layers"),
    "head": Look("#2fbf91", "#00694c", "green", "underline2 italic", "guessed by a head"),
    "correction": Look("#f0764a", "#b33c00", "red", "bold", "the model's own, after a rejection"),
    "bonus": Look("#d9c93a", "#6b5f00", "bright_yellow", "italic", "the model's own, all accepted"),
}

DARK = Theme(
    name="specchat-dark",
    primary="#7fb7a8",
    secondary="#5f8f84",
    accent="#7fb7a8",
    foreground="#d6d9dc",
    background="#14171a",
    surface="#1a1e22",
    panel="#22272c",
    success="#7fb7a8",
    warning="#d8b26a",
    error="#e08070",
    dark=True,
    variables={
        "muted": "#8b949c",
        "faint": "#59626a",
        "rule": "#2e353b",
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
    foreground="#23282c",
    background="#fbfaf7",
    surface="#f4f3ef",
    panel="#eae8e2",
    success="#2c6e60",
    warning="#8a6100",
    error="#b03a2a",
    dark=False,
    variables={
        "muted": "#646c72",
        "faint": "#a3a8ab",
        "rule": "#dcdad3",
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


def origin_style(origin: str, theme: str) -> Style:
    """How a token of that origin looks in the theme of that settings name; nothing for "plain".

    A proposer that came later than this table, such as a head, looks like "head".
    """
    if origin in ("plain", "off", "auto"):
        return Style()
    look = LOOKS.get(origin, LOOKS["head"])
    colour = {"dark": look.dark, "light": look.light}.get(theme, look.ansi)
    return Style.parse(f"{look.attributes} {colour}")
