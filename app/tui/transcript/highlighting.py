"""Code in few colours: words of the language, literals, comments."""

from __future__ import annotations

from functools import lru_cache

from rich.style import Style
from rich.syntax import Syntax, SyntaxTheme

from app.tui.transcript.rendering import Palette
from app.tui.transcript.wrapping import Run

# Longer code has no colours: a lexer may take seconds for it.
LONGEST = 20_000


class _Theme(SyntaxTheme):
    """The palette as a theme. A token's type is a path of names, the most general first."""

    def __init__(self, palette: Palette) -> None:
        self._palette = palette

    def get_style_for_token(self, token_type: tuple[str, ...]) -> Style:
        palette = self._palette
        match token_type:
            case ("Comment", *_):
                return palette.code + palette.comment
            case ("Keyword", *_) | ("Operator", "Word", *_) | ("Name", "Tag", *_):
                return palette.code + palette.keyword
            case ("Literal", *_):
                return palette.code + palette.literal
        return palette.code

    def get_background_style(self) -> Style:
        return self._palette.code


@lru_cache(maxsize=32)
def highlighted(code: str, language: str, palette: Palette) -> list[Run]:
    """The code as runs; one run if the language is not known.

    Cached, as the same code is drawn again when the answer ends, and for another width or other colours.
    """
    if not language or len(code) > LONGEST:
        return [Run(code, palette.code)]
    text = Syntax(code, language, theme=_Theme(palette)).highlight(code)
    # The lexer has changed the text, so its spans do not fit.
    if text.plain.rstrip() != code.rstrip():
        return [Run(code, palette.code)]
    runs: list[Run] = []
    position = 0
    for span in text.spans:
        if span.start > position:
            runs.append(Run(code[position : span.start], palette.code, position))
        if isinstance(span.style, Style) and span.start >= position:
            runs.append(Run(code[span.start : span.end], span.style, span.start))
            position = span.end
    if position < len(code):
        runs.append(Run(code[position:], palette.code, position))
    return runs
