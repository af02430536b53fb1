"""Which set of layers to leave out, given measurements: the arithmetic of `specchat skip-search`.

A set is worth the speedup that it is expected to bring,

    max over k >= 1 of  (1 + sum over j <= k of S_j) · c(1) / (c(k + 1) + k · d)

S_j: the chance that the first j tokens of a draft are accepted at temperature 0; c: the cost of the
target's passes by width; d: that of a step of the draft.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from proposers.base import Distribution

Layers: TypeAlias = tuple[int, ...]
"""Numbers of the layers left out, ascending."""

# Layers tried at each step after the first.
HANDFUL = 4


@dataclass(frozen=True, slots=True)
class Expected:
    """Speedup over plain decoding, at the draft length k that brings the most."""

    speedup: float
    k: int


def survival(agreed: Sequence[NDArray[np.bool_]], longest: int) -> tuple[float, ...]:
    """S_1, S_2, …, at most `longest`: the chance that the first j tokens of a draft are accepted.

    agreed: by position of each reply, whether draft and target choose the same token. Every position may
    begin a draft; one that the reply's end cuts short counts as far as it goes (Kaplan and Meier).
    """
    chances: list[float] = []
    alive = [np.ones_like(reply) for reply in agreed]
    for j in range(longest):
        tried = [starts[: max(len(reply) - j, 0)] for starts, reply in zip(alive, agreed, strict=True)]
        alive = [starts & reply[j:] for starts, reply in zip(tried, agreed, strict=True)]
        count = sum(int(starts.sum()) for starts in tried)
        if count == 0:
            break
        hazard = sum(int(starts.sum()) for starts in alive) / count
        chances.append(hazard * (chances[-1] if chances else 1.0))
    return tuple(chances)


def expected(chances: Sequence[float], costs: Mapping[int, float], step: float) -> Expected:
    """The best k >= 1 for chances S_j, seconds of a target's pass by width, and of a step of the draft.

    Costs have a width above 1 and are linear between widths. Where k tie, the smallest wins.
    """
    widths = sorted(costs)
    best = Expected(0.0, 1)
    tokens = 1.0
    for k, chance in enumerate(chances[: widths[-1] - 1], 1):
        tokens += chance
        seconds = float(np.interp(k + 1, widths, [costs[width] for width in widths])) + k * step
        if tokens * costs[1] / seconds > best.speedup:
            best = Expected(tokens * costs[1] / seconds, k)
    return best


def greedy_search(
    layers: Sequence[int],
    most: int,
    rate: Callable[[Sequence[Layers]], Sequence[float]],
    handful: int = HANDFUL,
) -> Layers:
    """The best set that greedy removal meets, of 1 to `most` of `layers`.

    rate: the scores of sets of one size. Where sets tie the smaller one wins, then the one with the layer
    that scores more alone, then the one with the layer that comes first in `layers`.
    """
    scores: dict[Layers, float] = {}

    def best_of(sets: Sequence[Layers]) -> Layers:
        scores.update(zip(sets, rate(sets), strict=True))
        return max(sets, key=scores.__getitem__)

    current = best_of([(layer,) for layer in layers])
    promising = sorted(layers, key=lambda layer: -scores[(layer,)])
    while len(current) < min(most, len(layers)):
        following = [layer for layer in promising if layer not in current][:handful]
        current = best_of([tuple(sorted((*current, layer))) for layer in following])
    return max(scores, key=scores.__getitem__)


def overlap(p: Distribution, q: Distribution) -> float:
    """Σ min(p, q): the chance that a token drawn from q is accepted."""
    _, of_p, of_q = np.intersect1d(p.tokens, q.tokens, assume_unique=True, return_indices=True)
    return float(np.minimum(p.probabilities[of_p], q.probabilities[of_q]).sum())
