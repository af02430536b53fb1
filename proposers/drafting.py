"""What proposers with a model of their own share: the model's cache, and a record of how drafts fared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from proposers.base import DraftModel, NoDraft, Proposer
from proposers.confidence import Confidence

# Positions whose acceptance is counted separately; later ones share the last count.
_POSITIONS = 16
# (accepted, tried) at each position to begin with: it makes a first draft worth trying.
_GUESS = (1.5, 2.0)
# The weight old passes keep, and how fast counts return to the first guess while nothing is drafted: texts
# change, and a bad start must not switch drafting off for good.
_KEEP, _RETURN = 0.97, 0.01

Own = TypeVar("Own", bound="ModelProposer")


class DraftCache:
    """A model's cache, kept at a prefix of a history in the model's own tokens."""

    def __init__(self, model: DraftModel) -> None:
        self.model = model
        # The tokens given to the model; an interrupted forward may not have read the last of them.
        self._tokens: list[int] = []
        # How many of them are known to match the history.
        self._agreed = 0

    @property
    def tokens(self) -> Sequence[int]:
        """The tokens in the cache."""
        return self._tokens[: self.model.length]

    def begin(self, history: Sequence[int]) -> None:
        """Keep the prefix shared with a history that may have nothing else in common with the last one."""
        self._agreed = 0
        self.match(history)

    def limit_agreed(self, length: int) -> None:
        """Tokens of the history after the first `length` may have changed."""
        self._agreed = min(self._agreed, length)

    def room(self, history: Sequence[int]) -> int:
        """How many tokens can be drafted after a history; the last need not enter the cache."""
        return self.model.capacity - len(history) + 1

    def lag(self, history: Sequence[int]) -> int:
        """How many tokens remain to be read, not counting the last."""
        # A history that does not fit is not read, and nothing is drafted for it.
        return len(history) - 1 - self.model.length if 0 < len(history) <= self.model.capacity else 0

    def sync(self, history: Sequence[int]) -> None:
        """Read all tokens but the last."""
        if self.lag(history):
            self._append(history[self.model.length : -1], rows=0)
            self._agreed = len(self._tokens)

    def read(self, history: Sequence[int]) -> NDArray[np.float32]:
        """Read all tokens; the logits (V,) after the last."""
        row: NDArray[np.float32] = self._append(history[self.model.length :], rows=1)[0]
        self._agreed = len(history)
        self.model.checkpoint()
        return row

    def step(self, token: int) -> NDArray[np.float32]:
        """Read a drafted token; the logits (V,) after it."""
        row: NDArray[np.float32] = self._append((token,), rows=1)[0]
        return row

    def match(self, history: Sequence[int]) -> None:
        """Roll back to the longest common prefix with history, but always leave its last token to be read:
        the next draft starts with a forward, which needs a token."""
        del self._tokens[self.model.length :]
        longest = max(0, min(len(self._tokens), len(history) - 1))
        shared = min(self._agreed, longest)
        while shared < longest and self._tokens[shared] == history[shared]:
            shared += 1
        self.model.rollback(shared)
        del self._tokens[shared:]
        self._agreed = shared

    def _append(self, tokens: Sequence[int], rows: int) -> NDArray[np.float32]:
        del self._tokens[self.model.length :]
        self._tokens.extend(tokens)
        return self.model.forward(tokens, rows)


class DraftRecord:
    """How drafted tokens fared, by position and by the probability that the model gave them."""

    def __init__(self) -> None:
        self._counts = [_GUESS] * _POSITIONS
        # How the model's probabilities relate to acceptance: in greedy replies (True) and in sampled ones.
        self._confidence = {True: Confidence(), False: Confidence()}
        # The last proposal: length of the history before it, its tokens, their probabilities.
        self._proposed: tuple[int, tuple[int, ...], tuple[float, ...]] = (0, (), ())
        self._greedy = True

    def fork(self) -> DraftRecord:
        """A new record that has learned as much."""
        fork = DraftRecord()
        fork.restore_acceptance(self.acceptance_state)
        return fork

    @property
    def acceptance_state(self) -> tuple[float, ...]:
        """Accepted and tried for each position, then the state of both confidence tables."""
        counts = [number for counts in self._counts for number in counts]
        return (*counts, *self._confidence[True].acceptance_state, *self._confidence[False].acceptance_state)

    def restore_acceptance(self, state: Sequence[float]) -> bool:
        """Start from what an earlier run learned. Returns False and changes nothing if it is invalid."""
        positions, greedy = 2 * _POSITIONS, 2 * _POSITIONS + Confidence.SIZE
        counts = list(zip(state[:positions:2], state[1:positions:2], strict=False))
        # Decayed counts stay below 1 / (1 - _KEEP).
        valid = all(0.0 <= accepted <= tried and 1.0 <= tried <= 100.0 for accepted, tried in counts)
        if len(counts) != _POSITIONS or not valid:
            return False
        restored = {True: Confidence(), False: Confidence()}
        if not (
            restored[True].restore_acceptance(state[positions:greedy])
            and restored[False].restore_acceptance(state[greedy:])
        ):
            return False
        self._counts, self._confidence = counts, restored
        return True

    def begin(self) -> None:
        """A new reply begins."""
        self._proposed = (0, (), ())
        for confidence in self._confidence.values():
            confidence.restart()

    def forecast(self, limit: int) -> Sequence[float]:
        """The chances that the first 1, 2, … `limit` tokens of a draft are all accepted."""
        chances, chance = [], 1.0
        for position in range(limit):
            accepted, tried = self._counts[min(position, _POSITIONS - 1)]
            chance *= accepted / tried
            chances.append(chance)
        return chances

    def chance(self, probability: float, greedy: bool) -> float:
        """The chance that a token is accepted to which the model gave this probability."""
        return self._confidence[greedy].chance(probability)

    def propose(
        self, start: int, tokens: Sequence[int], probabilities: Sequence[float], greedy: bool
    ) -> None:
        """Remember the tokens proposed after a history of `start` tokens."""
        self._proposed = (start, tuple(tokens), tuple(probabilities))
        self._greedy = greedy

    def fail(self) -> None:
        """A draft gave nothing to propose: counts like a first token that is rejected."""
        accepted, tried = self._counts[0]
        self._counts[0] = (accepted * _KEEP, tried * _KEEP + 1.0)

    def observe(self, history: Sequence[int]) -> None:
        """Count how many tokens of the last proposal were accepted."""
        start, proposed, probabilities = self._proposed
        self._proposed = (0, (), ())
        counts = self._counts
        if not proposed:
            for position, (accepted, tried) in enumerate(counts):
                counts[position] = (
                    accepted + _RETURN * (_GUESS[0] - accepted),
                    tried + _RETURN * (_GUESS[1] - tried),
                )
            return
        # Tokens after a rejected one were not judged.
        confidence = self._confidence[self._greedy]
        for position, (guessed, token) in enumerate(zip(proposed, history[start:], strict=False)):
            accepted, tried = counts[min(position, _POSITIONS - 1)]
            hit = guessed == token
            confidence.learn(probabilities[position], hit)
            counts[min(position, _POSITIONS - 1)] = (accepted * _KEEP + hit, tried * _KEEP + 1.0)
            if not hit:
                break


class ModelProposer(Proposer):
    """Drafts token by token with a model of its own."""

    stops_early = True

    def __init__(self, model: DraftModel, name: str = "draft") -> None:
        self.name = name
        self.model = model
        self._cache = DraftCache(model)
        self._record = DraftRecord()

    def fork(self: Own) -> Own:
        fork = copy(self)
        fork._record = self._record.fork()
        return fork

    @property
    def model_seconds(self) -> float:
        return self.model.seconds

    @property
    def cached(self) -> Sequence[int]:
        """The tokens in the model's cache, in its own vocabulary."""
        return self._cache.tokens

    @property
    def acceptance_state(self) -> tuple[float, ...]:
        return self._record.acceptance_state

    def restore_acceptance(self, state: Sequence[float]) -> bool:
        return self._record.restore_acceptance(state)

    def resume(self, history: Sequence[int]) -> None:
        self._cache.begin(history)

    def begin(self, history: Sequence[int]) -> None:
        """Keep the common prefix."""
        self._cache.begin(history)
        self._record.begin()

    def lag(self, history: Sequence[int]) -> int:
        return self._cache.lag(history)

    def sync(self, history: Sequence[int]) -> None:
        self._cache.sync(history)

    def forecast(self, history: Sequence[int], limit: int, least: float = 0.0) -> Sequence[float]:
        return self._record.forecast(min(limit, self._cache.room(history)))


def top_two_probability(row: NDArray[np.float32], token: int) -> float:
    """The probability of `token`, the largest entry of a row (V,), in a softmax over it and the second
    largest alone: a full softmax needs an exponential for each token of the vocabulary. Raises NoDraft if
    they are NaN."""
    top = row[token]
    row[token] = -np.inf
    second = row.max()
    row[token] = top
    if math.isnan(second - top):
        raise NoDraft("its logits are NaN")
    return 1 / (1 + math.exp(min(float(second - top), 50.0)))
