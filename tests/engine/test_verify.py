"""Verification is lossless: shown by enumerating every outcome of the code that runs.

For tiny vocabularies the draft's draws and the rule's own are followed on all their branches. The
output, made k + 1 tokens long by plain sampling where it is shorter, must be distributed as plain
sampling is: Σ over drafts P(draft) P(output | draft) = Π p, to 1e-12. p and q hang on the prefix.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from app.engine.sampling import Sampler, draw_index
from app.engine.settings import Sampling
from app.engine.verify import Rows, Rule, block_rule, match_chain, match_tree, token_rule, verify_sampled
from proposers.base import Distribution
from tests.enumeration import Law, Tokens, law, outcomes

EXACT = 1e-12
# A wrong rule must miss by much more than rounding does.
CAUGHT = 1e-3

# The next token's distribution (V,) after each prefix.
Tree = dict[Tokens, Rows]
Run = Callable[[np.random.Generator], Tokens]

RULES = [token_rule, block_rule]
KINDS = ["dense", "zeros", "ties", "equal", "nearly equal", "disjoint", "one-hot q", "one-hot p", "mixed"]
SIZES = [(v, k) for v in (2, 3, 4) for k in (0, 1, 2, 3)]


def prefixes(v: int, longest: int) -> Iterator[Tokens]:
    for length in range(longest + 1):
        yield from itertools.product(range(v), repeat=length)


def random_row(v: int, rng: np.random.Generator, kind: str = "dense") -> Rows:
    if kind == "ties":
        weights = rng.integers(1, 3, v).astype(float)
    elif kind == "one-hot":
        weights = np.eye(v)[rng.integers(v)]
    else:
        weights = rng.exponential(size=v) ** 2
    if kind == "zeros":
        weights *= rng.random(v) < 0.6
        weights[rng.integers(v)] += 0.1
    return np.asarray(weights / weights.sum())


def pair(v: int, kind: str, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """p and q of one prefix."""
    if kind == "mixed":
        kind = str(rng.choice(KINDS[:-1]))
    if kind == "one-hot q":
        return random_row(v, rng), random_row(v, rng, "one-hot")
    if kind == "one-hot p":
        return random_row(v, rng, "one-hot"), random_row(v, rng)
    p = random_row(v, rng, kind)
    if kind == "equal":
        return p, p
    if kind == "nearly equal":
        q = p * (1 + 1e-15 * rng.standard_normal(v))
        return p, np.asarray(q / q.sum())
    q = random_row(v, rng, kind)
    if kind == "disjoint":
        border = int(rng.integers(1, v))
        p, q = p * (np.arange(v) < border), q * (np.arange(v) >= border)
        p, q = p / p.sum(), q / q.sum()
    return p, q


def trees(v: int, k: int, kind: str, seed: int) -> tuple[Tree, Tree]:
    """p after every prefix of up to k tokens, and q."""
    rng = np.random.default_rng([seed, v, k, KINDS.index(kind)])
    pairs = {prefix: pair(v, kind, rng) for prefix in prefixes(v, k)}
    return {prefix: p for prefix, (p, _) in pairs.items()}, {prefix: q for prefix, (_, q) in pairs.items()}


def rows_along(tree: Tree, draft: Tokens, count: int) -> Rows:
    """The first `count` rows (count, V) that a draft meets."""
    v = len(tree[()])
    return np.array([tree[draft[:index]] for index in range(count)]).reshape(count, v)


def speculated(
    rule: Rule, p: Tree, q: Tree, k: int, stop: Callable[[Rows, int], bool] = lambda row, token: False
) -> Run:
    """One pass: draw a draft of k from q, or up to where stop(q_j, x_j) ends it before x_j; verify it."""

    def run(rng: np.random.Generator) -> Tokens:
        draft: Tokens = ()
        while len(draft) < k:
            token = draw_index(q[draft], rng)
            if stop(q[draft], token):
                break
            draft += (token,)
        count = len(draft)
        return tuple(rule(draft, rows_along(q, draft, count), rows_along(p, draft, count + 1), rng))

    return run


def speculated_while_sure(rule: Rule, p: Tree, q: Tree, k: int, threshold: float) -> Run:
    """One pass: draw a draft of k from q, or up to the token that takes its chance below; verify it."""

    def run(rng: np.random.Generator) -> Tokens:
        draft: Tokens = ()
        sure = 1.0
        while len(draft) < k and sure >= threshold:
            token = draw_index(q[draft], rng)
            sure *= float(q[draft][token])
            draft += (token,)
        count = len(draft)
        return tuple(rule(draft, rows_along(q, draft, count), rows_along(p, draft, count + 1), rng))

    return run


def looked_up(draft: Tokens, p: Tree) -> Run:
    """One pass over a draft that is given."""
    return lambda rng: tuple(match_chain(draft, lambda index: draw_index(p[draft[:index]], rng)))


def guessed_tree(tokens: Tokens, parents: Tokens, p: Tree) -> Run:
    """One pass over a tree that is given."""

    def run(rng: np.random.Generator) -> Tokens:
        committed, path = match_tree(
            tokens, parents, lambda path: draw_index(p[tuple(tokens[node] for node in path)], rng)
        )
        assert [tokens[node] for node in path] == committed[:-1]
        return tuple(committed)

    return run


def random_shape(v: int, nodes: int, depth: int, rng: np.random.Generator) -> tuple[Tokens, Tokens]:
    """Tokens and parents of a tree whose siblings differ."""
    tokens: list[int] = []
    parents: list[int] = []
    depths = {-1: 0}
    taken: set[tuple[int, int]] = set()
    while len(tokens) < nodes:
        parent, token = int(rng.integers(-1, len(tokens))), int(rng.integers(v))
        if (parent, token) in taken or depths[parent] == depth:
            continue
        taken.add((parent, token))
        depths[len(tokens)] = depths[parent] + 1
        tokens.append(token)
        parents.append(parent)
    return tuple(tokens), tuple(parents)


def deviation(committed: Law, p: Tree, k: int) -> float:
    """Largest distance between the law of k + 1 tokens that begin with a pass's and plain sampling."""
    v = len(p[()])
    extended: defaultdict[Tokens, float] = defaultdict(float)
    for tokens, probability in committed.items():
        assert 1 <= len(tokens) <= k + 1, "a pass commits 1 to k + 1 tokens"
        for rest in itertools.product(range(v), repeat=k + 1 - len(tokens)):
            extended[tokens + rest] += probability * chance(p, tokens + rest, len(tokens))
    return max(
        abs(extended[tokens] - chance(p, tokens)) for tokens in itertools.product(range(v), repeat=k + 1)
    )


