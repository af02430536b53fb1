"""The loop on tiny models: caches in step, ends, reuse across turns, swaps, cancellation."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from app.engine.control import Controller
from app.engine.events import Finished, Pass, Prefill, Request
from app.engine.loop import Engine
from app.engine.settings import Sampling
from app.errors import ContextError
from app.llama.context import Context
from app.llama.model import Model
from app.llama.settings import ContextSettings
from proposers.base import Proposal, Proposer, RowSampler
from proposers.draft import Draft
from proposers.lookup import Lookup
from proposers.off import Off
from tests.engine.replies import finish, take_turns
from tests.tiny import write_tiny

GREEDY = Sampling(temperature=0.0)
WARM = Sampling(temperature=0.9, repeat_penalty=1.05)
SETTINGS = ContextSettings(threads=1, chunk=64, exact=True)
PROMPT = tuple([60, 61, 62, 63, 64, 65] * 4)


class Bench:
    """A target, a draft that agrees in part, and engines over them."""

    def __init__(self, folder: Path, length: int = 512) -> None:
        self.models = [
            Model(write_tiny(folder / "target.gguf", end_scale=0.0)),
            Model(write_tiny(folder / "draft.gguf", noise=0.1, end_scale=0.0)),
        ]
        self.target, self.draft, self.fork = (
            Context(model, length, SETTINGS) for model in (*self.models, self.models[0])
        )

    def close(self) -> None:
        for context in (self.target, self.draft, self.fork):
            context.close()
        for model in self.models:
            model.close()

    def proposers(self) -> dict[str, Proposer]:
        return {
            "off": Off(),
            "lookup": Lookup(),
            "draft": Draft(self.draft),
            "fork": Draft(self.fork, "skip"),
        }

    def engine(self, proposer: Proposer) -> Engine:
        self.target.rollback(0)
        return Engine(self.target, (proposer,), Controller())


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("loop"))
    yield made
    made.close()


def request(prompt: tuple[int, ...] = PROMPT, sampling: Sampling = GREEDY, **other: int | None) -> Request:
    return Request(prompt, sampling, seed=7, **{"max_tokens": 96, "k": 4, **other})  # type: ignore[arg-type]


@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "warm"])
def test_replies_that_take_turns_are_those_that_each_makes_alone(bench: Bench, sampling: Sampling) -> None:
    """Lost otherwise: a comparison's replies, to another's cache, draws or drafts."""
    pool = bench.proposers()
    sets = [(pool[name],) for name in pool] + [(pool["lookup"], pool["draft"])]
    wanted = request(sampling=sampling)
    base = bench.engine(Off())
    alone = [finish(base.fork(each), wanted) for each in sets]
    for seed in range(3):
        together = take_turns([base.fork(each) for each in sets], wanted, random.Random(seed))
        for one, other in zip(alone, together, strict=True):
            assert (one.token_ids, one.origins) == (other.token_ids, other.origins)
            assert (one.drafted, one.k_history) == (other.drafted, other.k_history)


@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "warm"])
@pytest.mark.parametrize("name", ["off", "lookup", "draft", "fork"])
def test_caches_equal_the_history_after_every_pass(bench: Bench, name: str, sampling: Sampling) -> None:
    """A cache out of step answers from tokens that were never said."""
    proposer = bench.proposers()[name]
    engine = bench.engine(proposer)
    said: list[int] = list(PROMPT)

    def check(entry: Pass) -> None:
        said.extend(entry.tokens)
        assert list(engine.cached) == said[:-1]
        if isinstance(proposer, Draft):
            # As the loop does before the next draft.
            proposer.observe(said)
            assert list(proposer.cached) == said[: len(proposer.cached)]
            assert len(proposer.cached) < len(said)
            assert not entry.drafted or len(said) - 2 <= len(proposer.cached)

    for k in (1, 3, 8):
        said[:] = PROMPT
        finished = finish(engine, request(sampling=sampling, k=k), check)
        assert tuple(said) == PROMPT + finished.token_ids


@pytest.mark.parametrize("k", [1, 2, 4, 8, 16, None])
@pytest.mark.parametrize("name", ["lookup", "draft", "fork"])
def test_the_greedy_stream_is_the_same_whatever_is_drafted(bench: Bench, name: str, k: int | None) -> None:
    """Speculation may not change a token."""
    plain = finish(bench.engine(Off()), request())
    assert finish(bench.engine(bench.proposers()[name]), request(k=k)).token_ids == plain.token_ids


def test_a_seed_gives_the_same_reply_with_and_without_lookup(bench: Bench) -> None:
    """A deterministic draft costs no randomness: the seed shown gives the reply again."""
    plain = finish(bench.engine(Off()), request(sampling=WARM))
    assert finish(bench.engine(Lookup()), request(sampling=WARM, k=5)).token_ids == plain.token_ids


def test_proposers_swapped_in_mid_reply_change_no_token(bench: Bench) -> None:
    """Toggling is free: the stream goes on, and a proposer switched on late catches up."""
    plain = finish(bench.engine(Off()), request())
    pool = list(bench.proposers().values())
    for seed in range(5):
        rng = random.Random(seed)
        engine = bench.engine(Off())
        seen: set[str] = set()

        def swap(
            entry: Pass, engine: Engine = engine, seen: set[str] = seen, rng: random.Random = rng
        ) -> None:
            seen.add(entry.proposer)
            engine.sequence.proposers = (rng.choice(pool),)

        assert finish(engine, request(), swap).token_ids == plain.token_ids
        assert len(seen) > 2


@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "warm"])
def test_a_draft_that_is_the_target_is_always_accepted(bench: Bench, sampling: Sampling) -> None:
    """A draft's cache that is cut one token too far starves acceptance while outputs look fine."""
    finished = finish(bench.engine(Draft(bench.fork)), request(sampling=sampling, max_tokens=400))
    assert finished.drafted > 300
    assert finished.accepted == finished.drafted


