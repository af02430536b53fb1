"""The largest logits without whole rows: on a GPU they are all that a pass brings back.

What is done there is tried here on the CPU, where it is never chosen by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import llama_cpp
import numpy as np
import pytest
from numpy.typing import NDArray

from app.errors import SpecchatError
from app.llama.batch import Tree
from app.llama.candidates import CANDIDATES, Candidates, candidates_for
from app.llama.context import Context
from app.llama.model import Model
from app.llama.settings import ContextSettings, ModelSettings

SETTINGS = ContextSettings(threads=1, chunk=64, branches=2, candidates=CANDIDATES)
TOKENS = [int(token) for token in np.random.default_rng(7).integers(3, 259, 300)]


@pytest.fixture
def context(tiny: Model) -> Iterator[Context]:
    with Context(tiny, 1024, SETTINGS) as made:
        yield made


def found(context: Context, tokens: list[int]) -> Candidates:
    """The candidates after each token, copied; the tokens are taken back."""
    length = context.length
    candidates = context.forward_candidates(tokens)
    assert candidates is not None
    context.rollback(length)
    return Candidates(candidates.tokens.copy(), candidates.logits.copy())


def rows_of(context: Context, tokens: list[int]) -> NDArray[np.float32]:
    """Whole rows after each token, copied; the tokens are taken back."""
    length = context.length
    rows: NDArray[np.float32] = context.forward(tokens, rows=len(tokens)).copy()
    context.rollback(length)
    return rows


def assert_largest(candidates: Candidates, rows: NDArray[np.float32], count: int) -> None:
    assert candidates.tokens.shape == candidates.logits.shape == (len(rows), count)
    for tokens, logits, row in zip(candidates.tokens, candidates.logits, rows, strict=True):
        assert len(set(tokens.tolist())) == count
        np.testing.assert_array_equal(logits, row[tokens])
        np.testing.assert_array_equal(np.sort(logits), np.sort(row)[-count:])


@pytest.mark.parametrize("count", [1, 2, 41, CANDIDATES])
def test_they_are_the_largest_of_whole_rows(tiny: Model, count: int) -> None:
    """Lost otherwise: on a GPU, tokens that the settings allow, or the right logits of those that stay."""
    with Context(tiny, 1024, ContextSettings(threads=1, candidates=count)) as context:
        context.forward(TOKENS[:50], rows=0)
        for width in (1, 2, 3, 8, 33, 64, 8, 1):
            tokens = TOKENS[50 : 50 + width]
            assert_largest(found(context, tokens), rows_of(context, tokens), count)


def test_they_are_those_of_a_real_model(bundled: Path) -> None:
    with Model(bundled) as model, Context(model, 512, SETTINGS) as context:
        tokens = model.tokenise("The Treaty of Rome was signed by six countries in March 1957.")
        context.forward(tokens[:6], rows=0)
        for width in (1, 4, 9):
            assert_largest(
                found(context, tokens[6 : 6 + width]), rows_of(context, tokens[6 : 6 + width]), CANDIDATES
            )


def test_whole_rows_are_there_for_whoever_asks(tiny: Model, context: Context) -> None:
    """Lost otherwise: calibration, checks and trees would read logits that nobody computed."""
    with Context(tiny, 1024, ContextSettings(threads=1, chunk=64)) as plain:
        for made in (context, plain):
            made.forward(TOKENS[:80], rows=0)
        expected = rows_of(plain, TOKENS[80:85])
        for _ in range(3):
            assert_largest(found(context, TOKENS[80:85]), expected, CANDIDATES)
            np.testing.assert_array_equal(rows_of(context, TOKENS[80:85]), expected)
            context.forward_tree(TOKENS[80:85], Tree((-1, -1, 0, 1)))
            context.commit(-1)
            context.rollback(80)
        found(context, TOKENS[80:85])
        context.rollback(0)
        context.forward(TOKENS[:80], rows=0)
        assert_largest(found(context, TOKENS[80:85]), expected, CANDIDATES)


def test_no_whole_row_is_copied(context: Context) -> None:
    """Lost otherwise: all that they save. llama.cpp's buffer keeps what the pass before wrote there."""
    found(context, TOKENS[:8])
    rows = context.forward(TOKENS[:8], rows=8)
    before = rows.copy()
    context.rollback(0)
    found(context, TOKENS[100:108])
    np.testing.assert_array_equal(rows, before)
    context.forward(TOKENS[100:108], rows=8)
    assert (rows != before).any(axis=1).all()


def test_a_device_that_cannot_look_for_them(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost otherwise: the reply, to a build whose GPU code has no top-k; llama.cpp takes its sampler all the
    same. One that no device can run stands for it."""
    expected = rows_of(context, TOKENS[:5])
    monkeypatch.setattr(
        llama_cpp, "llama_sampler_init_top_k", lambda count: llama_cpp.llama_sampler_init_typical(0.5, 1)
    )
    assert context.candidates == CANDIDATES
    assert context.forward_candidates(TOKENS[:5]) is None
    assert context.candidates == 0 and context.length == 5
    context.rollback(0)
    np.testing.assert_array_equal(rows_of(context, TOKENS[:5]), expected)
    with pytest.raises(ValueError, match="without candidates"):
        context.forward_candidates(TOKENS[:5])


def test_what_cannot_be_had(tiny: Model, context: Context) -> None:
    """Lost otherwise: the process, which llama.cpp ends over more candidates than there are tokens."""
    size = tiny.vocabulary.size
    for count in (size, 10**6):
        with Context(tiny, 64, ContextSettings(threads=1, candidates=count)) as whole:
            assert whole.candidates == 0
    for tokens in (TOKENS[:65], TOKENS[:64]):
        with Context(tiny, 63, SETTINGS) as short, pytest.raises(ValueError, match="rows do not fit after"):
            short.forward_candidates(tokens)
    with pytest.raises(ValueError, match="whole rows"):
        ContextSettings(exact=True, candidates=CANDIDATES)
    with pytest.raises(ValueError, match="whole rows"):
        ContextSettings(hidden_states=True, candidates=CANDIDATES)
    with pytest.raises(SpecchatError, match="No context"):
        Context(tiny, 64, ContextSettings(cache_type="q8_0", flash_attention="off", candidates=CANDIDATES))


def test_where_they_are_used_by_themselves() -> None:
    """Lost otherwise: what they save on a GPU, or time on a machine where whole rows cost nothing to read."""

    def chosen(
        gpu_layers: int = -1,
        own_gpu: bool = True,
        rpc: tuple[str, ...] = (),
        context: ContextSettings | None = None,
    ) -> int:
        placed = ModelSettings(gpu_layers=gpu_layers, rpc=rpc)
        return candidates_for(context or ContextSettings(), placed, 30, own_gpu)

    assert chosen() == chosen(31) == chosen(99) == CANDIDATES
    # The output is placed last.
    assert chosen(30) == chosen(0) == 0
    assert chosen(own_gpu=False) == chosen(rpc=("box:50052",)) == 0
    assert chosen(context=ContextSettings(exact=True)) == 0
    assert chosen(context=ContextSettings(hidden_states=True)) == 0
    assert chosen(own_gpu=False, context=ContextSettings(candidates=7)) == 7
