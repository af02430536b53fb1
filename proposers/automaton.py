"""An online suffix automaton over token ids: every earlier place that ends as the text ends now.

The states of the automaton (Blumer et al. 1985) are classes of substrings that end at the same
positions of the text. Following the suffix links from the newest state visits the suffixes of the
text, longest first; the newest state holds the suffixes that are new, and its link the longest one
that had occurred before. That is the match which SAM-Decoding (2024) copies from.
"""

from __future__ import annotations

from typing import NamedTuple

HOPS = 32
"""States that one extension marks. Only looping texts have more; in replays 8 already draft the same."""

ROOT = 0


class Match(NamedTuple):
    """A suffix of `length` tokens that occurred earlier.

    end: position after its latest earlier occurrence, where a copy starts; the occurrence may overlap the
    suffix, as in periodic text. occurrences: how many earlier ones there are.
    """

    length: int
    end: int
    occurrences: int


NO_MATCH = Match(0, 0, 0)


class SuffixAutomaton:
    """The substrings of a growing text, in at most 2n states for n tokens.

    match: the longest suffix of the text that occurred earlier; NO_MATCH after a token never seen before.

    `extend` takes amortised O(1), not counting the edges that a clone copies (few: until it is cloned, a
    state has been seen in one context only).

    Match lengths are exact. Occurrences need care, because a new token ends one more occurrence of
    *every* suffix, and there may be n of them. An extension therefore marks only the repeated suffixes of
    the HOPS longest states. So `end` is always a true earlier occurrence. It is the latest, and the counts
    are exact, unless the string also ended as the tail of more than HOPS nested longer repeats, as deep
    inside "la la la …". Such occurrences are missed: the end is then an older one, and the counts are lower.

    Layout: one list per field, indexed by state, and one dictionary of edges per state. Storing the first
    edge outside the dictionary is no faster, but would save over half of the roughly 600 bytes a token.
    """

    __slots__ = ("_count", "_end", "_last", "_length", "_link", "_next", "match", "tokens")

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._next: list[dict[int, int]] = [{}]
        self._link = [-1]
        self._length = [0]
        self._end = [0]
        self._count = [0]
        self._last = ROOT
        self.match = NO_MATCH

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
        """Clone `state` for those of its strings that reach it through `parent` and `token`.

        So far they ended wherever the longer ones end, so the clone inherits end and count.
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
        """Record one more occurrence, ending here, of the suffixes of `state` and of the states it links
        to."""
        end, count, link, here = self._end, self._count, self._link, len(self.tokens)
        # Read before the loop overwrites them: the match is the occurrence before this one.
        self.match = NO_MATCH if state == ROOT else Match(self._length[state], end[state], count[state])
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
