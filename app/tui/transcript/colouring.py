"""Where each token of an answer came from, as styled runs: accepted drafts tinted, rejected ones struck."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.style import Style

from app.colours import LOOKS, OWN
from app.config.values import Marked
from app.text import clean
from app.tui.theme import token_style
from app.tui.transcript.wrapping import Run

Level = Literal[0, 1, 2]

# By the setting's words.
LEVELS: dict[Marked, Level] = {"off": 0, "accepted": 1, "all": 2}


class TokenSpans:
    """The tokens of an answer by their offsets in its text. More are added at its end."""

    def __init__(
        self,
        pieces: Sequence[str] = (),
        origins: Sequence[str] = (),
        rejected: Iterable[tuple[int, str]] = (),
    ) -> None:
        """rejected: drafts, each with the index of the token that the model wrote in its place."""
        self.text = ""
        # The proposer that drafted each token, "" for the model's own.
        self.origins: list[str] = []
        self._ends: list[int] = []
        self._rejected: list[str] = []
        self._rejected_at: list[int] = []
        self.add(pieces, origins)
        for index, text in rejected:
            self._reject(index, text)

    def add(
        self, pieces: Sequence[str], origins: Sequence[str], rejected_before: int = 0, rejected: str = ""
    ) -> None:
        """Add these tokens; the draft `rejected` was rejected before the one of that index among them."""
        known = len(self.origins)
        for piece, origin in zip(pieces, origins, strict=False):
            self.text += clean(piece)
            self._ends.append(len(self.text))
            self.origins.append("" if origin in OWN else origin)
        if rejected:
            self._reject(known + rejected_before, rejected)

    def _reject(self, index: int, text: str) -> None:
        index = min(index, len(self._ends))
        self._rejected_at.append(self._ends[index - 1] if index > 0 else 0)
        # A rejected draft stays in its line: it must not break up the text.
        self._rejected.append(clean(text).replace("\n", "⏎").replace("\t", " "))

    def reach(self, offset: int, end: int) -> tuple[int, str]:
        """How far, at most to `end`, the text from `offset` on has one origin, and which."""
        index = bisect_right(self._ends, offset)
        origin = self.origins[index] if index < len(self.origins) else ""
        while index + 1 < len(self.origins) and self._ends[index] < end and self.origins[index + 1] == origin:
            index += 1
        return min(end, self._ends[index]) if index < len(self._ends) else end, origin

    def rejected(self, start: int, end: int) -> list[tuple[int, str]]:
        """The drafts that were rejected at start ≤ offset < end, with their offsets."""
        found = slice(bisect_left(self._rejected_at, start), bisect_left(self._rejected_at, end))
        return list(zip(self._rejected_at[found], self._rejected[found], strict=True))


@dataclass(frozen=True, slots=True)
class OriginStyler:
    """Styles text by where its tokens came from; it is a `Styler`.

    theme: a settings name, or "none" without colours. struck: for rejected drafts, None to leave them out.
    """

    spans: TokenSpans
    theme: str
    struck: Style | None = None

    def __call__(self, text: str, style: Style, offset: int, since: int) -> list[Run]:
        """Neighbours of one origin become one run, which costs no more than one token."""
        found: list[Run] = []
        end = offset + len(text)
        rejected = self.spans.rejected(since, end) if self.struck else []
        start = offset
        while start < end:
            reach, origin = self.spans.reach(start, end)
            if rejected:
                at = rejected[0][0]
                if at <= start:
                    found += self.rejected([rejected.pop(0)], style)
                    continue
                reach = min(reach, at)
            piece = text[start - offset : reach - offset]
            # A tint begins with a word: a tinted space before it, or a tinted indent, would read as a word.
            before = self.spans.text[start - 1 : start]
            inside = not before.isspace() and self.spans.reach(start - 1, start)[1] == origin
            word = piece if inside else piece.lstrip()
            gap = len(piece) - len(word)
            if gap:
                found.append(Run(piece[:gap], style, start))
            if word:
                look = style + token_style(origin, self.theme) if origin else style
                found.append(Run(word, look, start + gap))
            start = reach
        return found

    def rejected(self, drafts: Iterable[tuple[int, str]], style: Style) -> list[Run]:
        """Rejected drafts as runs, in text of that style; none where they are left out."""
        found: list[Run] = []
        for offset, text in drafts if self.struck else ():
            word = text.lstrip()
            gap = text[: len(text) - len(word)]
            found += [Run(gap, style, offset), Run(word, style + self.struck, offset)]
        return found


def legend(styler: OriginStyler, meaning: Style) -> list[list[Run]]:
    """What the looks that are on the screen mean."""
    present = set(styler.spans.origins) - {""}
    names = [name for name in LOOKS if name in present] + sorted(present - set(LOOKS))
    entries: list[list[Run]] = []
    if names:
        word = "tinted" if styler.theme in ("dark", "light") else "marked"
        entry = [
            Run(word, token_style(names[0], styler.theme)),
            Run(": guessed ahead and right, by ", meaning),
        ]
        for name in names:
            entry += [Run(clean(name), token_style(name, styler.theme)), Run(", ", meaning)]
        entries.append(entry[:-1])
    if styler.struck and styler.spans.rejected(0, len(styler.spans.text) + 1):
        entries.append([Run("struck", styler.struck), Run(": guessed wrong", meaning)])
    return entries
