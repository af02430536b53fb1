"""Code in the transcript's few colours: words of the language, literals, comments."""

from __future__ import annotations

from functools import lru_cache

from rich.style import Style
from rich.syntax import Syntax, SyntaxTheme

from app.tui.transcript.flow import Run
from app.tui.transcript.palette import Palette

# Longer code is shown without colours: a lexer of nested states may take seconds for it.
LONGEST = 20_000


class _Theme(SyntaxTheme):
    """The palette as a theme. A token's type is its names from the general to the special."""

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
    """The code as runs; of one style where the language is not known.

    Kept, as the end of an answer, another width and another colour of tokens draw the same code again.
    """
    if not language or len(code) > LONGEST:
        return [Run(code, palette.code)]
    text = Syntax(code, language, theme=_Theme(palette)).highlight(code)
    # Another length: the lexer took the code for something else than it is.
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
