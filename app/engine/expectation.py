"""What theory expects of speculation: tokens per pass, speedup, and the best draft length.

Pure functions without numpy and llama.cpp, so that the screen can use them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

# The time of a pass by its width, in any unit.
Cost = Callable[[int], float]


def expected_tokens(alpha: float, k: int) -> float:
    """Tokens that a pass with a draft of k commits on average, if each is accepted with probability alpha.

    Equation 1 of Leviathan, Kalman and Matias 2023 ("Fast inference from transformers via speculative
    decoding"): (1 - α^(k+1)) / (1 - α), here as the sum 1 + α + … + α^k, which holds at α = 1 too.
    """
    return expected_tokens_by_position([alpha] * k)


def expected_tokens_by_position(hazards: Sequence[float]) -> float:
    """The same with a probability for each position: 1 + the sum over j of the product of the first j.

    hazards: for position 1, 2, …, the probability of acceptance, given that all before it were accepted.
    """
    total = survival = 1.0
    for hazard in hazards:
        survival *= hazard
        total += survival
    return total


def relative_cost(k: int, cost: Cost, draft_cost: float) -> float:
    """The time of a pass with a draft of k, including drafting, in plain passes.

    draft_cost: the time to draft one token, in plain passes.
    """
    return cost(k + 1) / cost(1) + k * draft_cost


def speedup(alpha: float, k: int, cost: Cost, draft_cost: float) -> float:
    """Tokens per time relative to plain decoding: E(k)·c(1) / (c(k+1) + k·draft_cost·c(1))."""
    return expected_tokens(alpha, k) / relative_cost(k, cost, draft_cost)


def best_k(alpha: float, cost: Cost, draft_cost: float, longest: int) -> int:
    """The k from 0 to `longest` with the greatest speedup, the smallest of equals.

    Every k is considered: real cost curves jump, and hill climbing would stop before a cheap width.
    """
    return max(range(longest + 1), key=lambda k: speedup(alpha, k, cost, draft_cost))
