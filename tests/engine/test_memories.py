"""The loop on models whose memory cannot simply be cut: the same chat as with any other."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from app.engine.control import ThroughputController
from app.engine.events import Finished, Pass, Prefill, Request
from app.engine.loop import Engine
from app.engine.settings import Sampling
from app.llama.context import Context
from app.llama.model import Model
from app.llama.settings import ContextSettings
from proposers.base import Proposer
from proposers.draft import Draft
from proposers.lookup import Lookup
from proposers.off import Off
from tests.architectures import KINDS, Kind

LENGTH = 900
GREEDY = Sampling(temperature=0.0)
PROMPT = tuple([60, 61, 62, 63, 64, 65] * 4)
LONG = tuple(60 + index * index % 90 for index in range(400))


class Bench:
    """A target, a draft of the same kind that agrees in part, one that always agrees, and engines."""

    def __init__(self, kind: Kind, opened: Callable[..., Model]) -> None:
        def made(noise: float, snapshots: int) -> Context:
            settings = ContextSettings(
                threads=1, chunk=64, exact=True, snapshots=snapshots, whole_window=kind.whole_window
            )
            return Context(opened(kind, noise), LENGTH, settings)

        self.target = made(0.0, kind.snapshots)
        self.draft, self.twin = made(0.1, 0), made(0.0, 0)

    def close(self) -> None:
        for context in (self.target, self.draft, self.twin):
            context.close()

    def proposers(self) -> dict[str, Proposer]:
        return {
            "off": Off(),
            "lookup": Lookup(),
            "draft": Draft(self.draft),
            "twin": Draft(self.twin, "skip"),
        }

    def engine(self, *proposers: Proposer) -> Engine:
        self.target.rollback(0)
        return Engine(self.target, proposers, ThroughputController())

    def plain(self, wanted: Request) -> tuple[int, ...]:
        """What a fresh cache would have said."""
        return finish(self.engine(Off()), wanted).token_ids


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind.name)
def bench(request: pytest.FixtureRequest, architectures: Callable[..., Model]) -> Iterator[Bench]:
    made = Bench(request.param, architectures)
    yield made
    made.close()


def request(prompt: tuple[int, ...] = PROMPT, k: int | None = 4, tokens: int = 48) -> Request:
    return Request(prompt, GREEDY, seed=7, max_tokens=tokens, k=k)


def finish(engine: Engine, wanted: Request, each: Callable[[Pass], None] = lambda entry: None) -> Finished:
    """Run a reply to its end, looking at each pass."""
    for event in engine.generate(wanted):
        if isinstance(event, Pass):
            each(event)
        elif isinstance(event, Finished):
            return event
    raise AssertionError("no Finished")


@pytest.mark.parametrize("prompt", [PROMPT, LONG], ids=["short", "long"])
def test_the_greedy_stream_is_the_same_whatever_is_drafted(bench: Bench, prompt: tuple[int, ...]) -> None:
    """Speculation may not change a token, whatever has to be read again for it."""
    plain = bench.plain(request(prompt))
    assert len(set(plain)) > 4
    rejected = 0
    for k in (1, 2, 4, 8, 16, None):
        for name in ("lookup", "draft", "twin"):
            proposer = bench.proposers()[name]
            finished = finish(bench.engine(proposer), request(prompt, k))
            assert finished.token_ids == plain, (name, k)
            rejected += finished.drafted - finished.accepted
            assert name != "twin" or finished.accepted == finished.drafted
        engine = bench.engine(Lookup(), Draft(bench.draft))
        assert finish(engine, request(prompt, k)).token_ids == plain, k
    assert rejected > 0


def test_proposers_and_lengths_that_change_in_mid_reply_change_no_token(bench: Bench) -> None:
    """Toggling is free, behind a rejection too."""
    plain = bench.plain(request(LONG, tokens=96))
    pool = list(bench.proposers().values())
    for seed in range(3):
        rng = random.Random(seed)
        engine = bench.engine(Off())

        def swap(_: Pass, engine: Engine = engine, rng: random.Random = rng) -> None:
            engine.proposers = (rng.choice(pool),)
            engine.k = rng.choice([0, 1, 3, 9, None])

        assert finish(engine, request(LONG, tokens=96), swap).token_ids == plain


@pytest.mark.parametrize("name", ["off", "lookup", "draft"])
def test_turns_edits_and_regenerations_answer_as_a_fresh_chat(bench: Bench, name: str) -> None:
    """What the cache kept of the last turn may save time, and change nothing."""
    engine = bench.engine(bench.proposers()[name])
    first = finish(engine, request(LONG))
    said = (*LONG, *first.token_ids)
    turns = {
        "regenerated": LONG,
        "gone on with": (*said, 70, 71, 72),
        "its end dropped": (*LONG[:-3], *first.token_ids[5:], 70, 71, 72),
        "the last turn edited": (*said, 80, 81),
        "edited early": (*LONG[:10], 99, 98, *LONG[:10]),
        "another chat": PROMPT,
        "continued": said,
    }
    found = {what: finish(engine, request(prompt)) for what, prompt in turns.items()}
    for what, prompt in turns.items():
        assert found[what].token_ids == bench.plain(request(prompt)), what
    assert found["regenerated"].cached_tokens == len(LONG) - 1
    # A rejected draft may have left its last tokens to be read again.
    assert found["gone on with"].cached_tokens >= len(LONG) - 1
    assert found["its end dropped"].cached_tokens >= len(LONG) - 1 - 16


def test_the_usual_next_turn_reads_only_what_is_new(bench: Bench) -> None:
    """Reading the whole chat again is the wait people feel."""
    engine = bench.engine(Off())
    first = finish(engine, request(LONG))
    second = (*LONG, *first.token_ids, 70, 71, 72)
    assert finish(engine, request(second)).cached_tokens >= len(second) - 3 - 2


@pytest.mark.parametrize("name", ["off", "draft"])
def test_a_prefill_is_cancelled_and_the_next_answer_is_right(bench: Bench, name: str) -> None:
    """Half of a pass must not stay in the state."""
    engine = bench.engine(bench.proposers()[name])
    seen: list[Prefill] = []
    bench.target.stop = lambda: len(seen) >= 3
    try:
        for event in engine.generate(request(LONG)):
            if isinstance(event, Prefill):
                seen.append(event)
            last = event
    finally:
        bench.target.stop = lambda: False
    assert isinstance(last, Finished) and last.reason == "cancelled"
    assert seen[-1].done == len(engine.cached) < len(LONG) - 1
    finished = finish(engine, request(LONG))
    assert 0 < finished.cached_tokens <= seen[-1].done
    assert finished.token_ids == bench.plain(request(LONG))


def test_a_stop_string_that_began_in_an_earlier_pass_is_cut_off(bench: Bench) -> None:
    """The next turn begins where the text ended."""
    plain = finish(bench.engine(Off()), request())
    stop = plain.text[12:15]
    for name, proposer in bench.proposers().items():
        engine = bench.engine(proposer)
        finished = finish(engine, Request(PROMPT, GREEDY, 7, max_tokens=96, k=8, stop=(stop,)))
        assert finished.reason == "stop_string", name
        assert tuple(engine.cached) == (*PROMPT, *finished.token_ids)[:-1]
        second = (*PROMPT, *finished.token_ids, 70, 71)
        assert finish(engine, request(second)).token_ids == bench.plain(request(second)), name


def test_a_full_context_ends_the_reply(bench: Bench) -> None:
    """The last slots are where tokens that are read again have no room."""
    for name, proposer in bench.proposers().items():
        for length in (LENGTH - 9, LENGTH - 2, LENGTH - 1, LENGTH):
            prompt = tuple(60 + index % 90 for index in range(length))
            finished = finish(bench.engine(proposer), request(prompt, k=8))
            assert finished.reason == "context", name
            assert len(finished.token_ids) == LENGTH - length + 1


def test_the_logits_of_a_branch_that_was_left_are_those_of_a_fresh_cache(bench: Bench) -> None:
    """The screen shows what the model might have said in the place of what it did."""
    engine = bench.engine(Lookup())
    first = finish(engine, request(LONG))
    said = (*LONG, *first.token_ids)
    row = engine.logits_after(said[:-20]).copy()
    engine = bench.engine(Off())
    assert (row == engine.logits_after(said[:-20])).all()