@pytest.mark.parametrize("name", ["off", "lookup", "draft"])
def test_turn_two_reads_only_what_is_new(bench: Bench, name: str) -> None:
    """Prompt and reply of turn one are in the cache already; reading them again is the wait people feel."""
    engine = bench.engine(bench.proposers()[name])
    first = finish(engine, request())
    second = (*PROMPT, *first.token_ids, 70, 71, 72)
    finished = finish(engine, request(second))
    assert finished.cached_tokens == len(PROMPT) + len(first.token_ids) - 1
    assert finished.token_ids == finish(bench.engine(Off()), request(second)).token_ids


@pytest.mark.parametrize("name", ["lookup", "draft", "fork"])
def test_an_edited_history_is_followed(bench: Bench, name: str) -> None:
    """An index or a cache that outlives a trim of the history drafts from what was deleted."""
    proposer = bench.proposers()[name]
    engine = bench.engine(proposer)
    finish(engine, request())
    edited = (*PROMPT[:10], 99, 98, *PROMPT[:10])
    finished = finish(engine, request(edited))
    assert finished.token_ids == finish(bench.engine(Off()), request(edited)).token_ids
    assert finished.cached_tokens == 10


@pytest.mark.parametrize("name", ["off", "lookup", "draft", "fork"])
def test_a_full_context_ends_the_reply_without_a_crash(tmp_path: Path, name: str) -> None:
    """The last slots are where look-ahead crashes; every length of room is tried."""
    small = Bench(tmp_path, length=64)
    try:
        for length in range(small.target.capacity - 9, small.target.capacity + 1):
            prompt = tuple([60, 61, 62, 63] * 32)[:length]
            finished = finish(small.engine(small.proposers()[name]), request(prompt, k=8))
            assert finished.reason == "context"
            assert len(finished.token_ids) == small.target.capacity - length + 1
        with pytest.raises(ContextError, match=r"has 65 tokens and the context holds"):
            finish(small.engine(Off()), request(tuple(range(60, 125))))
    finally:
        small.close()


@pytest.mark.parametrize("name", ["off", "lookup", "draft", "fork"])
@pytest.mark.parametrize("wanted", [1, 2, 3, 5, 8, 13])
def test_max_tokens_is_exact(bench: Bench, name: str, wanted: int) -> None:
    """A limit that is missed by a draft's length is not a limit."""
    finished = finish(bench.engine(bench.proposers()[name]), request(max_tokens=wanted, k=8))
    assert finished.reason == "length"
    assert len(finished.token_ids) == wanted
    assert finished.trimmed == 0


