"""What theory expects of speculation: tokens of a pass, speedup, and the draft length that is best.

Pure, and free of numpy and llama.cpp, so that the screen can compute with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

# Seconds of a pass by its width, or any unit of time.
Cost = Callable[[int], float]


def expected_tokens(alpha: float, k: int) -> float:
    """Tokens that a pass with a draft of k commits on average, where each is accepted with odds alpha.

    Equation 1 of Leviathan, Kalman and Matias 2023 ("Fast inference from transformers via speculative
    decoding"): (1 - α^(k+1)) / (1 - α), here as the sum 1 + α + … + α^k, which holds at α = 1 too.
    """
    return expected_tokens_by_position([alpha] * k)


def expected_tokens_by_position(hazards: Sequence[float]) -> float:
    """The same where the odds differ by position: 1 + the sum over j of the product of the first j.

    hazards: for position 1, 2, …, the odds of acceptance, given that all before it were accepted.
    """
    total = survival = 1.0
    for hazard in hazards:
        survival *= hazard
        total += survival
    return total


def relative_cost(k: int, cost: Cost, draft_cost: float) -> float:
    """What a pass with a draft of k takes, drafting it included, in plain passes.

    draft_cost: what it takes to draft one token, in plain passes.
    """
    return cost(k + 1) / cost(1) + k * draft_cost


def speedup(alpha: float, k: int, cost: Cost, draft_cost: float) -> float:
    """Tokens per time over those of plain decoding: E(k)·c(1) / (c(k+1) + k·draft_cost·c(1))."""
    return expected_tokens(alpha, k) / relative_cost(k, cost, draft_cost)


def best_k(alpha: float, cost: Cost, draft_cost: float, longest: int) -> int:
    """The k from 0 to `longest` with the greatest speedup, the shortest of equals.

    Every k is looked at: real cost curves jump, and a climb would stop before a cheap width.
    """
    return max(range(longest + 1), key=lambda k: speedup(alpha, k, cost, draft_cost))
