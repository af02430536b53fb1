"""Where each token of an answer came from, as styled runs: by origin, with rejected drafts as ghosts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.style import Style

from app.chat.gate import clean
from app.colours import LOOKS
from app.tui.theme import origin_style
from app.tui.transcript.flow import Run

Level = Literal[0, 1, 2]

_PLAIN = frozenset({"plain", "off"})
REJECTED = "rejected"


class Trail:
    """The tokens of an answer, by their place in its text. It grows at its end."""

    def __init__(
        self,
        pieces: Sequence[str] = (),
        origins: Sequence[str] = (),
        ghosts: Iterable[tuple[int, str]] = (),
    ) -> None:
        self.text = ""
        self.origins: list[str] = []
        self.present: set[str] = set()
        self._ends: list[int] = []
        self._ghost_places: list[int] = []
        self._ghosts: list[str] = []
        self.add(pieces, origins)
        for index, text in ghosts:
            self._haunt(index, text)

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
            self.origins.append(origin)
        self.present.update(origins)
        if rejected:
            self._haunt(known + rejected_before, rejected)

    def _haunt(self, index: int, text: str) -> None:
        place = self._ends[min(index, len(self._ends)) - 1] if index > 0 and self._ends else 0
        self._ghost_places.append(place)
        # A ghost stays in its line: what was rejected must not tear the text apart.
        self._ghosts.append(clean(text).replace("\n", "⏎").replace("\t", " "))

    @property
    def haunted(self) -> bool:
        """Whether any draft was rejected."""
        return bool(self._ghosts)

    def runs(self, start: int, end: int, inks: Inks, level: Level, *, last: bool = False) -> list[Run]:
        """text[start:end] as runs, ghosts from level 2 on. last: with the ghosts at `end` itself.

        Neighbours of one origin become one run, so that 5,000 tokens cost no more than their changes.
        """
        found: list[Run] = []
        position = start
        index = bisect_right(self._ends, start)
        ghost = bisect_left(self._ghost_places, start)
        while position < end:
            origin = self.origins[index] if index < len(self.origins) else "plain"
            reach = self._ends[index] if index < len(self._ends) else end
            while index + 1 < len(self.origins) and reach < end and self.origins[index + 1] == origin:
                index += 1
                reach = self._ends[index]
            reach = min(reach, end)
            while position < reach:
                stop = reach
                if level == 2 and ghost < len(self._ghosts) and self._ghost_places[ghost] < reach:
                    stop = max(position, self._ghost_places[ghost])
                if stop > position:
                    found += _inked(self.text[position:stop], inks.of(origin), inks.body, position)
                position = stop
                if stop < reach:
                    found.append(Run(self._ghosts[ghost], inks.ghost, position))
                    ghost += 1
            index += 1
        while last and level == 2 and ghost < len(self._ghosts) and self._ghost_places[ghost] <= end:
            found.append(Run(self._ghosts[ghost], inks.ghost, end))
            ghost += 1
        return found


@dataclass(frozen=True, slots=True)
class Inks:
    """What runs are coloured with: the text's own style, that of ghosts, and a theme's settings name."""

    body: Style
    ghost: Style
    theme: str

    def of(self, origin: str) -> Style:
        return self.body + origin_style(origin, self.theme)


def coloured(
    pieces: Sequence[str],
    origins: Sequence[str],
    ghosts: Iterable[tuple[int, str]],
    level: Level,
    inks: Inks,
) -> list[Run]:
    """A whole answer as runs: by origin at level 1, with rejected drafts at 2, without either at 0."""
    trail = Trail(pieces, origins, ghosts)
    if level == 0:
        return [Run(trail.text, inks.body)] if trail.text else []
    return trail.runs(0, len(trail.text), inks, level, last=True)


def legend(trail: Trail, inks: Inks, level: Level, meaning: Style) -> list[list[Run]]:
    """One entry for each origin that is present: its name in its look, and what it means."""
    names = [name for name in LOOKS if name in trail.present]
    names += sorted(trail.present - set(LOOKS) - _PLAIN)
    entries = [
        [Run(clean(name), inks.of(name)), Run(f" {LOOKS.get(name, LOOKS['head']).sample}", meaning)]
        for name in names
    ]
    if level == 2 and trail.haunted:
        entries.append([Run(REJECTED, inks.ghost), Run(" drafted, not accepted", meaning)])
    return entries


def _inked(text: str, style: Style, body: Style, place: int) -> list[Run]:
    """A run, its leading blanks without the look: an underlined gap reads as a word."""
    blanks = len(text) - len(text.lstrip())
    found = [Run(text[:blanks], body, place)] if blanks else []
    if blanks < len(text):
        found.append(Run(text[blanks:], style, place + blanks))
    return found
