"""Lookup: guess that the text continues as it did the last time it ended like this.

The guess copies what came after the latest earlier occurrence of the longest repeated suffix (SAM-Decoding
2024). In replays of greedy replies, the most frequent continuation, or a match length chosen by expected
acceptance (SuffixDecoding), gets less than half a per cent more accepted: a longest match has mostly been
continued in one way only. So the guess stays a plain copy, and its features go into the forecast of how much
of it is worth verifying.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from proposers.acceptance import CopyAcceptance
from proposers.automaton import Match, SuffixAutomaton
from proposers.base import NOTHING, Proposal, Proposer, RowSampler

GUARD = 16
"""Tokens before the new ones that each step compares, to notice a history that was cut."""


class Lookup(Proposer):
    """A proposer without a model: an index of the history, grown token by token.

    A step costs amortised O(1) a new token and O(limit) a proposal, whatever the length of the history. A
    match of one token is enough, as the forecast decides what is drafted: in prose a single matching token is
    worth nothing, which is learned at once; among names and numbers that occur once, it is worth as much as
    ten.
    """

    name = "lookup"

    def __init__(self) -> None:
        self._index = SuffixAutomaton()
        self.acceptance = CopyAcceptance()
        self._prompt = 0

    def fork(self) -> Lookup:
        fork = Lookup()
        fork.restore_acceptance(self.acceptance_state)
        return fork

    @property
    def match(self) -> Match:
        """The match that a copy would be taken from now."""
        return self._index.match

    @property
    def acceptance_state(self) -> tuple[float, ...]:
        return self.acceptance.acceptance_state

    def restore_acceptance(self, state: Sequence[float]) -> bool:
        return self.acceptance.restore_acceptance(state)

    def begin(self, history: Sequence[int]) -> None:
        """Extend the index if the history continues it, else rebuild it: O(len(history))."""
        indexed = self._index.tokens
        if list(history[: len(indexed)]) != indexed:
            self._index = SuffixAutomaton()
        for token in history[len(self._index.tokens) :]:
            self._index.extend(token)
        self._prompt = len(history)
        self.hit_streak = 0
        self.acceptance.restart()

    def forecast(self, history: Sequence[int], limit: int, least: float = 0.0) -> Sequence[float]:
        if len(history) != len(self._index.tokens):
            self.observe(history)
        match = self._index.match
        if match.length == 0 or limit < 1:
            return ()
        return self.acceptance.survival(match, match.end >= self._prompt, limit, least)

    def propose(
        self, history: Sequence[int], limit: int, sampler: RowSampler, rng: Generator, threshold: float = 0.0
    ) -> Proposal:
        """Tokens copied from after the latest occurrence; deterministic, so q is None."""
        self.observe(history)
        match = self._index.match
        if match.length == 0 or limit < 1:
            return NOTHING
        # A copy that reaches the end of the history repeats itself: the text is periodic there.
        copied = self._index.tokens[match.end : match.end + limit]
        while len(copied) < limit:
            copied += copied[: limit - len(copied)]
        return Proposal(tuple(copied))

    def observe(self, history: Sequence[int], hidden: NDArray[np.float32] | None = None) -> None:
        """Index the new tokens, and learn which of them a copy would have got right."""
        index = self._index
        tokens = index.tokens
        end = len(tokens)
        if list(history[max(0, end - GUARD) : end]) != tokens[-GUARD:]:
            self.begin(history)
            return
        for token in history[end:]:
            match = index.match
            if match.length:
                right = tokens[match.end] == token
                self.acceptance.learn(match, match.end >= self._prompt, right)
                self.hit_streak = self.hit_streak + 1 if right else 0
            else:
                self.acceptance.miss()
                self.hit_streak = 0
            index.extend(token)
