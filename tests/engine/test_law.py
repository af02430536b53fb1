"""The law through the whole loop: replies are distributed as plain decoding's, whatever is drafted.

The plain distribution of four tokens is enumerated exactly, pass by pass over every prefix, and set
against thousands of replies of the engine by a G-test. The same test has to reject two broken loops.

The default run makes few replies of each case; `pytest -m long tests/engine/test_law.py` makes them all.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from _pytest.mark import ParameterSet
from scipy import stats

from app.engine.control import Controller, DraftOption, DraftPlan
from app.engine.costs import PassCosts
from app.engine.events import Finished, Request
from app.engine.loop import Engine
from app.engine.sampling import Sampler
from app.engine.settings import Sampling
from app.engine.verify import Rows, Rule, block_rule, token_rule
from app.llama.context import Context
from app.llama.model import Model
from app.llama.settings import ContextSettings
from proposers.base import Proposal, Proposer, RowSampler
from proposers.draft import Draft
from proposers.lookup import Lookup
from tests.architectures import write_architecture
from tests.tiny import write_tiny

# Replies of the default run and of the long one. Where memory cannot be cut, a reply costs more.
REPLIES = {"llama": (1_000, 20_000), "lfm2": (500, 3_000), "gemma3": (500, 3_000)}
# The broken loops are rejected with as few.
REJECTING = 500
TOKENS = 4
DRAFTED = 3
# A true law falls below this once in a hundred thousand runs; a broken one is far below.
REJECTED = 1e-5
SAMPLING = Sampling(
    temperature=0.9,
    top_k=5,
    top_p=0.9,
    min_p=0.0,
    repeat_penalty=1.1,
    frequency_penalty=0.1,
    presence_penalty=0.05,
)
SETTINGS = ContextSettings(threads=1, chunk=64)
TREES = ContextSettings(threads=1, chunk=64, branches=3)


class Unsteady(Controller):
    """Lets a draft end where its model is unsure, and fills passes up with throw-away positions."""

    def __init__(self) -> None:
        super().__init__()
        self.costs.calibrate(PassCosts(0, {1: 1.0, 2: 1.0}))

    @property
    def min_chance(self) -> float:
        return 0.0

    def choose(self, options: Sequence[DraftOption]) -> DraftPlan:
        return DraftPlan(0, min(DRAFTED, len(options[0].forecast)), 0.35, ())

    def padding(self, drafted: int, room: int) -> int:
        return min(drafted % 3, room)


def write(path: Path, architecture: str, noise: float) -> Path:
    if architecture == "llama":
        return write_tiny(path, noise=noise, end_scale=0.0)
    # A window that slides within these replies.
    return write_architecture(path, architecture, noise=noise, window=4)


class Lab:
    """A tiny target, a draft that agrees in part, and a prompt on which lookup is right at times."""

    def __init__(self, folder: Path, architecture: str = "llama") -> None:
        self.target_model = Model(write(folder / "target.gguf", architecture, 0.0))
        self.draft_model = Model(write(folder / "draft.gguf", architecture, 0.1))
        self.target = Context(self.target_model, 64, TREES if architecture == "llama" else SETTINGS)
        self.draft = Context(self.draft_model, 64, SETTINGS)
        self.prompt = max(self._prompts(), key=self._lookup_acceptance)
        self.expected = self._enumerate()

    def close(self) -> None:
        for part in (self.target, self.draft, self.target_model, self.draft_model):
            part.close()

    def distribution(self, history: Sequence[int]) -> dict[int, float]:
        """The next token's distribution after a history, by a forward over all of it."""
        self.target.rollback(0)
        row = self.target.forward(history, rows=1)
        found = Sampler(SAMPLING).distributions(row, history, ())[0]
        return dict(zip(found.tokens.tolist(), found.probabilities.tolist(), strict=True))

    def _prompts(self) -> Iterator[tuple[int, ...]]:
        rng = np.random.default_rng(1)
        for _ in range(5):
            first, second, last = rng.integers(3, 259, size=3).tolist()
            for token in range(3, 259):
                yield (first, second, token, last, first, second)

    def _lookup_acceptance(self, prompt: tuple[int, ...]) -> float:
        return self.distribution(prompt).get(prompt[2], 0.0)

    def _enumerate(self) -> dict[tuple[int, ...], float]:
        replies: dict[tuple[int, ...], float] = {(): 1.0}
        for _ in range(TOKENS):
            replies = {
                (*reply, token): weight * share
                for reply, weight in replies.items()
                for token, share in self.distribution([*self.prompt, *reply]).items()
            }
        return replies

    def reply(self, engine: Engine, seed: int) -> Finished:
        k = None if isinstance(engine.controller, Unsteady) else DRAFTED
        *_, finished = engine.generate(Request(self.prompt, SAMPLING, seed, max_tokens=TOKENS, k=k))
        assert isinstance(finished, Finished)
        return finished

    def counts(self, engine: Engine, seeds: range) -> Counter[tuple[int, ...]]:
        """How often each reply came."""
        return Counter(self.reply(engine, seed).token_ids for seed in seeds)

    def g_test(self, counts: Counter[tuple[int, ...]]) -> float:
        """p-value of these replies against the exact distribution."""
        replies = counts.total()
        if counts.keys() - self.expected.keys():
            return 0.0
        # Rare replies share a cell, as the chi-square approximation asks.
        cells = [(counts[reply], replies * share) for reply, share in self.expected.items()]
        large = [cell for cell in cells if cell[1] >= 5]
        rest = [cell for cell in cells if cell[1] < 5]
        large.append((sum(count for count, _ in rest), sum(share for _, share in rest)))
        statistic = 2 * sum(count * np.log(count / share) for count, share in large if count)
        return float(stats.chi2.sf(statistic, len(large) - 1))