def chance(p: Tree, tokens: Tokens, start: int = 0) -> float:
    """Probability that plain sampling continues tokens[:start] with the rest."""
    product = 1.0
    for index in range(start, len(tokens)):
        product *= float(p[tokens[:index]][tokens[index]])
    return product


def expected_accepted(committed: Law) -> float:
    return sum(probability * (len(tokens) - 1) for tokens, probability in committed.items())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("v", "k"), SIZES)
def test_rules_leave_the_output_distributed_as_p(v: int, k: int, kind: str) -> None:
    """Else speculation changes what the model says; and block verification is to accept no less."""
    for seed in range(8 if v**k < 30 else 4):
        p, q = trees(v, k, kind, seed)
        by_token, by_block = (law(speculated(rule, p, q, k)) for rule in RULES)
        assert deviation(by_token, p, k) < EXACT
        assert deviation(by_block, p, k) < EXACT
        assert expected_accepted(by_block) >= expected_accepted(by_token) - EXACT
        if kind == "one-hot q":
            for tokens in by_block.keys() | by_token.keys():
                assert abs(by_block.get(tokens, 0.0) - by_token.get(tokens, 0.0)) < EXACT
        if kind == "equal":
            assert expected_accepted(by_token) == pytest.approx(k, abs=EXACT)
            assert expected_accepted(by_block) == pytest.approx(k, abs=EXACT)


@pytest.mark.parametrize("kind", ["dense", "zeros", "ties", "one-hot p", "mixed"])
@pytest.mark.parametrize(("v", "k"), SIZES)
def test_every_deterministic_draft_leaves_the_output_distributed_as_p(v: int, k: int, kind: str) -> None:
    """Else a lookup that copies a likely or an absurd continuation pulls the reply towards it."""
    p, _ = trees(v, k, kind, 0)
    for draft in itertools.product(range(v), repeat=k):
        committed = law(looked_up(draft, p))
        assert deviation(committed, p, k) < EXACT
        survival = [chance(p, draft[:length]) for length in range(1, k + 1)]
        assert expected_accepted(committed) == pytest.approx(sum(survival), abs=EXACT)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", RULES)