def test_an_end_token_inside_a_draft_ends_the_reply_there(tmp_path: Path) -> None:
    """Nothing after the end may be shown, kept in the cache, or counted as the reply's."""
    with (
        Model(write_tiny(tmp_path / "m.gguf", end_scale=1.5)) as model,
        Context(model, 256, SETTINGS) as target,
        Context(model, 256, SETTINGS) as fork,
    ):
        ended = 0
        for seed in range(30):
            wanted = Request(PROMPT, WARM, seed, max_tokens=200, k=8)
            engine = Engine(target, (Draft(fork),), Controller())
            finished = finish(engine, wanted)
            ids = finished.token_ids
            assert len(ids) == finished.passes + finished.accepted - finished.trimmed
            assert not set(ids[:-1]) & model.end_tokens
            assert tuple(engine.cached) == (*PROMPT, *ids)[:-1]
            assert target.length == len(PROMPT) + len(ids) - 1
            if finished.reason == "stop":
                assert ids[-1] in model.end_tokens
                ended += finished.trimmed > 0
        assert ended > 0


def test_a_stop_string_inside_a_draft_is_cut_from_text_tokens_and_cache(bench: Bench) -> None:
    """Text that was to end before the stop string, and a cache that still has it, cost the next turn."""
    plain = finish(bench.engine(Off()), request())
    stop = plain.text[20:23]
    place = plain.text.index(stop)
    for name, proposer in bench.proposers().items():
        engine = bench.engine(proposer)
        finished = finish(engine, Request(PROMPT, GREEDY, 7, max_tokens=96, k=8, stop=(stop,)))
        assert finished.reason == "stop_string", name
        assert finished.text == plain.text[:place]
        assert plain.token_ids[: len(finished.token_ids)] == finished.token_ids
        assert tuple(engine.cached) == (*PROMPT, *finished.token_ids)[:-1]


def test_figures_reconcile(bench: Bench) -> None:
    """Figures on the panel that do not add up are not believed."""
    for proposer in bench.proposers().values():
        for k in (1, 4, None):
            passes: list[Pass] = []
            finished = finish(bench.engine(proposer), request(sampling=WARM, k=k), passes.append)
            assert finished.passes == len(passes) == len(finished.k_history)
            assert finished.drafted == sum(finished.k_history) == sum(len(one.drafted) for one in passes)
            assert finished.accepted == sum(finished.accepted_by_position)
            assert len(finished.token_ids) == finished.passes + finished.accepted - finished.trimmed
            assert finished.text == "".join(one.text for one in passes) + finished.rest
            origins = finished.origins
            assert origins.count("plain") == finished.k_history.count(0)
            assert origins.count(proposer.name) == finished.accepted
            tally = finished.by_proposer[proposer.name]
            assert (tally.passes, tally.drafted, tally.accepted) == (
                finished.passes,
                finished.drafted,
                finished.accepted,
            )


@pytest.mark.parametrize("name", ["off", "draft"])
def test_a_prefill_is_cancelled_and_nothing_is_lost(bench: Bench, name: str) -> None:
    """Esc that waits for the end of a long document's prefill is no Esc."""
    engine = bench.engine(bench.proposers()[name])
    long = tuple([60 + index % 90 for index in range(400)])
    seen: list[Prefill] = []
    bench.target.stop = lambda: len(seen) >= 3
    try:
        for event in engine.generate(request(long)):
            if isinstance(event, Prefill):
                seen.append(event)
            last = event
    finally:
        bench.target.stop = lambda: False
    assert isinstance(last, Finished)
    assert last.reason == "cancelled"
    assert last.token_ids == ()
    assert seen[-1].done == len(engine.cached) < len(long) - 1
    finished = finish(engine, request(long))
    assert finished.cached_tokens == seen[-1].done
    assert finished.token_ids == finish(bench.engine(Off()), request(long)).token_ids


def test_a_cancelled_reply_keeps_what_was_said(bench: Bench) -> None:
    """What came so far stays, in the text and in the cache."""
    engine = bench.engine(Lookup())
    passes: list[Pass] = []
    bench.target.stop = lambda: len(passes) >= 5
    try:
        finished = finish(engine, request(), passes.append)
    finally:
        bench.target.stop = lambda: False
    assert finished.reason == "cancelled"
    assert finished.token_ids == tuple(token for entry in passes for token in entry.tokens)
    assert tuple(engine.cached) == (*PROMPT, *finished.token_ids)[:-1]


