"""Sampling from the largest logits alone gives what whole rows give: the same distributions, the same reply.

On a GPU nothing but these reaches the sampler; here a CPU's context is asked for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

from app.assembly import loader as loader_module
from app.assembly import proposers as proposers_module
from app.assembly.assembly import Assembly
from app.config.values import LoadSettings
from app.engine.control import Controller
from app.engine.events import Finished, Request
from app.engine.loop import Engine
from app.engine.sampling import Sampler
from app.engine.settings import Sampling
from app.errors import SpecchatError
from app.llama.candidates import CANDIDATES, Candidates, candidates_for
from app.llama.context import Context
from app.llama.model import Model
from app.llama.settings import ContextSettings, ModelSettings
from app.models.fit import Memory
from proposers.base import Distribution, Proposer
from proposers.draft import Draft
from proposers.lookup import Lookup
from proposers.off import Off
from tests.tiny import write_tiny

SETTINGS = ContextSettings(threads=1, chunk=64)
GREEDY = Sampling(temperature=0.0)
PENALTIES = Sampling(
    repeat_penalty=1.3, frequency_penalty=0.4, presence_penalty=0.7, penalty_window=20, top_p=1.0, min_p=0.0
)
CASES = {
    "default": Sampling(),
    "greedy": GREEDY,
    "one": Sampling(top_k=1),
    "top-k alone": Sampling(temperature=1.3, top_k=100, top_p=1.0, min_p=0.0),
    "nucleus": Sampling(temperature=2.0, top_k=60, top_p=0.6),
    "repeat": Sampling(repeat_penalty=1.1),
    "penalties": PENALTIES,
    "all": replace(PENALTIES, temperature=0.6, top_p=0.9, min_p=0.04, penalty_window=64),
    "greedy, penalties": replace(PENALTIES, temperature=0.0, penalty_window=64),
}
WHOLE = {
    "no top-k": Sampling(top_k=0),
    "repeat below 1": Sampling(repeat_penalty=0.9),
    "frequency below 0": Sampling(frequency_penalty=-0.1),
    "presence below 0": Sampling(temperature=0.0, repeat_penalty=1.2, presence_penalty=-0.1),
}


def assert_same(found: Sequence[Distribution] | None, expected: Sequence[Distribution]) -> None:
    assert found is not None and len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.tokens.dtype == other.tokens.dtype
        np.testing.assert_array_equal(one.tokens, other.tokens)
        np.testing.assert_array_equal(one.probabilities, other.probabilities)


def compare_everywhere(model: Model, tokens: Sequence[int], widths: Sequence[int]) -> None:
    """Each width and each of the settings, at places where the penalties meet what is likely."""
    with Context(model, 512, replace(SETTINGS, candidates=CANDIDATES)) as context:
        begin = 20
        context.forward(tokens[:begin], rows=0)
        for width in widths:
            read = list(tokens[begin : begin + width])
            candidates = context.forward_candidates(read)
            assert candidates is not None
            candidates = Candidates(candidates.tokens.copy(), candidates.logits.copy())
            context.rollback(begin)
            rows = context.forward(read, rows=width).copy()
            context.rollback(begin)
            likely = rows[0].argsort()[-12:].tolist()
            for drafted in {tuple(read[1:]), tuple(read[1 : (width + 1) // 2])}:
                for settings in CASES.values():
                    sampler = Sampler(settings)
                    assert 0 < sampler.candidates_needed <= CANDIDATES
                    for history in (tokens[: begin + 1], [*likely, *likely[6:], read[0]], read[:1]):
                        assert_same(
                            sampler.from_candidates(candidates, history, drafted),
                            sampler.distributions(rows[: 1 + len(drafted)], history, drafted),
                        )


def test_every_distribution_is_that_of_whole_rows(tiny_path: Path) -> None:
    """Lost otherwise: on a GPU replies that are not distributed as the settings say."""
    with Model(tiny_path) as model:
        for seed in range(3):
            tokens = np.random.default_rng(seed).integers(3, 288, 90).tolist()
            compare_everywhere(model, tokens, (1, 2, 5, 9, 64))


def test_every_distribution_of_a_real_model_is_that_of_whole_rows(bundled: Path) -> None:
    with Model(bundled) as model:
        text = "Six countries signed the Treaty of Rome in March 1957. It made a common market, "
        compare_everywhere(model, model.tokenise(text * 2), (1, 2, 6, 12))


@pytest.mark.parametrize("settings", WHOLE.values(), ids=WHOLE.keys())
def test_settings_that_need_whole_rows_say_so(settings: Sampling) -> None:
    """Lost otherwise: a token that a penalty raises from anywhere in the row, or the tail without top-k."""
    assert Sampler(settings).candidates_needed == 0


def test_how_many_candidates_settings_need() -> None:
    """Lost otherwise: on a GPU the default settings would fall back to whole rows, unseen."""
    assert Sampler(Sampling()).candidates_needed == 41
    assert Sampler(GREEDY).candidates_needed == 2
    assert Sampler(Sampling(repeat_penalty=1.1)).candidates_needed == 105 <= CANDIDATES
    assert Sampler(Sampling(repeat_penalty=1.1, penalty_window=0)).candidates_needed == 41


def some_largest(rows: NDArray[np.float32], count: int, rng: np.random.Generator) -> Candidates:
    """As a device may give them: in any order, and any of those that tie for the last place."""
    order = np.stack([np.lexsort((rng.random(len(row)), -row))[:count] for row in rows])
    tokens = rng.permuted(order, axis=1).astype(np.int32)
    return Candidates(tokens, np.take_along_axis(rows, tokens, axis=1))


def test_ties_never_change_a_distribution() -> None:
    """Lost otherwise: which of two equal tokens stays would hang on the device, not on the logits."""
    rng = np.random.default_rng(11)
    undecided = 0
    for _ in range(400):
        settings = Sampling(
            temperature=float(rng.choice([0.0, 0.7])),
            top_k=int(rng.integers(1, 12)),
            top_p=float(rng.choice([0.8, 1.0])),
            repeat_penalty=float(rng.choice([1.0, 1.5])),
            presence_penalty=float(rng.choice([0.0, 1.0])),
            penalty_window=int(rng.integers(1, 9)),
        )
        sampler = Sampler(settings)
        drafted, history = rng.integers(0, 60, 3).tolist(), rng.integers(0, 60, 20).tolist()
        distinct = bool(rng.integers(2))
        rows = rng.integers(-4, 9, (4, 60)).astype(np.float32)
        if distinct:
            rows = rng.permuted(np.linspace(-9, 9, 240, dtype=np.float32)).reshape(4, 60)
        candidates = some_largest(rows, sampler.candidates_needed + int(rng.integers(0, 9)), rng)
        found = sampler.from_candidates(candidates, history, drafted)
        if found is None:
            undecided += 1
            assert not distinct
        else:
            assert_same(found, sampler.distributions(rows, history, drafted))
    assert 20 < undecided < 250


def test_numbers_that_are_none_are_told() -> None:
    """Lost otherwise: the sentence that says that the file is damaged."""
    tokens = np.tile(np.arange(50, dtype=np.int32), (2, 1))
    for damage in (np.full(50, np.nan), [np.nan] + [1.0] * 49, [np.inf] * 2 + [1.0] * 48):
        candidates = Candidates(tokens, np.array([[3.0] * 25 + [1.0] * 25, damage], np.float32))
        for settings in (Sampling(), GREEDY, Sampling(repeat_penalty=1.1)):
            with pytest.raises(SpecchatError, match="NaN"):
                Sampler(settings).from_candidates(candidates, [1], (4,))


class Counted(Context):
    """A context that counts the passes of either kind."""

    of_candidates = of_rows = 0

    def forward_candidates(self, tokens: Sequence[int]) -> Candidates | None:
        self.of_candidates += 1
        return super().forward_candidates(tokens)

    def forward(self, tokens: Sequence[int], rows: int = 1) -> NDArray[np.float32]:
        self.of_rows += rows > 0
        return super().forward(tokens, rows)


def reply(context: Context, proposer: Proposer, sampling: Sampling, k: int | None = 4) -> Finished:
    context.rollback(0)
    engine = Engine(context, (proposer,), Controller())
    prompt = tuple([60, 61, 62, 63, 64, 65] * 4)
    for event in engine.generate(Request(prompt, sampling, seed=5, max_tokens=60, k=k)):
        if isinstance(event, Finished):
            return event
    raise AssertionError("no Finished")


@pytest.fixture(scope="module")
def draft(tiny_draft_path: Path) -> Iterator[Context]:
    with Model(tiny_draft_path) as model, Context(model, 512, SETTINGS) as context:
        yield context


@pytest.mark.parametrize("settings", CASES.values(), ids=CASES.keys())
def test_a_seed_gives_the_same_reply(tiny_path: Path, draft: Context, settings: Sampling) -> None:
    """Lost otherwise: the same seed says something else on a GPU, or a draft is judged by other odds."""
    with (
        Model(tiny_path) as model,
        closing(Counted(model, 512, replace(SETTINGS, candidates=CANDIDATES))) as context,
        Context(model, 512, SETTINGS) as plain,
    ):
        for make in (Off, Lookup, lambda: Draft(draft)):
            context.of_candidates = context.of_rows = 0
            found = reply(context, make(), settings)
            assert context.of_candidates == found.passes
            # Plain passes are timed after a reply that had none.
            assert context.of_rows <= 4
            expected = reply(plain, make(), settings)
            assert found.token_ids == expected.token_ids
            assert (found.passes, found.accepted) == (expected.passes, expected.accepted)


@pytest.mark.parametrize("settings", WHOLE.values(), ids=WHOLE.keys())
def test_a_reply_whose_settings_need_whole_rows_gets_them(tiny_path: Path, settings: Sampling) -> None:
    with (
        Model(tiny_path) as model,
        closing(Counted(model, 512, replace(SETTINGS, candidates=CANDIDATES))) as context,
        Context(model, 512, SETTINGS) as plain,
    ):
        reply(context, Off(), Sampling())
        context.of_candidates = 0
        assert reply(context, Lookup(), settings).token_ids == reply(plain, Lookup(), settings).token_ids
        assert context.of_candidates == 0


def test_calibration_and_checks_have_whole_rows_between_replies(tiny_path: Path) -> None:
    """Lost otherwise: a cost curve or a check made of logits that nobody computed."""
    with (
        Model(tiny_path) as model,
        Context(model, 512, replace(SETTINGS, candidates=CANDIDATES)) as context,
        Context(model, 512, SETTINGS) as plain,
    ):
        engine, other = (Engine(each, (Off(),), Controller()) for each in (context, plain))
        for sampling in (Sampling(), GREEDY):
            assert reply(context, Lookup(), sampling, k=None).token_ids
            assert 1 in engine.calibrate([60, 61, 62], budget=0.02).seconds
            tokens = [60, 61, 62, 70, 71]
            for each in (engine, other):
                each.target.rollback(0)
            np.testing.assert_array_equal(engine.logits_after(tokens), other.logits_after(tokens))


def test_equal_logits_are_left_to_whole_rows(tmp_path: Path) -> None:
    """Lost otherwise: a reply that depends on which of 256 equal tokens a device happens to name."""
    path = write_tiny(tmp_path / "equal.gguf", end_scale=0.0, byte_scale=0.0)
    with (
        Model(path) as model,
        closing(Counted(model, 512, replace(SETTINGS, candidates=CANDIDATES))) as context,
        Context(model, 512, SETTINGS) as plain,
    ):
        for settings in (Sampling(top_p=1.0, min_p=0.0), Sampling(temperature=2.0, top_k=15), GREEDY):
            context.of_candidates = context.of_rows = 0
            found, expected = reply(context, Lookup(), settings), reply(plain, Lookup(), settings)
            assert found.token_ids == expected.token_ids
            assert context.of_candidates == found.passes
            if settings.top_k == 40 and settings is not GREEDY:
                assert context.of_rows >= found.passes


def test_of_two_greatest_the_smaller_id_is_chosen(tmp_path: Path) -> None:
    """Lost otherwise: a greedy reply that differs from the CPU's, or from one run to the next."""
    path = write_tiny(tmp_path / "twins.gguf", end_scale=0.0)
    reader = gguf.GGUFReader(path, "r+")
    (output,) = (tensor for tensor in reader.tensors if tensor.name == "output.weight")
    output.data[144:] = output.data[:144]
    output.data.flush()
    with (
        Model(path) as model,
        closing(Counted(model, 512, replace(SETTINGS, candidates=CANDIDATES))) as context,
        Context(model, 512, SETTINGS) as plain,
    ):
        row = plain.forward([60, 61, 62])[0]
        np.testing.assert_array_equal(row[144:], row[:144])
        for settings in (GREEDY, Sampling(top_k=41, top_p=1.0, min_p=0.0)):
            assert reply(context, Lookup(), settings).token_ids == reply(plain, Lookup(), settings).token_ids
        assert all(token < 144 for token in reply(context, Off(), GREEDY).token_ids)


