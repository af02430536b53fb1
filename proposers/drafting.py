"""What a proposer with a model of its own keeps: the model's cache, and what became of its drafts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from proposers.base import DraftModel, NoDraft, Proposer
from proposers.confidence import Confidence

# Positions whose acceptance is counted one by one; those behind count with the last.
_POSITIONS = 16
# By position, (accepted, tried): the first guess expects a draft to be worth a try.
_GUESS = (1.5, 2.0)
# How fast old passes are forgotten, and, while nothing is drafted, how fast the first guess comes
# back: texts change, and a bad beginning must not switch drafting off for good.
_KEEP, _RETURN = 0.97, 0.01


class DraftCache:
    """A model's cache, kept at a prefix of a history in the model's own tokens."""

    def __init__(self, model: DraftModel) -> None:
        self.model = model
        # The tokens given to the model; an interrupted forward may have left out the last of them.
        self._tokens: list[int] = []
        # So many of them are known to be the history's.
        self._agreed = 0

    @property
    def tokens(self) -> Sequence[int]:
        """The tokens in the cache."""
        return self._tokens[: self.model.length]

    def begin(self, history: Sequence[int]) -> None:
        """Keep the common prefix with a history that may differ in any way from the last one."""
        self._agreed = 0
        self.match(history)

    def revise(self, length: int) -> None:
        """Only the first `length` tokens of the history are certainly those of before."""
        self._agreed = min(self._agreed, length)

    def room(self, history: Sequence[int]) -> int:
        """Tokens that can be drafted behind a history; the last of them need not enter the cache."""
        return self.model.capacity - len(history) + 1

    def lag(self, history: Sequence[int]) -> int:
        """Tokens to read, all but the last."""
        # A history that does not fit is not read, nor drafted for.
        return len(history) - 1 - self.model.length if 0 < len(history) <= self.model.capacity else 0

    def sync(self, history: Sequence[int]) -> None:
        """Read the rest, all but the last token."""
        if self.lag(history):
            self._append(history[self.model.length : -1], rows=0)
            self._agreed = len(self._tokens)

    def read(self, history: Sequence[int]) -> NDArray[np.float32]:
        """Read the rest with the last token; the logits (V,) behind it."""
        row: NDArray[np.float32] = self._append(history[self.model.length :], rows=1)[0]
        self._agreed = len(history)
        self.model.checkpoint()
        return row

    def step(self, token: int) -> NDArray[np.float32]:
        """Read a drafted token; the logits (V,) behind it."""
        row: NDArray[np.float32] = self._append((token,), rows=1)[0]
        return row

    def match(self, history: Sequence[int]) -> None:
        """Roll back to the longest common prefix with history, less its last token: the next draft
        starts with a forward, and a forward needs a token."""
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
    """What the target made of drafted tokens, by their position and by how sure the model was."""

    def __init__(self) -> None:
        self._counts = [_GUESS] * _POSITIONS
        # What the model's own probability says, of replies at temperature 0 and of sampled ones.
        self._confidence = {True: Confidence(), False: Confidence()}
        # The last proposal, how sure the model was of each token, and the length of the history before.
        self._proposed: tuple[int, tuple[int, ...], tuple[float, ...]] = (0, (), ())
        self._greedy = True

    def twin(self) -> DraftRecord:
        """Another one that knows as much."""
        twin = DraftRecord()
        twin.restore_acceptance(self.acceptance_state)
        return twin

    @property
    def acceptance_state(self) -> tuple[float, ...]:
        """Accepted and tried by position, in turn; then what the model's own probabilities say."""
        counts = [number for counts in self._counts for number in counts]
        return (*counts, *self._confidence[True].acceptance_state, *self._confidence[False].acceptance_state)

    def restore_acceptance(self, state: Sequence[float]) -> bool:
        """Start from what was learned earlier; False, and nothing changes, where it makes no sense."""
        positions, greedy = 2 * _POSITIONS, 2 * _POSITIONS + Confidence.SIZE
        counts = list(zip(state[:positions:2], state[1:positions:2], strict=False))
        # Decayed counts stay below 1 / (1 - _KEEP).
        sound = all(0.0 <= accepted <= tried and 1.0 <= tried <= 100.0 for accepted, tried in counts)
        if len(counts) != _POSITIONS or not sound:
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
        """Another reply begins."""
        self._proposed = (0, (), ())
        for confidence in self._confidence.values():
            confidence.restart()

    def forecast(self, limit: int) -> Sequence[float]:
        """By position: what was accepted there, given that the positions before were."""
        chances, chance = [], 1.0
        for position in range(limit):
            accepted, tried = self._counts[min(position, _POSITIONS - 1)]
            chance *= accepted / tried
            chances.append(chance)
        return chances

    def chance(self, sure: float, greedy: bool) -> float:
        """The chance that a token is accepted of which the model is so sure."""
        return self._confidence[greedy].chance(sure)

    def propose(self, start: int, tokens: Sequence[int], sure: Sequence[float], greedy: bool) -> None:
        """These tokens are proposed behind a history of `start` tokens."""
        self._proposed = (start, tuple(tokens), tuple(sure))
        self._greedy = greedy

    def fail(self) -> None:
        """A draft gave nothing that could be proposed: as good as a first token that is rejected."""
        accepted, tried = self._counts[0]
        self._counts[0] = (accepted * _KEEP, tried * _KEEP + 1.0)

    def observe(self, history: Sequence[int]) -> None:
        """Count what was accepted of the last proposal."""
        start, proposed, sure = self._proposed
        self._proposed = (0, (), ())
        counts = self._counts
        if not proposed:
            for position, (accepted, tried) in enumerate(counts):
                counts[position] = (
                    accepted + _RETURN * (_GUESS[0] - accepted),
                    tried + _RETURN * (_GUESS[1] - tried),
                )
            return
        # Behind a rejection nothing was seen.
        confidence = self._confidence[self._greedy]
        for position, (guessed, token) in enumerate(zip(proposed, history[start:], strict=False)):
            accepted, tried = counts[min(position, _POSITIONS - 1)]
            hit = guessed == token
            confidence.learn(sure[position], hit)
            counts[min(position, _POSITIONS - 1)] = (accepted * _KEEP + hit, tried * _KEEP + 1.0)
            if not hit:
                break


class ModelProposer(Proposer):
    """Drafts token by token with a model of its own."""

    stops_early = True

    def __init__(self, model: DraftModel, name: str) -> None:
        self.model = model
        self._name = name
        self._cache = DraftCache(model)
        self._record = DraftRecord()

    @property
    def name(self) -> str:
        return self._name

    @property
    def model_seconds(self) -> float:
        return self.model.seconds

    @property
    def cached(self) -> Sequence[int]:
        """The tokens in the model's cache, its own."""
        return self._cache.tokens

    @property
    def acceptance_state(self) -> tuple[float, ...]:
        return self._record.acceptance_state

    def restore_acceptance(self, state: Sequence[float]) -> bool:
        return self._record.restore_acceptance(state)


def against_the_next(row: NDArray[np.float32], token: int) -> float:
    """The probability of a row's (V,) largest entry against the second largest alone: one look at the row
    where a softmax takes an exponential for each token of the vocabulary. Raises NoDraft where they are no
    numbers."""
    top = row[token]
    row[token] = -np.inf
    second = row.max()
    row[token] = top
    if math.isnan(second - top):
        raise NoDraft("its logits are no numbers")
    return 1 / (1 + math.exp(min(float(second - top), 50.0)))
