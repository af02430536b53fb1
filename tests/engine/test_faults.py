"""A proposer that fails is switched off, the reply goes on, and the target's faults stay the target's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from app.engine.control import Controller
from app.engine.events import Event, Finished, Pass, ProposerDropped, Request
from app.engine.loop import Engine
from app.engine.settings import Sampling
from app.errors import SpecchatError
from app.llama.context import Context
from app.llama.model import Model
from app.llama.settings import ContextSettings
from proposers.base import Proposer
from proposers.bridge import BridgedDraft
from proposers.draft import Draft
from proposers.lookup import Lookup
from proposers.off import Off

PROMPT = tuple([60, 61, 62, 63, 64, 65] * 8)
GREEDY, WARM = Sampling(temperature=0.0), Sampling(temperature=0.8, top_k=0)


class Failing(Context):
    """A context that fails after a number of forwards, in one way or another, until it is repaired."""

    left = 0
    way = "nan"

    def forward(self, tokens: Sequence[int], rows: int = 1) -> NDArray[np.float32]:
        self.left -= 1
        if self.left < 0 and self.way == "code":
            raise SpecchatError("llama.cpp could not run a pass of 1 tokens (code -3): try a smaller --ctx.")
        found = super().forward(tokens, rows)
        if self.left < 0 and self.way == "nan":
            return np.full_like(found, np.nan)
        return found

    def rollback(self, length: int) -> None:
        super().rollback(length)
        if self.left < 0 and self.way == "cut":
            raise SpecchatError("The memory cannot be cut back: load the model again.")


@pytest.fixture(scope="module")
def contexts(tiny_path: Path) -> Iterator[tuple[Context, Failing]]:
    settings = ContextSettings(threads=1, exact=True)
    with (
        Model(tiny_path) as model,
        Context(model, 300, settings) as target,
        Failing(model, 300, settings) as draft,
    ):
        assert isinstance(draft, Failing)
        yield target, draft


def bridged(draft: Context) -> Proposer:
    return BridgedDraft(draft, draft.model, draft.model)


def events_of(engine: Engine, sampling: Sampling, k: int | None) -> list[Event]:
    return list(engine.generate(Request(PROMPT, sampling, seed=7, max_tokens=40, k=k)))


@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "warm"])
@pytest.mark.parametrize("others", [(), (Lookup,)], ids=["alone", "with lookup"])
@pytest.mark.parametrize("after", [0, 1, 7])
@pytest.mark.parametrize("way", ["nan", "code", "cut"])
@pytest.mark.parametrize("kind", [Draft, bridged])
def test_a_draft_that_fails_is_dropped_and_the_reply_goes_on(
    contexts: tuple[Context, Failing],
    kind: Callable[[Context], Proposer],
    way: str,
    after: int,
    others: tuple[Callable[[], Proposer], ...],
    sampling: Sampling,
) -> None:
    """Lost otherwise: a reply, and the next, to a file that only was to make them faster."""
    target, draft = contexts
    target.rollback(0)
    plain = events_of(Engine(target, (Off(),), Controller()), sampling, None)
    draft.left, draft.way = 10**9, way
    draft.rollback(0)
    target.rollback(0)
    draft.left = after
    proposer = kind(draft)
    left = [other() for other in others]
    engine = Engine(target, (proposer, *left), Controller())
    events = events_of(engine, sampling, 4)
    (dropped,) = [event for event in events if isinstance(event, ProposerDropped)]
    assert dropped.proposer == "draft" and dropped.damaged == (way == "nan")
    assert "code -3" in dropped.reason or way != "code"
    assert [type(each) for each in engine.sequence.proposers] == [type(each) for each in left or [Off()]]
    finished, whole = events[-1], plain[-1]
    assert isinstance(finished, Finished) and isinstance(whole, Finished)
    assert (finished.reason, len(finished.token_ids)) == ("length", 40)
    if sampling is GREEDY:
        assert finished.token_ids == whole.token_ids
    later = events[events.index(dropped) + 1 :]
    assert not any(isinstance(event, Pass) and event.proposer == "draft" for event in later)
    assert sum(tally.passes for tally in finished.by_proposer.values()) == finished.passes
    assert list(engine.cached) == [*PROMPT, *finished.token_ids][:-1]


@pytest.mark.parametrize("way", ["nan", "code"])
def test_a_target_that_fails_is_not_taken_for_its_draft(contexts: tuple[Context, Failing], way: str) -> None:
    """Lost otherwise: a person who replaces the wrong file."""
    good, target = contexts
    good.rollback(0)
    target.left, target.way = 10**9, way
    target.rollback(0)
    target.left = 5
    engine = Engine(target, (Draft(good),), Controller())
    seen: list[Event] = []
    with pytest.raises(SpecchatError, match="NaN" if way == "nan" else "code -3"):
        seen.extend(engine.generate(Request(PROMPT, GREEDY, seed=7, max_tokens=40, k=2)))
    assert not any(isinstance(event, ProposerDropped) for event in seen)
    target.left = 10**9