def test_an_abandoned_reply_leaves_the_cache_in_step(bench: Bench) -> None:
    """A front end that stops listening must not spoil the next turn."""
    engine = bench.engine(Draft(bench.draft))
    events = engine.generate(request())
    said = list(PROMPT)
    for event in events:
        if isinstance(event, Pass):
            said.extend(event.tokens)
        if len(said) > len(PROMPT) + 12:
            break
    events.close()  # type: ignore[attr-defined]
    assert list(engine.cached) == said[:-1]
    finished = finish(engine, request())
    assert finished.token_ids == finish(bench.engine(Off()), request()).token_ids


class Guesser(Proposer):
    """Drafts what lookup copies, as a chain or with a branch that is wrong; keeps the hidden states that it
    is shown, by their positions."""

    name = "guesser"

    def __init__(self, branches: bool, needs_hidden: bool) -> None:
        self._lookup, self._branches, self.needs_hidden = Lookup(), branches, needs_hidden
        self.states: dict[int, NDArray[np.float32]] = {}

    def begin(self, history: Sequence[int]) -> None:
        self._lookup.begin(history)

    def propose(
        self,
        history: Sequence[int],
        limit: int,
        sampler: RowSampler,
        rng: np.random.Generator,
        threshold: float = 0.0,
    ) -> Proposal:
        copied = self._lookup.propose(history, min(limit, 3), sampler, rng).tokens
        if not self._branches or len(copied) < 2:
            return Proposal(copied)
        return Proposal(((copied[0] + 1) % 200, *copied), parents=(-1, -1, *range(1, len(copied))))

    def observe(self, history: Sequence[int], hidden: NDArray[np.float32] | None = None) -> None:
        assert (hidden is not None) == self.needs_hidden
        if hidden is not None:
            first = len(history) - 1 - len(hidden)
            self.states |= {first + index: state.copy() for index, state in enumerate(hidden)}


@pytest.mark.parametrize("branches", [False, True], ids=["chain", "tree"])
def test_hidden_states_are_those_of_the_committed_tokens(tmp_path: Path, branches: bool) -> None:
    """A head that reads another position's state drafts from a text that was never written."""
    settings = ContextSettings(threads=1, chunk=64, hidden_states=True, branches=2)
    with (
        Model(write_tiny(tmp_path / "m.gguf", end_scale=0.0)) as model,
        Context(model, 256, settings) as target,
        Context(model, 256, settings) as other,
    ):
        guesser = Guesser(branches, needs_hidden=True)
        finished = finish(Engine(target, (guesser,), Controller()), request(max_tokens=48))
        assert 0 < finished.accepted < finished.drafted
        said = [*PROMPT, *finished.token_ids]
        assert sorted(guesser.states) == list(range(len(PROMPT) - 1, len(said) - 1))
        rows = 16
        for start in range(0, len(said) - rows, rows):
            other.forward(said[start : start + rows], rows=rows)
            for index, state in enumerate(other.hidden_states(rows)):
                if start + index in guesser.states:
                    np.testing.assert_allclose(guesser.states[start + index], state, atol=2e-3)


@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "warm"])
def test_a_seed_gives_the_same_reply_with_a_tree(tmp_path: Path, sampling: Sampling) -> None:
    """The branch that stands must be in the cache, and no other."""
    # Rows after a tree are rounded differently; without flash attention by too little to change a draw.
    settings = ContextSettings(threads=1, chunk=64, branches=2, cache_type="f32", flash_attention="off")
    wanted = request(sampling=sampling, k=2, max_tokens=300)
    with (
        Model(write_tiny(tmp_path / "m.gguf", end_scale=0.0)) as model,
        Context(model, 512, settings) as target,
    ):
        plain = finish(Engine(target, (Off(),), Controller()), wanted)
        target.rollback(0)
        engine = Engine(target, (Guesser(True, needs_hidden=False),), Controller())
        said = list(PROMPT)

        def check(entry: Pass) -> None:
            said.extend(entry.tokens)
            assert list(engine.cached) == said[:-1]

        finished = finish(engine, wanted, check)
        assert finished.token_ids == plain.token_ids
        assert 0 < finished.accepted < finished.drafted
        assert "correction" in finished.origins and (sampling is WARM or "bonus" in finished.origins)