def test_assembly_asks_for_them_where_a_gpu_holds_the_model(
    tiny_path: Path, tiny_draft_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost otherwise: what they save, or a draft without its own logits. The CPU stands for the GPU."""
    plenty = 1 << 40

    def given(memory: Memory, exact: bool = False, died: str = "") -> int:
        for module in (loader_module, proposers_module):
            monkeypatch.setattr(module, "machine_memory", lambda rpc: memory)
        settings = LoadSettings(str(tiny_path), str(tiny_draft_path), context_length=256, exact=exact)
        with Assembly(settings, stop=lambda: False, died=died) as assembly:
            engine = assembly.engine("draft")
            *_, finished = engine.generate(Request((60, 61, 62), Sampling(), seed=1, max_tokens=12, k=3))
            assert isinstance(finished, Finished) and len(finished.token_ids) == 12
            return engine.target.candidates

    assert given(Memory(plenty)) == 0
    assert given(Memory(plenty, (plenty,))) == CANDIDATES
    assert given(Memory(plenty, (plenty,), shared=True)) == 0
    assert given(Memory(plenty, (plenty,)), exact=True) == 0
    assert given(Memory(plenty, (plenty,)), died="was killed by SIGILL") == 0
    assert candidates_for(ContextSettings(candidates=64), ModelSettings(), 2, own_gpu=False) == 64
