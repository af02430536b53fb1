"""Which drafted tokens are accepted, and which token follows. Pure functions of p, q and a generator.

Symbols are the papers': x the draft, k its length, p the target's distributions, q the draft's, tau
the number of accepted tokens, P_i the running acceptance of the block rule, u uniforms. Every rule
leaves the output distributed as p, whatever q the draft was drawn from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from app.engine.sampling import draw_index
from proposers.base import Distribution

Rows = NDArray[np.float64]
Rule = Callable[[Sequence[int], Rows, Rows, np.random.Generator], list[int]]


def match_chain(draft: Sequence[int], sample: Callable[[int], int]) -> list[int]:
    """Verify a deterministic draft: q is 1 at each token, so token i is accepted with probability p(x_i).

    Sampling y from p, and keeping the draft while y is its next token, is the token rule of Leviathan et al.
    (2023, algorithm 1) for this q: x is accepted with p(x), and a y that differs is distributed as (p - q)+
    normalised. It uses one uniform for each committed token, as plain decoding does, so a seed gives the same
    reply whatever was drafted.

    sample(i) draws from the target's distribution after draft[:i]. Returns 1 to k + 1 tokens.
    """
    committed: list[int] = []
    for index, drafted in enumerate(draft):
        token = sample(index)
        committed.append(token)
        if token != drafted:
            return committed
    committed.append(sample(len(draft)))
    return committed


def match_tree(
    tokens: Sequence[int], parents: Sequence[int], sample: Callable[[Sequence[int]], int]
) -> tuple[list[int], list[int]]:
    """Verify a tree of deterministic guesses: move to a child as long as the target draws its token.

    At a node with children S one of them is accepted with probability p(S), the most that any rule can
    achieve for a given S. Each committed token is a draw from p, and a seed gives the same reply whatever was
    drafted, as with `match_chain`.

    tokens, parents: see Proposal. sample(path) draws from the target's distribution after these nodes, listed
    from the root down. Returns the committed tokens, and the nodes of the accepted ones.
    """
    committed: list[int] = []
    path: list[int] = []
    while True:
        last = path[-1] if path else -1
        token = sample(path)
        committed.append(token)
        children = (node for node, parent in enumerate(parents) if parent == last and tokens[node] == token)
        found = next(children, None)
        if found is None:
            return committed, path
        path.append(found)


def token_rule(draft: Sequence[int], q: Rows, p: Rows, rng: np.random.Generator) -> list[int]:
    """Leviathan et al. 2023, algorithm 1; Chen et al. 2023.

    draft: k token ids, each drawn from its row of q. q: (k, V). p: (k + 1, V). Returns the committed
    tokens, 1 to k + 1.
    """
    committed: list[int] = []
    for index, token in enumerate(draft):
        if rng.random() < _ratio(p[index, token], q[index, token]):
            committed.append(token)
            continue
        residual = np.maximum(p[index] - q[index], 0.0)
        committed.append(_draw_residual(residual, p[index], rng))
        return committed
    committed.append(draw_index(p[len(draft)], rng))
    return committed


def block_rule(draft: Sequence[int], q: Rows, p: Rows, rng: np.random.Generator) -> list[int]:
    """Block verification (Sun et al. 2024, arXiv 2403.10444, algorithm 2).

    It judges the draft as a whole, and accepts at least as many tokens as the token rule. Arguments and
    result are those of `token_rule`.
    """
    k = len(draft)
    running = [1.0]
    for index, token in enumerate(draft):
        running.append(min(1.0, running[-1] * _ratio(p[index, token], q[index, token])))
    weights = np.array(running[1:k])[:, None]
    excess = np.maximum(weights * p[1:k] - q[1:k], 0.0).sum(axis=1).tolist()
    accepted = 0
    for index in range(1, k + 1):
        if index < k:
            denominator = excess[index - 1] + 1.0 - running[index]
            # 0/0 only if P_i = 1 and p = q: then the next position is certainly accepted.
            h = excess[index - 1] / denominator if denominator > 0.0 else 1.0
        else:
            h = running[k]
        if rng.random() < h:
            accepted = index
    committed = list(draft[:accepted])
    if accepted == k:
        committed.append(draw_index(p[k], rng))
        return committed
    residual = np.maximum(running[accepted] * p[accepted] - q[accepted], 0.0)
    committed.append(_draw_residual(residual, p[accepted], rng))
    return committed


def _ratio(p: float, q: float) -> float:
    """p/q at a drafted token. A q of 0 cannot have been drawn; no outcome depends on it."""
    return p / q if q > 0.0 else 1.0


def _draw_residual(residual: Rows, p: Rows, rng: np.random.Generator) -> int:
    """A token of a residual, or of p if rounding left nothing of it, as then p and q were equal."""
    return draw_index(residual if residual.any() else p, rng)


def verify_sampled(
    rule: Rule,
    draft: Sequence[int],
    q: Sequence[Distribution],
    p: Sequence[Distribution],
    rng: np.random.Generator,
) -> list[int]:
    """Apply a rule to sparse distributions, on the union of their supports.

    q has k entries, p has k + 1. The rule's dense rows are a few hundred wide for a vocabulary of 150,000.
    """
    rows = (*q, *p)
    vocabulary, columns = np.unique(np.concatenate([row.tokens for row in rows]), return_inverse=True)
    owners = np.repeat(np.arange(len(rows)), [len(row.tokens) for row in rows])
    dense = np.zeros((len(rows), len(vocabulary)))
    dense[owners, columns] = np.concatenate([row.probabilities for row in rows])
    compact = np.searchsorted(vocabulary, draft).tolist()
    committed = rule(compact, dense[: len(q)], dense[len(q) :], rng)
    return [int(vocabulary[token]) for token in committed]