def test_sparse_supports_lose_nothing(rule: Rule, kind: str) -> None:
    """Else tokens that only the draft or only the target keeps are mixed up with others' ids."""
    ids = np.array([151_000, 3, 40_000, 7])
    sampler = Sampler(Sampling())

    def sparse(row: Rows) -> Distribution:
        """As the samplers give it: likeliest first, without the tokens that were cut."""
        order = np.argsort(-row, kind="stable")
        order = order[row[order] > 0]
        return Distribution(ids[: len(row)][order], row[order])

    for (v, k), seed in itertools.product([(2, 0), (2, 3), (3, 2), (4, 1), (4, 2)], range(2)):
        index_of = {int(token): index for index, token in enumerate(ids[:v])}
        p, q = trees(v, k, kind, seed)
        sparse_p, sparse_q = ({prefix: sparse(row) for prefix, row in tree.items()} for tree in (p, q))

        def run(
            rng: np.random.Generator,
            k: int = k,
            index_of: dict[int, int] = index_of,
            sparse_p: dict[Tokens, Distribution] = sparse_p,
            sparse_q: dict[Tokens, Distribution] = sparse_q,
        ) -> Tokens:
            draft: Tokens = ()
            while len(draft) < k:
                draft += (index_of[sampler.draw(sparse_q[draft], rng)],)
            met_q = [sparse_q[draft[:index]] for index in range(k)]
            met_p = [sparse_p[draft[:index]] for index in range(k + 1)]
            drawn = [int(ids[index]) for index in draft]
            return tuple(index_of[token] for token in verify_sampled(rule, drawn, met_q, met_p, rng))

        assert deviation(law(run), p, k) < EXACT


def test_the_papers_toy_accepts_as_many_as_the_paper_says() -> None:
    """Else a rule is lossless but slower than the published one (Sun et al. 2024, section 3)."""
    p = {prefix: np.array([1, 2]) / 3 for prefix in prefixes(2, 2)}
    q = {prefix: np.array([2, 1]) / 3 for prefix in prefixes(2, 2)}
    assert expected_accepted(law(speculated(token_rule, p, q, 2))) == pytest.approx(10 / 9, abs=EXACT)
    assert expected_accepted(law(speculated(block_rule, p, q, 2))) == pytest.approx(11 / 9, abs=EXACT)


def test_a_shared_seed_gives_the_plain_reply_whatever_was_looked_up() -> None:
    """Else the seed shown with a reply does not give it again once lookup found other matches."""
    p, _ = trees(4, 0, "dense", 5)

    def reply(drafts: Callable[[int], Sequence[int]]) -> list[int]:
        rng = np.random.default_rng(11)
        tokens: list[int] = []
        while len(tokens) < 60:
            tokens += match_chain(drafts(len(tokens)), lambda _: draw_index(p[()], rng))
        return tokens[:60]

    plain = reply(lambda _: ())
    assert reply(lambda place: plain[place : place + 3]) == plain
    assert reply(lambda place: [place % 4] * (place % 5)) == plain


@pytest.mark.parametrize("rule", RULES)
def test_stopping_a_draft_by_what_came_before_the_token_is_lossless(rule: Rule) -> None:
    """Else a draft that stops where its model is unsure changes what the target says."""
    for seed in range(4):
        p, q = trees(3, 3, "dense", seed)
        run = speculated(rule, p, q, 3, lambda row, _: bool(row.max() < 0.7))
        assert deviation(law(run), p, 3) < EXACT


@pytest.mark.parametrize("threshold", [0.2, 0.4, 0.6])
@pytest.mark.parametrize("rule", RULES)
def test_ending_a_draft_behind_an_unsure_token_is_lossless(rule: Rule, threshold: float) -> None:
    """Else a draft model that goes on while it is sure changes what the target says: block verification's
    proof is for drafts of one length, and here the length hangs on the draft."""
    for kind, seed in itertools.product(["dense", "zeros", "mixed"], range(3)):
        p, q = trees(3, 3, kind, seed)
        committed = law(speculated_while_sure(rule, p, q, 3, threshold))
        assert deviation(committed, p, 3) < EXACT


