"""The contract of a proposer: guess the next tokens, watch what the target made of them.

A proposer works on `history`, the committed tokens of prompt and reply, which it only reads. It
never sees the target. What it needs of a model of its own is the small protocol `DraftModel`; what
it needs of the reply's sampling settings is `RowSampler`. Both are handed in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Distribution:
    """One position's distribution on its support.

    tokens: (m,) int64, in an order that the logits alone decide.
    probabilities: (m,) float64, not negative, summing to 1.
    """

    tokens: NDArray[np.int64]
    probabilities: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Proposal:
    """Drafted tokens: a chain, or a tree.

    q holds, for each token, the distribution that it was drawn from. None says that the guess is
    deterministic: q is 1 at the token, and no distribution is built.
    parents: None for a chain. Of a tree's tokens, the index of the one that each follows, smaller than its
    own, or -1 for the history's last. Tokens with the same parent differ, and q is None.
    """

    tokens: tuple[int, ...] = ()
    q: tuple[Distribution, ...] | None = None
    parents: tuple[int, ...] | None = None


NOTHING = Proposal()


class NoDraft(Exception):
    """A proposer's own model computes nothing that could be proposed."""


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

    def draw(self, distribution: Distribution, rng: np.random.Generator) -> int:
        """A token of a distribution, with one uniform of the generator."""


class DraftModel(Protocol):
    """A model with a cache of its own that a proposer may run."""

    @property
    def capacity(self) -> int:
        """Tokens that the cache can hold."""

    @property
    def seconds(self) -> float:
        """Time spent in forward so far."""

    @property
    def length(self) -> int:
        """Tokens in the cache."""

    def forward(self, tokens: Sequence[int], rows: int = 1) -> NDArray[np.float32]:
        """Append tokens to the cache; logits (rows, V) after the last `rows` of them.

        The result is a view that the next forward overwrites.
        """

    def rollback(self, length: int) -> None:
        """Keep the first `length` tokens of the cache only."""

    def checkpoint(self) -> None:
        """What is appended next will be rolled back, to here or behind."""


class Proposer:
    """Guesses tokens. Every method may be called between any two passes, for any history.

    What stands here is a proposer without a model that learns nothing and drafts nothing.
    """

    @property
    def name(self) -> str:
        """The registry's name, shown as the origin of accepted tokens."""
        raise NotImplementedError

    @property
    def model_seconds(self) -> float:
        """Time spent in a model of its own so far; 0.0 without one."""
        return 0.0

    @property
    def stops_early(self) -> bool:
        """Whether it drafts token by token and heeds the confidence threshold."""
        return False

    @property
    def hit_streak(self) -> int:
        """How many of the last tokens its guesses would have had right, in a row, whether or not they were
        sent; 0 where guessing costs time."""
        return 0

    @property
    def needs_hidden(self) -> bool:
        """Whether `observe` is to be given the target's hidden states. The target's context must have been
        made with them."""
        return False

    def twin(self) -> Proposer:
        """Another one for a reply of its own, which has learned what this one has; a model they share.
        Whichever is used after the other is told so by `resume`."""
        return self

    def resume(self, history: Sequence[int]) -> None:
        """Go on where it was, at `history`, the one seen last, after a twin may have used the model."""

    @property
    def acceptance_state(self) -> tuple[float, ...]:
        """What its acceptance model has learned, for `restore_acceptance` of a later run."""
        return ()

    def restore_acceptance(self, state: Sequence[float]) -> bool:
        """Start from what was learned earlier; False, and nothing changes, where that makes no sense."""
        return not state

    def begin(self, history: Sequence[int]) -> None:
        """Another reply begins, behind a history that may differ in any way from the last one seen. A
        model of its own reads nothing yet."""

    def lag(self, history: Sequence[int]) -> int:
        """Tokens that a model of its own would read before its next draft, beyond the one that any draft
        begins with; 0 without a model."""
        return 0

    def sync(self, history: Sequence[int]) -> None:
        """Read those tokens now. `history` is the one seen last."""

    def forecast(self, history: Sequence[int], limit: int, least: float = 0.0) -> Sequence[float]:
        """The chances that the first 1, 2, … tokens of a proposal for `history` are all accepted, by
        what was seen so far; at most `limit`, fewer where it would propose fewer. It may be () where the
        first of them is below `least`."""
        return ()

    def propose(
        self,
        history: Sequence[int],
        limit: int,
        sampler: RowSampler,
        rng: np.random.Generator,
        threshold: float = 0.0,
    ) -> Proposal:
        """At most `limit` (≥ 1) tokens that may follow. `history` extends the one seen last.

        threshold: where each token costs time, none is added once the chance that all so far are accepted
        is below this. Only what precedes a token may hold it back, which keeps the output distribution.
        """
        return NOTHING

    def observe(self, history: Sequence[int], hidden: NDArray[np.float32] | None = None) -> None:
        """Passes have committed tokens: `history` is what stands, rejected drafts are gone. Called before the
        next proposal is asked for, and at the end of a reply.

        hidden: to those that need it, behind each pass: the target's final hidden states (n, width) of the
        n tokens before the history's last, which has not been through the target. A view that the next pass
        overwrites.
        """
