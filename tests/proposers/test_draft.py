"""The draft model's side: what it reads and when, where it stops, what it learns, on tiny models."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from app.engine.sampling import Sampler
from app.engine.settings import Sampling
from app.llama.context import Context
from app.llama.model import Model
from app.llama.settings import ContextSettings
from proposers.confidence import Confidence
from proposers.draft import Draft
from tests.tiny import write_tiny

GREEDY = Sampler(Sampling(temperature=0.0))
WARM = Sampler(Sampling(temperature=0.9))
RNG = np.random.default_rng(0)
HISTORY = list(range(40, 80))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    with Model(write_tiny(tmp_path_factory.mktemp("draft") / "draft.gguf", end_scale=0.0)) as made:
        yield made


@pytest.fixture
def draft(model: Model) -> Iterator[Draft]:
    with Context(model, 64, ContextSettings(threads=1)) as context:
        yield Draft(context)


def test_a_new_reply_reads_nothing_until_it_is_asked_to(draft: Draft) -> None:
    """A draft that is on but not used must not cost the reading of a long prompt."""
    draft.begin(HISTORY)
    assert draft.lag(HISTORY) == len(HISTORY) - 1
    assert draft.cached == []
    draft.sync(HISTORY)
    assert draft.lag(HISTORY) == 0
    assert list(draft.cached) == HISTORY[:-1]


def test_one_that_was_off_for_a_while_drafts_what_one_that_was_on_would(draft: Draft) -> None:
    """Tokens that were missed would make every later draft wrong."""
    draft.begin(HISTORY[:10])
    draft.sync(HISTORY[:10])
    late = draft.propose(HISTORY, 4, GREEDY, RNG).tokens
    draft.begin([1, 2, 3])
    draft.begin(HISTORY)
    draft.sync(HISTORY)
    assert draft.propose(HISTORY, 4, GREEDY, RNG).tokens == late


def test_a_history_that_does_not_fit_is_neither_read_nor_drafted_for(draft: Draft) -> None:
    """A draft with a shorter context than the target's must stand aside, not fail."""
    long = [40] * 80
    draft.begin(long)
    assert draft.lag(long) == 0
    draft.sync(long)
    assert draft.cached == []
    assert draft.propose(long, 4, GREEDY, RNG).tokens == ()
    assert list(draft.forecast(long, 4)) == []


@pytest.mark.parametrize("sampler", [GREEDY, WARM], ids=["greedy", "warm"])
def test_a_floor_of_one_ends_a_draft_behind_its_first_token(draft: Draft, sampler: Sampler) -> None:
    """Every drafted token costs a forward of the draft model: an unsure one is the last."""
    draft.begin(HISTORY)
    assert len(draft.propose(HISTORY, 6, sampler, RNG, threshold=1.0).tokens) == 1
    draft.observe(HISTORY)
    assert len(draft.propose(HISTORY, 6, sampler, RNG, threshold=0.0).tokens) == 6


def test_what_was_learned_is_taken_up_and_nonsense_is_not(draft: Draft, model: Model) -> None:
    """A damaged file of measurements must leave a draft as it was."""
    draft.begin(HISTORY)
    history = list(HISTORY)
    for _ in range(5):
        proposal = draft.propose(history, 3, GREEDY, RNG)
        history += [*proposal.tokens, 50]
        draft.observe(history)
    learned = draft.acceptance_state
    with Context(model, 64, ContextSettings(threads=1)) as context:
        other = Draft(context)
        assert other.acceptance_state != learned
        for wrong in ((), learned[:-1], (-1.0, *learned[1:]), (*learned[:-1], float("nan"))):
            before = other.acceptance_state
            assert not other.restore_acceptance(wrong)
            assert other.acceptance_state == before
        assert other.restore_acceptance(learned)
        assert other.acceptance_state == learned


def test_confidence_learns_what_the_models_own_probability_is_worth() -> None:
    """A model that is sure and wrong must not be drafted with for long."""
    confidence = Confidence()
    assert confidence.chance(0.99) > confidence.chance(0.5) > confidence.chance(0.05)
    for _ in range(300):
        confidence.learn(0.99, accepted=False)
        confidence.learn(0.5, accepted=True)
    assert confidence.chance(0.99) < 0.3 < 0.7 < confidence.chance(0.5)
