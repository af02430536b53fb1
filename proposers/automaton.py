"""An online suffix automaton over token ids: every earlier place that ends as the text ends now.

The states of the automaton (Blumer et al. 1985) are classes of substrings that end at the same
positions of the text. Following the suffix links from the newest state visits the suffixes of the
text, longest first; the newest state holds the suffixes that are new, and its link the longest one
that had occurred before. That is the match which SAM-Decoding (2024) copies from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

HOPS = 32
"""States that one extension marks. Few texts but looping ones have more; replays draft alike from 8 on."""

ROOT = 0


@dataclass(frozen=True, slots=True)
class Match:
    """A string of `length` tokens found in the indexed text.

    end: position after its latest occurrence, which is where a copy starts.
    count: its occurrences.
    continued: those of them that the token at `end` follows; 0 when the text ends there.
    """

    length: int
    end: int
    count: int
    continued: int


NO_MATCH = Match(0, 0, 0, 0)


class Cursor(NamedTuple):
    """Where a second text stands in the automaton: its longest suffix that is indexed."""

    state: int
    length: int


START = Cursor(ROOT, 0)


class SuffixAutomaton:
    """The substrings of a growing text, in at most 2n states for n tokens.

    `extend` and `advance` take amortised O(1), apart from the edges that a clone copies (few: a state
    that is cloned was seen in one context until then). `repeat` takes O(1).

    Match lengths are exact. Occurrences need care, because a new token ends one more occurrence of
    *every* suffix, and there may be n of them. An extension therefore marks the repeated suffixes of
    the HOPS longest states only. So `end` always is a true earlier occurrence, and it is the latest,
    and the counts are exact, unless the string also ended as the tail of more than HOPS nested longer
    repeats, as it does deep inside "la la la …". Such occurrences are overlooked: the end is then an
    older one and the counts are smaller.

    Layout: a list a field, indexed by state, and one dictionary of edges a state. Keeping the first
    edge out of the dictionary is no faster; it would save over half of the roughly 600 bytes a token.
    """

    __slots__ = ("_count", "_end", "_last", "_length", "_link", "_next", "_repeat", "tokens")

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._next: list[dict[int, int]] = [{}]
        self._link = [-1]
        self._length = [0]
        self._end = [0]
        self._count = [0]
        self._last = ROOT
        # The longest repeated suffix as it stood before the newest token was marked: state, end, count.
        self._repeat = (ROOT, 0, 0)

    def extend(self, token: int) -> None:
        """Append a token to the text."""
        edges, link, length = self._next, self._link, self._length
        self.tokens.append(token)
        new = self._add({}, ROOT, len(self.tokens), len(self.tokens), 1)
        state = self._last
        while state >= 0 and token not in edges[state]:
            edges[state][token] = new
            state = link[state]
        if state >= 0:
            repeat = edges[state][token]
            if length[repeat] != length[state] + 1:
                repeat = self._split(repeat, state, token)
            link[new] = repeat
        self._last = new
        self._mark(link[new])

    def _split(self, state: int, parent: int, token: int) -> int:
        """Give the strings of `state` that reach it by `parent` and `token` a state of their own.

        Until now they ended where the longer ones end, so the clone inherits end and count.
        """
        edges, link = self._next, self._link
        length = self._length[parent] + 1
        clone = self._add(edges[state].copy(), link[state], length, self._end[state], self._count[state])
        link[state] = clone
        while parent >= 0 and edges[parent].get(token) == state:
            edges[parent][token] = clone
            parent = link[parent]
        return clone

    def _mark(self, state: int) -> None:
        """Record that the suffixes of `state` and of the states it links to end here once more."""
        end, count, link, here = self._end, self._count, self._link, len(self.tokens)
        # Read before it is overwritten: the match must be the occurrence before this one.
        self._repeat = (state, end[state], count[state])
        for _ in range(HOPS):
            if state == ROOT:
                break
            end[state] = here
            count[state] += 1
            state = link[state]

    def _add(self, edges: dict[int, int], link: int, length: int, end: int, count: int) -> int:
        self._next.append(edges)
        self._link.append(link)
        self._length.append(length)
        self._end.append(end)
        self._count.append(count)
        return len(self._next) - 1

    def repeat(self) -> Match:
        """The longest suffix of the text that occurred earlier, with its occurrences before this one.

        An occurrence may overlap the suffix, as in periodic text. NO_MATCH for a token never seen.
        """
        state, end, count = self._repeat
        return self._match(state, self._length[state], end, count)

    def advance(self, cursor: Cursor, token: int) -> Cursor:
        """Follow a second text by one token, dropping its oldest tokens until the rest is indexed.

        The automaton may have grown since the cursor was made. Advanced by each token of the text just
        before that token is indexed, a cursor has the length of `repeat`.
        """
        edges, link = self._next, self._link
        state, length = self._settle(cursor)
        while state >= 0 and token not in edges[state]:
            state = link[state]
            length = self._length[state] if state >= 0 else 0
        return Cursor(edges[state][token], length + 1) if state >= 0 else START

    def find(self, cursor: Cursor) -> Match:
        """The string of a cursor with all of its occurrences, one that ends the text included."""
        state, length = self._settle(cursor)
        return self._match(state, length, self._end[state], self._count[state])

    def _settle(self, cursor: Cursor) -> Cursor:
        """The cursor's string may have moved to a clone, which lies on the suffix links."""
        state, length = cursor
        while state != ROOT and self._length[self._link[state]] >= length:
            state = self._link[state]
        return Cursor(state, length)

    def _match(self, state: int, length: int, end: int, count: int) -> Match:
        if state == ROOT:
            return NO_MATCH
        if end == len(self.tokens):
            return Match(length, end, count, 0)
        following = self._next[state][self.tokens[end]]
        # The longer string may have been marked where this one was overlooked.
        return Match(length, end, count, min(self._count[following], count))
