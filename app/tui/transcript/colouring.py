"""Where each token of an answer came from, as styled runs: by origin, with rejected drafts as ghosts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.style import Style

from app.chat.gate import clean
from app.colours import LOOKS, OWN
from app.config.values import Marked
from app.tui.theme import token_style
from app.tui.transcript.flow import Run

Level = Literal[0, 1, 2]

# By the setting's words.
LEVELS: dict[Marked, Level] = {"off": 0, "accepted": 1, "all": 2}


class Trail:
    """The tokens of an answer, by their place in its text. It grows at its end."""

    def __init__(
        self,
        pieces: Sequence[str] = (),
        origins: Sequence[str] = (),
        ghosts: Iterable[tuple[int, str]] = (),
    ) -> None:
        self.text = ""
        # Of each token: the proposer that drafted it, "" for the model's own.
        self.origins: list[str] = []
        self._ends: list[int] = []
        self._ghost_places: list[int] = []
        self._ghosts: list[str] = []
        self.add(pieces, origins)
        for index, text in ghosts:
            self._reject(index, text)

    def __len__(self) -> int:
        return len(self.origins)

    def add(
        self, pieces: Sequence[str], origins: Sequence[str], rejected_before: int = 0, rejected: str = ""
    ) -> None:
        """Go on with these tokens; `rejected` stood before the one of that index among them."""
        known = len(self.origins)
        for piece, origin in zip(pieces, origins, strict=False):
            self.text += clean(piece)
            self._ends.append(len(self.text))
            self.origins.append("" if origin in OWN else origin)
        if rejected:
            self._reject(known + rejected_before, rejected)

    def _reject(self, index: int, text: str) -> None:
        place = self._ends[min(index, len(self._ends)) - 1] if index > 0 and self._ends else 0
        self._ghost_places.append(place)
        # A ghost stays in its line: what was rejected must not tear the text apart.
        self._ghosts.append(clean(text).replace("\n", "⏎").replace("\t", " "))

    @property
    def rejected(self) -> bool:
        """Whether any draft was rejected."""
        return bool(self._ghosts)

    def reach(self, place: int, end: int) -> tuple[int, str]:
        """Up to where, at most `end`, the text from `place` on has one origin, and which."""
        index = bisect_right(self._ends, place)
        origin = self.origins[index] if index < len(self.origins) else ""
        while index + 1 < len(self.origins) and self._ends[index] < end and self.origins[index + 1] == origin:
            index += 1
        return min(end, self._ends[index]) if index < len(self._ends) else end, origin

    def ghosts(self, start: int, end: int) -> list[tuple[int, str]]:
        """What was rejected in start ≤ place < end, with its places."""
        found = slice(bisect_left(self._ghost_places, start), bisect_left(self._ghost_places, end))
        return list(zip(self._ghost_places[found], self._ghosts[found], strict=True))


@dataclass(frozen=True, slots=True)
class TrailInk:
    """Inks text by where its tokens came from; it is an `Ink`.

    theme: a settings name, or "none" without colours. ghost: of rejected drafts, None to leave them out.
    """

    trail: Trail
    theme: str
    ghost: Style | None = None

    def __call__(self, text: str, style: Style, place: int, since: int) -> list[Run]:
        """Neighbours of one origin become one run, and cost no more than one."""
        found: list[Run] = []
        end = place + len(text)
        ghosts = self.trail.ghosts(since, end) if self.ghost else []
        start = place
        while start < end:
            reach, origin = self.trail.reach(start, end)
            if ghosts:
                at = ghosts[0][0]
                if at <= start:
                    found += self.rejected([ghosts.pop(0)], style)
                    continue
                reach = min(reach, at)
            piece = text[start - place : reach - place]
            # A look begins with a word: a marked gap before one, or an indent, reads as a word.
            before = self.trail.text[start - 1 : start]
            inside = not before.isspace() and self.trail.reach(start - 1, start)[1] == origin
            word = piece if inside else piece.lstrip()
            gap = len(piece) - len(word)
            if gap:
                found.append(Run(piece[:gap], style, start))
            if word:
                look = style + token_style(origin, self.theme) if origin else style
                found.append(Run(word, look, start + gap))
            start = reach
        return found

    def rejected(self, ghosts: Iterable[tuple[int, str]], style: Style) -> list[Run]:
        """Rejected drafts as runs in text of that style; none where they are left out."""
        found: list[Run] = []
        for place, text in ghosts if self.ghost else ():
            word = text.lstrip()
            found += [Run(text[: len(text) - len(word)], style, place), Run(word, style + self.ghost, place)]
        return found


def legend(ink: TrailInk, meaning: Style) -> list[list[Run]]:
    """What the looks that are present mean, for one who never saw them."""
    present = set(ink.trail.origins) - {""}
    names = [name for name in LOOKS if name in present] + sorted(present - set(LOOKS))
    entries: list[list[Run]] = []
    if names:
        word = "tinted" if ink.theme in ("dark", "light") else "marked"
        said = [Run(word, token_style(names[0], ink.theme)), Run(": guessed ahead and right, by ", meaning)]
        for name in names:
            said += [Run(clean(name), token_style(name, ink.theme)), Run(", ", meaning)]
        entries.append(said[:-1])
    if ink.ghost and ink.trail.rejected:
        entries.append([Run("struck", ink.ghost), Run(": guessed wrong", meaning)])
    return entries
