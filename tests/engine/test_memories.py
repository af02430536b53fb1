"""The loop on models whose memory cannot simply be cut: the same chat as with any other."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.engine.control import Controller
from app.engine.events import Finished, Pass, Prefill, Request
from app.engine.loop import Engine
from app.engine.settings import Sampling
from app.llama.context import Context
from app.llama.model import Model
from app.llama.settings import ContextSettings
from app.models.gguf import read_header
from app.models.skip import write_skip
from proposers.base import Proposer
from proposers.draft import Draft
from proposers.lookup import Lookup
from proposers.off import Off
from tests.architectures import KINDS, Kind, write_architecture
from tests.engine.replies import finish, take_turns

LENGTH = 900
GREEDY = Sampling(temperature=0.0)
PROMPT = tuple([60, 61, 62, 63, 64, 65] * 4)
LONG = tuple(60 + index * index % 90 for index in range(780))


class Bench:
    """A target, a draft of the same kind that agrees in part, one that always agrees, and engines."""

    def __init__(self, kind: Kind, opened: Callable[..., Model]) -> None:
        self.target = Context(opened(kind, 0.0), LENGTH, kind.settings)
        drafting = replace(kind.settings, snapshots=0)
        self.draft, self.fork = (Context(opened(kind, noise), LENGTH, drafting) for noise in (0.1, 0.0))

        self._said: dict[tuple[int, ...], tuple[int, ...]] = {}

    def close(self) -> None:
        for context in (self.target, self.draft, self.fork):
            context.close()

    def proposers(self) -> dict[str, Proposer]:
        return {
            "off": Off(),
            "lookup": Lookup(),
            "draft": Draft(self.draft),
            "fork": Draft(self.fork, "skip"),
        }

    def engine(self, *proposers: Proposer) -> Engine:
        self.target.rollback(0)
        return Engine(self.target, proposers, Controller())

    def plain(self, wanted: Request) -> tuple[int, ...]:
        """What a fresh cache would have said."""
        if wanted.prompt not in self._said:
            self._said[wanted.prompt] = finish(self.engine(Off()), wanted).token_ids
        return self._said[wanted.prompt]

    def assert_plain(self, wanted: Request, said: tuple[int, ...], what: object = None) -> None:
        """The reply is that of a fresh cache. Outside of exact mode it may part from it at a near tie."""
        plain = self.plain(wanted)
        if self.target.settings.exact or said == plain:
            assert said == plain, what
            return
        place = next(
            place for place, (one, other) in enumerate(zip(said, plain, strict=True)) if one != other
        )
        row = self.engine(Off()).logits_after([*wanted.prompt, *plain[:place]])
        assert abs(row[said[place]] - row[plain[place]]) < 0.02, what


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind.name)
def bench(request: pytest.FixtureRequest, architectures: Callable[..., Model]) -> Iterator[Bench]:
    made = Bench(request.param, architectures)
    yield made
    made.close()


def request(prompt: tuple[int, ...] = PROMPT, k: int | None = 4, tokens: int = 48) -> Request:
    return Request(prompt, GREEDY, seed=7, max_tokens=tokens, k=k)


@pytest.mark.parametrize("prompt", [PROMPT, LONG], ids=["short", "long"])
def test_the_greedy_stream_is_the_same_whatever_is_drafted(bench: Bench, prompt: tuple[int, ...]) -> None:
    """Speculation may not change a token, whatever has to be read again for it."""
    assert len(set(bench.plain(request(prompt)))) > 4
    rejected = 0
    for k in (1, 2, 4, 8, 16, 32, None):
        for name in ("lookup", "draft", "fork"):
            proposer = bench.proposers()[name]
            finished = finish(bench.engine(proposer), request(prompt, k))
            bench.assert_plain(request(prompt, k), finished.token_ids, (name, k))
            rejected += finished.drafted - finished.accepted
            # A fork rounds otherwise where its passes are of other widths.
            if name == "fork" and bench.target.settings.exact:
                assert finished.accepted == finished.drafted
        engine = bench.engine(Lookup(), Draft(bench.draft))
        bench.assert_plain(request(prompt, k), finish(engine, request(prompt, k)).token_ids, k)
    assert rejected > 0


def test_replies_that_take_turns_change_no_token(bench: Bench) -> None:
    """A reply is left and taken up again on a memory that others have used."""
    pool = bench.proposers()
    base = bench.engine(Off())
    wanted = request(LONG)
    for finished in take_turns([base.fork((each,)) for each in pool.values()], wanted, random.Random(1)):
        bench.assert_plain(wanted, finished.token_ids)


def test_proposers_and_lengths_that_change_in_mid_reply_change_no_token(bench: Bench) -> None:
    """Toggling is free, also after a rejection."""
    pool = list(bench.proposers().values())
    for seed in range(3):
        rng = random.Random(seed)
        engine = bench.engine(Off())

        def swap(_: Pass, engine: Engine = engine, rng: random.Random = rng) -> None:
            engine.sequence.proposers = (rng.choice(pool),)
            engine.sequence.k = rng.choice([0, 1, 3, 9, None])

        bench.assert_plain(request(LONG), finish(engine, request(LONG), swap).token_ids, seed)


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
        bench.assert_plain(request(prompt), found[what].token_ids, what)
    assert found["regenerated"].cached_tokens == len(LONG) - 1
    # A rejected draft may have left its last tokens to be read again.
    assert found["gone on with"].cached_tokens >= len(LONG) - 1
    # What cannot be cut so far back is read again, and said to be.
    if bench.target.memory_kind != "sliding window":
        assert found["edited early"].cached_tokens == 0
    elif bench.target.settings.exact:
        assert found["edited early"].cached_tokens == 10
    assert found["its end dropped"].cached_tokens >= len(LONG) - 1 - 16


def test_what_was_known_and_is_read_again_is_told(bench: Bench) -> None:
    """A prompt that is read again for no visible reason looks like a fault."""
    engine = bench.engine(Off())
    finish(engine, request(LONG))
    shared = 10
    prefills = [
        each for each in engine.generate(request((*LONG[:shared], 99, 98))) if isinstance(each, Prefill)
    ]
    assert {each.cached + each.again for each in prefills} == {shared}
    if bench.target.memory_kind != "sliding window":
        assert prefills[0].again == shared
    elif bench.target.settings.exact:
        assert prefills[0].again == 0
    finish(engine, request(LONG))
    prefills = [each for each in engine.generate(request(LONG)) if isinstance(each, Prefill)]
    assert {each.again for each in prefills} == {0}


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
    bench.assert_plain(request(LONG), finished.token_ids)


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
        bench.assert_plain(request(second), finish(engine, request(second)).token_ids, name)


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
    difference = abs(row - engine.logits_after(said[:-20])).max()
    assert difference == 0 if bench.target.settings.exact else difference < 0.02


@pytest.mark.parametrize("architecture", ["lfm2", "qwen35", "mamba", "gemma3"])
def test_a_model_without_some_of_its_layers_drafts_for_it(architecture: str, tmp_path: Path) -> None:
    """Layers keep their kind, recurrent, windowed or not, when their numbers change."""
    path = write_architecture(tmp_path / "m.gguf", architecture, layers=8)
    skipped = write_skip(read_header(path), (1, 4), tmp_path)
    settings = ContextSettings(threads=1, chunk=64, exact=True, snapshots=4)
    with Model(path) as model, Model(skipped) as less:
        target, draft = (
            Context(model, LENGTH, settings),
            Context(less, LENGTH, replace(settings, snapshots=0)),
        )
        plain = finish(Engine(target, (Off(),), Controller()), request(LONG)).token_ids
        for k in (1, 4, 16):
            target.rollback(0)
            engine = Engine(target, (Draft(draft, "skip"),), Controller())
            finished = finish(engine, request(LONG, k))
            assert finished.token_ids == plain
            assert 0 < finished.drafted > finished.accepted
        target.close()
        draft.close()