class LikelyBranches(Proposer):
    """Guesses the second and third likeliest token, and the likeliest after the second: a tree that was
    fixed before anything was drawn."""

    name = "branches"

    def __init__(self, lab: Lab) -> None:
        self._start = len(lab.prompt)
        self._expected = lab.expected

    def _likeliest(self, said: Sequence[int]) -> list[int]:
        weights: Counter[int] = Counter()
        for reply, weight in self._expected.items():
            if reply[: len(said)] == tuple(said) and len(reply) > len(said):
                weights[reply[len(said)]] += weight  # type: ignore[assignment]
        return [token for token, _ in weights.most_common()]

    def propose(
        self,
        history: Sequence[int],
        limit: int,
        sampler: RowSampler,
        rng: np.random.Generator,
        threshold: float = 0.0,
    ) -> Proposal:
        said = history[self._start :]
        guesses = self._likeliest(said)[1:3]
        if not guesses:
            return Proposal()
        following = self._likeliest([*said, guesses[0]])[:1]
        parents = (-1,) * len(guesses) + (0,) * len(following)
        return Proposal((*guesses, *following), parents=parents)


@pytest.fixture(scope="module")
def lab_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Lab]]:
    """The lab of an architecture, made once."""
    with ExitStack() as stack:

        @cache
        def made(architecture: str) -> Lab:
            return stack.enter_context(closing(Lab(tmp_path_factory.mktemp("law"), architecture)))

        yield made


@pytest.fixture
def lab(lab_of: Callable[[str], Lab]) -> Lab:
    return lab_of("llama")


def make_engine(
    target: Context, *proposers: Proposer, rule: Rule = block_rule, controller: Controller | None = None
) -> Engine:
    target.rollback(0)
    return Engine(target, proposers, controller or Controller(), rule=rule)


CASES: dict[str, Callable[[Lab], Engine]] = {
    "lookup": lambda lab: make_engine(lab.target, Lookup()),
    "draft, block rule": lambda lab: make_engine(lab.target, Draft(lab.draft), rule=block_rule),
    "draft, token rule": lambda lab: make_engine(lab.target, Draft(lab.draft), rule=token_rule),
    "draft that stops, passes padded": lambda lab: make_engine(
        lab.target, Draft(lab.draft), controller=Unsteady()
    ),
    "a tree": lambda lab: make_engine(lab.target, LikelyBranches(lab)),
    "whichever is likelier": lambda lab: make_engine(lab.target, Lookup(), Draft(lab.draft)),
}


def forms() -> Iterator[ParameterSet]:
    """Each case on each architecture, with few replies and with all of them."""
    for architecture, (few, all_of_them) in REPLIES.items():
        for case in CASES if architecture == "llama" else ("lookup", "draft, block rule"):
            yield pytest.param(architecture, case, few)
            yield pytest.param(architecture, case, all_of_them, marks=pytest.mark.long)


@pytest.mark.parametrize(("architecture", "case", "replies"), [*forms()])
def test_replies_are_distributed_as_plain_decoding(
    lab_of: Callable[[str], Lab], architecture: str, case: str, replies: int
) -> None:
    """Otherwise speculation changes what the model says.

    On models whose memory cannot be cut, too: a state that is restored wrongly answers fluently, and from
    tokens that were rejected.
    """
    lab = lab_of(architecture)
    start = secrets.randbits(32)
    p_value = lab.g_test(lab.counts(CASES[case](lab), range(start, start + replies)))
    assert p_value > REJECTED, f"p = {p_value:g} with seeds from {start}"


def test_drafts_are_accepted_and_rejected(lab: Lab) -> None:
    """A law that no draft takes part in proves nothing."""
    for case in CASES.values():
        engine = case(lab)
        finished = [lab.reply(engine, seed) for seed in range(200)]
        accepted = sum(last.accepted for last in finished)
        drafted = sum(last.drafted for last in finished)
        assert 0.05 * drafted < accepted < 0.95 * drafted


def accept_always(draft: Sequence[int], q: Rows, p: Rows, rng: np.random.Generator) -> list[int]:
    """The broken rule: every drafted token stands."""
    return [*draft, token_rule((), q[:0], p[-1:], rng)[0]]


class Careless(Context):
    """The broken cache: a rollback leaves one token too many."""

    def rollback(self, length: int) -> None:
        super().rollback(min(length + 1, self.length) if length else 0)


def test_the_g_test_rejects_a_rule_that_always_accepts(lab: Lab) -> None:
    engine = make_engine(lab.target, Draft(lab.draft), rule=accept_always)
    start = secrets.randbits(32)
    p_value = lab.g_test(lab.counts(engine, range(start, start + REJECTING)))
    assert p_value < REJECTED


def test_the_g_test_rejects_a_tree_that_keeps_the_wrong_branch(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Context.commit

    def commit(context: Context, node: int) -> None:
        """The text goes on with one of the root's children, and the cache with another."""
        assert context._tree is not None
        children = [index for index, parent in enumerate(context._tree.parents) if parent == -1]
        others = [child for child in children if child != node]
        right(context, others[0] if node in children and others else node)

    monkeypatch.setattr(Context, "commit", commit)
    engine = make_engine(lab.target, LikelyBranches(lab))
    start = secrets.randbits(32)
    p_value = lab.g_test(lab.counts(engine, range(start, start + REJECTING)))
    assert p_value < REJECTED


def test_the_g_test_rejects_a_rollback_that_is_off_by_one(lab: Lab) -> None:
    with Careless(lab.target_model, 64, SETTINGS) as target:
        start = secrets.randbits(32)
        p_value = lab.g_test(
            lab.counts(make_engine(target, Draft(lab.draft)), range(start, start + REJECTING))
        )
    assert p_value < REJECTED