# From here on: the checker itself. A rule that is wrong must be seen to be wrong.


@pytest.mark.parametrize("rule", RULES)
def test_checker_catches_a_token_dropped_for_its_own_probability(rule: Rule) -> None:
    """Else the proofs above would pass for the best-known way to be almost lossless."""
    p, q = trees(3, 2, "dense", 0)
    run = speculated(rule, p, q, 2, lambda row, token: bool(row[token] < 0.4))
    assert deviation(law(run), p, 2) > CAUGHT


def always_accept(draft: Sequence[int], q: Rows, p: Rows, rng: np.random.Generator) -> list[int]:
    return [*draft, draw_index(p[len(draft)], rng)]


def corrected_from_p(draft: Sequence[int], q: Rows, p: Rows, rng: np.random.Generator) -> list[int]:
    """The token rule with its correction drawn from p in place of the residual."""
    for index, token in enumerate(draft):
        if not rng.random() < p[index, token] / q[index, token]:
            return [*draft[:index], draw_index(p[index], rng)]
    return [*draft, draw_index(p[len(draft)], rng)]


def block_without_weight(draft: Sequence[int], q: Rows, p: Rows, rng: np.random.Generator) -> list[int]:
    """The block rule's acceptance with the token rule's residual."""
    committed = block_rule(draft, q, p, rng)
    index = len(committed) - 1
    if index < len(draft):
        residual = np.maximum(p[index] - q[index], 0.0)
        committed[-1] = draw_index(residual if residual.any() else p[index], rng)
    return committed


def one_token_early(draft: Sequence[int], q: Rows, p: Rows, rng: np.random.Generator) -> list[int]:
    """Lets the first drafted token through unseen, verifies the rest."""
    return [*draft[:1], *token_rule(draft[1:], q[1:], p[1:], rng)]


@pytest.mark.parametrize("rule", [always_accept, corrected_from_p, block_without_weight, one_token_early])
def test_checker_catches_wrong_rules(rule: Rule) -> None:
    """Else a proof above may hold for rules that are not lossless."""
    p, q = trees(3, 2, "dense", 0)
    assert deviation(law(speculated(rule, p, q, 2)), p, 2) > CAUGHT


def test_enumeration_follows_every_branch_once() -> None:
    """Else the proofs above rest on outcomes that were left out or counted twice."""
    weights = np.array([0.0, 0.5, 0.0, 0.2, 0.3, 0.0])

    def run(rng: np.random.Generator) -> tuple[int, int, bool]:
        first = draw_index(weights, rng)
        return first, draw_index(weights, rng) if first == 4 else -1, rng.random() < 0.25

    seen = list(outcomes(run))
    assert len({outcome for outcome, _ in seen}) == len(seen) == 10
    for (first, second, low), probability in seen:
        expected = weights[first] * (weights[second] if first == 4 else 1.0) * (0.25 if low else 0.75)
        assert probability == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("kind", ["dense", "zeros", "one-hot p", "mixed"])
@pytest.mark.parametrize("nodes", range(1, 8))
def test_a_tree_leaves_the_output_distributed_as_p(nodes: int, kind: str) -> None:
    """Else a branch that was guessed would be likelier for being guessed."""
    for seed in range(6):
        rng = np.random.default_rng([seed, nodes])
        tokens, parents = random_shape(3, nodes, 3, rng)
        p, _ = trees(3, 3, kind, seed)
        committed = law(guessed_tree(tokens, parents, p))
        assert deviation(committed, p, 3) < EXACT
        # At a node with the children S one stands with probability p(S).
        children = {token for token, parent in zip(tokens, parents, strict=True) if parent == -1}
        stands = sum(weight for run, weight in committed.items() if len(run) > 1)
        assert abs(stands - sum(p[()][token] for token in children)) < EXACT


def test_a_tree_rule_that_prefers_a_branch_is_caught() -> None:
    """Else the test above would pass whatever the rule."""
    p, _ = trees(3, 2, "dense", 1)

    def sticky(rng: np.random.Generator) -> Tokens:
        draws = [draw_index(p[()], rng), draw_index(p[()], rng)]
        first = 0 if 0 in draws else draws[0]
        return (first, draw_index(p[(first,)], rng)) if first == 0 else (first,)

    assert deviation(law(sticky), p, 2) > CAUGHT
