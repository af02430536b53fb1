"""The contract of a proposer: guess the next tokens, then see which of them the target accepted.

A proposer works on `history`, the committed tokens of prompt and reply, which it only reads. It never sees
the target. What it needs of a model of its own is the small protocol `DraftModel`, and what it needs of the
reply's sampling settings is `RowSampler`. Both are passed in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.random import Generator
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Distribution:
    """The distribution of one position, on its support.

    tokens: (m,) int64, in an order that depends on the logits alone.
    probabilities: (m,) float64, not negative, summing to 1.
    """

    tokens: NDArray[np.int64]
    probabilities: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Proposal:
    """Drafted tokens: a chain, or a tree.

    q: for each token, the distribution it was drawn from. None means that the guess is deterministic: q is 1
    at the token, and no distribution is built.
    parents: None for a chain. For a tree, the index of each token's parent, always smaller than the token's
    own, or -1 for the last token of the history. Tokens with the same parent differ, and q is None.
    """

    tokens: tuple[int, ...] = ()
    q: tuple[Distribution, ...] | None = None
    parents: tuple[int, ...] | None = None


NOTHING = Proposal()


class NoDraft(Exception):
    """The logits of a proposer's own model cannot be used."""


class RowSampler(Protocol):
    """A reply's sampling settings, applied to logits of any model with the target's vocabulary."""

    @property
    def greedy(self) -> bool:
        """True at temperature 0: the distribution is a single token."""

    def choose(self, row: NDArray[np.float32], history: Sequence[int], drafted: Sequence[int]) -> int:
        """The argmax of a row (V,), after penalties for history + drafted."""

    def distributions(
        self, rows: NDArray[np.float32], history: Sequence[int], drafted: Sequence[int]
    ) -> list[Distribution]:
        """The distributions of consecutive rows (n, V); the last follows history + drafted,
        the one before it history + drafted[:-1], and so on."""

    def draw(self, distribution: Distribution, rng: Generator) -> int:
        """A token of a distribution, drawn with one uniform from the generator."""


class DraftModel(Protocol):
    """A model with a cache of its own that a proposer may run."""

    @property
    def capacity(self) -> int:
        """Number of tokens the cache can hold."""

    @property
    def seconds(self) -> float:
        """Time spent in forward so far."""

    @property
    def length(self) -> int:
        """Number of tokens in the cache."""

    def forward(self, tokens: Sequence[int], rows: int = 1) -> NDArray[np.float32]:
        """Append tokens to the cache; logits (rows, V) after the last `rows` of them.

        The result is a view that the next forward overwrites.
        """

    def rollback(self, length: int) -> None:
        """Keep only the first `length` tokens of the cache."""

    def checkpoint(self) -> None:
        """Tokens appended from now on will be rolled back, to this length or a greater one."""


class Proposer:
    """Guesses tokens. Every method may be called between any two passes, with any history.

    The defaults describe a proposer that has no model, learns nothing and drafts nothing.

    name: as in the registry, shown as the origin of accepted tokens. stops_early: whether it drafts token by
    token and obeys the confidence threshold. hit_streak: how many of the last tokens, in a row, its guesses
    would have got right, whether or not they were used; 0 where guessing costs time. needs_hidden: whether
    `observe` must be given the target's hidden states, which the target's context must have been made with.
    """

    name: str
    stops_early: bool = False
    hit_streak: int = 0
    needs_hidden: bool = False

    @property
    def model_seconds(self) -> float:
        """Time spent in a model of its own so far; 0.0 without one."""
        return 0.0

    def fork(self) -> Proposer:
        """A proposer for another reply. It starts with what this one has learned and shares its model.
        `resume` must be called on the one that is used after the other."""
        return self

    def resume(self, history: Sequence[int]) -> None:
        """Continue at `history`, the last one it saw, after a fork may have used the model."""

    @property
    def acceptance_state(self) -> tuple[float, ...]:
        """What its acceptance model has learned, for `restore_acceptance` in a later run."""
        return ()

    def restore_acceptance(self, state: Sequence[float]) -> bool:
        """Start from what an earlier run learned. Returns False and changes nothing if it is invalid."""
        return not state

    def begin(self, history: Sequence[int]) -> None:
        """A new reply begins, with a history that may have nothing in common with the last one. A model of
        its own reads nothing yet."""

    def lag(self, history: Sequence[int]) -> int:
        """Number of tokens a model of its own must read before its next draft, not counting the last one,
        with which every draft begins; 0 without a model."""
        return 0

    def sync(self, history: Sequence[int]) -> None:
        """Read those tokens now. `history` is the last one it saw."""

    def forecast(self, history: Sequence[int], limit: int, least: float = 0.0) -> Sequence[float]:
        """The chances that the first 1, 2, … tokens of a proposal for `history` are all accepted, judging by
        what it has seen. At most `limit` of them, fewer if it would propose fewer. It may return () if the
        first is below `least`."""
        return ()

    def propose(
        self, history: Sequence[int], limit: int, sampler: RowSampler, rng: Generator, threshold: float = 0.0
    ) -> Proposal:
        """At most `limit` (≥ 1) tokens that may come next. `history` extends the last one it saw.

        threshold: where each token costs time, drafting stops once the chance that all tokens so far are
        accepted is below this. Whether to stop may depend only on tokens already drafted, or the output
        distribution would change.
        """
        return NOTHING

    def observe(self, history: Sequence[int], hidden: NDArray[np.float32] | None = None) -> None:
        """Passes have committed tokens; `history` no longer holds rejected drafts. Called before the next
        proposal is asked for, and at the end of a reply.

        hidden: only for proposers that need it, after each pass: the target's final hidden states (n, width)
        for the n tokens before the last of the history, which the target has not read yet. A view that the
        next pass overwrites.
        """


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """Length of the longest common prefix."""
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return index
    return min(len(first), len(second))
