"""Drafts of a model with another vocabulary: its text in the target's tokens, and nothing else changed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from app.config.fields import with_arguments
from app.config.file import read_settings
from app.engine.control import Controller
from app.engine.events import Finished, Pass, Request
from app.engine.loop import Engine
from app.engine.sampling import Sampler
from app.engine.settings import Sampling
from app.llama.context import Context
from app.llama.model import Model
from app.llama.settings import ContextSettings
from proposers.base import Proposer
from proposers.bridge import BridgedDraft
from proposers.off import Off
from proposers.translation import TextVocabulary, Translation
from tests.conftest import Ask
from tests.tiny import WORDS, Extra, tokenizer, write_tiny

GREEDY = Sampling(temperature=0.0)
WARM = Sampling(temperature=0.9)
SETTINGS = ContextSettings(threads=1, chunk=64, exact=True)
# Single characters: a text of them has one tokenisation, so a reply in them is as its text would be read.
LETTERS = [*"▁abcdefghijklmnopqrstuvwxyz,.éß中文", "🙂"]
SIZE = WORDS + len(LETTERS)
ORDER = random.Random(3).sample(range(SIZE), SIZE)


def letters(order: Sequence[int] | None = None, **other: float) -> dict[str, object]:
    """Arguments for a model that writes single characters."""
    tokens = tokenizer(SIZE, False, None)["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    extra: Extra = {"tokenizer.ggml.tokens": [*tokens[:WORDS], *LETTERS]}
    return {"vocabulary": SIZE, "byte_scale": 0.0, "end_scale": 0.0, "order": order, "extra": extra, **other}


class Bench:
    """A target and four drafts: the target in other ids, one that agrees in part, two of other words."""

    def __init__(self, folder: Path) -> None:
        write: Callable[..., Path] = write_tiny
        self.paths = {
            "target": write(folder / "target.gguf", **letters()),
            "renumbered": write(folder / "renumbered.gguf", **letters(ORDER)),
            "noisy": write(folder / "noisy.gguf", **letters(ORDER, noise=0.1)),
            "words": write(folder / "words.gguf", end_scale=0.0),
            "bytes": write(folder / "bytes.gguf", end_scale=0.0, vocabulary=WORDS + 2, seed=1),
        }
        self.models = {name: Model(path) for name, path in self.paths.items()}
        self.contexts = {name: Context(model, 640, SETTINGS) for name, model in self.models.items()}

    def close(self) -> None:
        for context in self.contexts.values():
            context.close()
        for model in self.models.values():
            model.close()

    def bridged(self, draft: str, target: str = "target") -> BridgedDraft:
        return BridgedDraft(self.contexts[draft], self.models[target], self.models[draft])

    def engine(self, proposer: Proposer, target: str = "target") -> Engine:
        self.contexts[target].rollback(0)
        return Engine(self.contexts[target], (proposer,), Controller())

    def prompt(self, target: str = "target") -> tuple[int, ...]:
        text = "<|im_start|>user\nabc the 中文, é 🙂 deaf.<|im_end|>\n<|im_start|>assistant\n"
        return tuple(self.models[target].tokenise(text))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("bridge"))
    yield made
    made.close()


def finish(
    engine: Engine,
    prompt: tuple[int, ...],
    sampling: Sampling,
    k: int | None,
    each: Callable[[Pass], None] = lambda entry: None,
) -> Finished:
    for event in engine.generate(Request(prompt, sampling, seed=7, max_tokens=96, k=k)):
        if isinstance(event, Pass):
            each(event)
        elif isinstance(event, Finished):
            return event
    raise AssertionError("no Finished")


PAIRS = [
    ("target", "renumbered"),
    ("target", "noisy"),
    ("target", "words"),
    ("target", "bytes"),
    ("words", "target"),
    ("bytes", "words"),
]


@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "warm"])
@pytest.mark.parametrize(("target", "draft"), PAIRS)
def test_a_reply_is_the_same_with_and_without_the_bridge(
    bench: Bench, target: str, draft: str, sampling: Sampling
) -> None:
    """A draft of another vocabulary may not change a token, and a seed gives the same reply."""
    prompt = bench.prompt(target)
    plain = finish(bench.engine(Off(), target), prompt, sampling, None)
    for k in (1, 4, None):
        engine = bench.engine(bench.bridged(draft, target), target)
        assert finish(engine, prompt, sampling, k).token_ids == plain.token_ids


@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "warm"])
@pytest.mark.parametrize("k", [1, 2, 8])
def test_the_target_in_other_ids_is_accepted(bench: Bench, k: int, sampling: Sampling) -> None:
    """A draft that says what the target says must be worth its time, whatever it calls the words."""
    finished = finish(bench.engine(bench.bridged("renumbered")), bench.prompt(), sampling, k)
    assert finished.drafted >= 90 * k / (k + 1)
    if sampling.temperature == 0.0:
        assert finished.accepted == finished.drafted
        # Where one token is left to say, there is nothing to draft.
        assert set(finished.origins[:-1]) == {"draft", "bonus"}
    else:
        assert finished.accepted > 0.2 * finished.drafted


def test_one_that_agrees_in_part_is_accepted_in_part(bench: Bench) -> None:
    """Else the cache holds what was rejected: acceptance falls as the reply grows."""
    finished = finish(bench.engine(bench.bridged("noisy")), bench.prompt(), GREEDY, 4)
    assert 0.2 * finished.drafted < finished.accepted < finished.drafted
    assert sum(finished.accepted_by_position) == finished.accepted


def test_what_was_accepted_is_learned_by_position(bench: Bench) -> None:
    """Else a pair that never agrees is drafted with for good, or a good one is given up."""
    forecasts = {}
    for name in ("renumbered", "words"):
        proposer = bench.bridged(name)
        prompt = bench.prompt()
        finish(bench.engine(proposer), prompt, GREEDY, 4)
        forecasts[name] = list(proposer.forecast(prompt, 4))
        assert bench.bridged(name).restore_acceptance(proposer.acceptance_state)
    assert forecasts["renumbered"][3] > 0.7
    assert forecasts["words"][0] < 0.3


def test_a_draft_ends_where_its_model_is_unsure(bench: Bench) -> None:
    """Every drafted token costs a forward of the draft model: what is unsure ends it."""
    proposer, rng = bench.bridged("renumbered"), np.random.default_rng(0)
    lengths = []
    for threshold in (0.0, 0.4, 1.0):
        prompt = bench.prompt()
        proposer.begin(prompt)
        lengths.append(len(proposer.propose(prompt, 8, Sampler(GREEDY), rng, threshold).tokens))
    assert lengths[0] == 8 > lengths[1] > lengths[2] == 1


@pytest.mark.parametrize(("target", "draft"), PAIRS)
def test_the_drafts_cache_is_the_text_after_every_pass(bench: Bench, target: str, draft: str) -> None:
    """A cache out of step drafts after words that were never said."""
    proposer = bench.bridged(draft, target)
    own, history = bench.models[draft], list(bench.prompt(target))

    def check(entry: Pass) -> None:
        history.extend(entry.tokens)
        # As the loop does before the next draft.
        proposer.observe(history)
        translated = list(proposer.translated)
        assert list(proposer.cached) == translated[: len(proposer.cached)]
        assert proposer.lag(history) == len(translated) - 1 - len(proposer.cached)
        fresh = Translation(TextVocabulary(bench.models[target]), TextVocabulary(own))
        fresh.begin(history)
        assert own.detokenise(fresh.tokens) == own.detokenise(translated)

    finish(bench.engine(proposer, target), tuple(history), GREEDY, 3, check)


def test_turn_two_and_an_edit_keep_what_is_common(bench: Bench) -> None:
    """Reading a long chat again at each turn is a wait that people feel."""
    proposer = bench.bridged("renumbered")
    prompt = bench.prompt()
    finish(bench.engine(proposer), prompt, GREEDY, 3)
    proposer.begin(prompt + bench.prompt())
    assert len(proposer.cached) >= len(prompt) - 1
    edited = [*prompt[:-4], *prompt]
    proposer.begin(edited)
    assert list(proposer.cached) == list(proposer.translated[: len(proposer.cached)])
    assert proposer.lag(edited) == len(proposer.translated) - 1 - len(proposer.cached)
    proposer.sync(edited)
    assert proposer.lag(edited) == 0


def test_a_text_that_does_not_fit_is_neither_read_nor_drafted_for(bench: Bench) -> None:
    """The same text can have more tokens for the draft than for the target: it must stand aside."""
    rng = np.random.default_rng(0)
    proposer = bench.bridged("bytes")
    for text in ("中" * 400, ""):
        history = bench.models["target"].tokenise(text)
        proposer.begin(history)
        assert proposer.lag(history) == 0
        proposer.sync(history)
        assert list(proposer.forecast(history, 4)) == []
        assert proposer.propose(history, 4, Sampler(GREEDY), rng).tokens == ()
        assert list(proposer.cached) == []


def test_a_draft_that_ends_the_turn_proposes_the_targets_end(tmp_path: Path) -> None:
    """Else the last pass of each reply is a plain one, and a draft goes on past its own end."""
    write: Callable[..., Path] = write_tiny
    ending = {**letters(), "end_scale": 8.0}
    with (
        Model(write(tmp_path / "target.gguf", **ending)) as target,
        Model(write(tmp_path / "draft.gguf", **{**ending, "order": ORDER})) as draft,
        Context(target, 256, SETTINGS) as context,
        Context(draft, 256, SETTINGS) as drafting,
    ):
        prompt = tuple(target.tokenise("abc def<|im_end|>\nghi"))
        engine = Engine(context, (BridgedDraft(drafting, target, draft),), Controller())
        finished = finish(engine, prompt, GREEDY, 8)
        assert finished.reason == "stop"
        assert finished.accepted == finished.drafted
        assert finished.token_ids[-1] in target.end_tokens
        assert finished.origins[-1] == "draft"


def test_the_command_refuses_such_a_draft_and_bridges_it_when_asked(
    bench: Bench, ask: Ask, tmp_path: Path
) -> None:
    """A pair that is refused without a way out, or a setting that never reaches the engine."""
    target, draft = bench.paths["target"], bench.paths["renumbered"]
    template = tmp_path / "plain.jinja"
    template.write_text("{{ messages[-1]['content'] }}")
    common = [
        *("-p", "abc", "--model", target, "--template", template, "--ctx", "256"),
        *("--temp", "0", "--exact", "--max-tokens", "24", "--json"),
    ]
    refused = ask(*common, "--draft", draft, "--proposer", "draft")
    assert refused.code == 3
    assert "or allow it with --bridge" in refused.err
    plain = ask(*common, "--proposer", "off")
    bridged = ask(*common, "--draft", draft, "--bridge", "--proposer", "draft", "--k", "4")
    assert bridged.code == 0, bridged.err
    figures = json.loads(bridged.out)
    assert figures["token_ids"] == json.loads(plain.out)["token_ids"]
    assert figures["accepted"] > 0.5 * figures["drafted"] > 0
    assert "draft" in figures["origins"]


def test_the_setting_reaches_the_engine(tmp_path: Path) -> None:
    """A switch in the settings, or on the command line of the chat, that changes nothing."""
    file = tmp_path / "settings.toml"
    file.write_text("[model]\nbridge = true\n")
    assert read_settings(file).model.bridge
    assert not read_settings(tmp_path / "none.toml").model.bridge
    assert with_arguments(read_settings(tmp_path / "none.toml"), {"bridge": True}).model.bridge
