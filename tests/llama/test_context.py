"""The cache and its forwards: if they are wrong, every proposer silently changes what the model says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from app.llama.batch import Tree
from app.llama.chunks import ChunkSize
from app.llama.context import Context, Interrupted
from app.llama.model import Model
from app.llama.parameters import MAX_ROWS
from app.llama.settings import ContextSettings

Rows = NDArray[np.float32]
SETTINGS = ContextSettings(threads=1, chunk=64, branches=3)
# Widths differ by rounding, up to 0.06 here; rows of other positions differ by whole units.
NOISE = 0.15
TOKENS = [int(token) for token in np.random.default_rng(7).integers(3, 259, 300)]


def run_script(script: str, *arguments: object) -> str:
    """What a Python process of its own prints; it may die of a native assertion."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "GGML_NO_BACKTRACE": "1"}
    )
    assert done.returncode == 0, done.stderr[-300:]
    return done.stdout.strip()


@pytest.fixture
def context(tiny: Model) -> Iterator[Context]:
    with Context(tiny, 1024, SETTINGS) as made:
        yield made


def one_by_one(model: Model, tokens: list[int]) -> Rows:
    """Logits (len(tokens), V), each from a pass of one token in a cache of its own."""
    with Context(model, 1024, ContextSettings(threads=1)) as plain:
        return np.stack([plain.forward([token])[0].copy() for token in tokens])


def test_rows_are_those_of_plain_decoding(tiny: Model, context: Context) -> None:
    """Lost otherwise: verification would compare a draft with the wrong position's distribution."""
    rows = context.forward(TOKENS[:20], rows=20)
    assert rows.shape == (20, tiny.vocabulary.size) and rows.dtype == np.float32
    np.testing.assert_allclose(rows, one_by_one(tiny, TOKENS[:20]), atol=NOISE)


def test_rows_are_views_and_the_last_ones(context: Context) -> None:
    """Lost otherwise: megabytes copied every pass, or rows of other positions."""
    every = context.forward(TOKENS[:8], rows=8)
    assert not every.flags.owndata and every.base is not None
    kept = every.copy()
    context.rollback(0)
    np.testing.assert_array_equal(context.forward(TOKENS[:8], rows=3), kept[5:])
    assert context.forward(TOKENS[:8], rows=0).shape == (0, kept.shape[1])
    assert context.length == 16


@pytest.mark.parametrize("prefix", [30, 130])
def test_widths_of_exact_mode_give_the_same_bits(bundled: Path, prefix: int) -> None:
    """Lost otherwise: --exact would promise a stream that changes with the draft length."""
    rng = np.random.default_rng(prefix)
    with Model(bundled) as model, Context(model, 512, ContextSettings(threads=1)) as real:
        size = model.vocabulary.size
        real.forward(rng.integers(17, size, prefix).tolist(), rows=0)
        tokens = rng.integers(17, size, 48).tolist()
        whole = real.forward(tokens, rows=48).copy()
        real.rollback(prefix)
        for width in (2, 3, 7, 16, 17, 3):
            begin = real.length - prefix
            rows = real.forward(tokens[begin : begin + width], rows=width)
            np.testing.assert_array_equal(rows, whole[begin : begin + width])


def test_exact_mode_does_not_depend_on_how_the_prompt_was_read(bundled: Path) -> None:
    """Lost otherwise: a reply would hang on what an earlier turn left in the cache, not on the seed."""
    tokens = [int(token) for token in np.random.default_rng(3).integers(100, 40_000, 150)]
    with Model(bundled) as model, Context(model, 512, ContextSettings(exact=True)) as context:
        found: list[int] = []
        for split in (0, 1, 2, 60, 97, 149):
            context.rollback(0)
            if split:
                context.forward(tokens[:split], rows=0)
            context.forward(tokens[split:], rows=0)
            found.append(context.forward([5, 6, 7], rows=3).copy())
    for rows in found[1:]:
        np.testing.assert_array_equal(rows, found[0])


@pytest.mark.parametrize("rejected", [1, 2, 17, 100])
def test_rollback_leaves_no_trace(tiny: Model, context: Context, rejected: int) -> None:
    """Lost otherwise: a rejected draft would go on to shape the reply."""
    context.forward(TOKENS[:30], rows=0)
    context.forward(TOKENS[100 : 100 + rejected], rows=0)
    context.rollback(30)
    assert context.length == 30
    after = context.forward(TOKENS[30:35], rows=5).copy()
    with Context(tiny, 1024, SETTINGS) as fresh:
        fresh.forward(TOKENS[:30], rows=0)
        np.testing.assert_array_equal(after, fresh.forward(TOKENS[30:35], rows=5))


def test_rollback_of_nothing_changes_nothing(context: Context) -> None:
    """Lost otherwise: a pass that accepts all would damage the cache."""
    context.forward(TOKENS[:10], rows=0)
    context.rollback(10)
    assert context.length == 10
    row = context.forward(TOKENS[10:12]).copy()
    context.rollback(10)
    np.testing.assert_array_equal(context.forward(TOKENS[10:12]), row)


def test_a_rollback_forwards_is_refused(context: Context) -> None:
    """Lost otherwise: positions that hold nothing would count as cached."""
    context.forward(TOKENS[:10], rows=0)
    with pytest.raises(ValueError, match="cannot roll 10 tokens back to 11"):
        context.rollback(11)
    assert context.length == 10


def test_more_than_the_capacity_is_refused_and_the_last_slots_work(tiny: Model) -> None:
    """Lost otherwise: a crash where the context is nearly full."""
    with Context(tiny, 256, SETTINGS) as small:
        assert small.capacity == 256
        small.forward(TOKENS[:250], rows=0)
        with pytest.raises(ValueError, match="7 tokens do not fit after 250"):
            small.forward(TOKENS[:7])
        assert small.length == 250
        assert np.isfinite(small.forward(TOKENS[250:256], rows=6)).all()
        small.rollback(255)
        assert np.isfinite(small.forward(TOKENS[255:256])).all()


def test_rows_beyond_the_tokens_or_the_buffer_are_refused(context: Context) -> None:
    """Lost otherwise: memory after llama.cpp's buffer would be read as logits."""
    with pytest.raises(ValueError, match="3 rows of 2 tokens"):
        context.forward(TOKENS[:2], rows=3)
    with pytest.raises(ValueError, match="rows of"):
        context.forward(TOKENS[:200], rows=MAX_ROWS + 1)
    assert context.length == 0


@pytest.mark.parametrize("total", [64, 65, 66, 128, 129, 130, 193, 300])
@pytest.mark.parametrize("rows", [0, 1, 2, 64])
def test_long_forwards_keep_their_rows_together_at_a_chunk_border(
    context: Context, reference: Rows, total: int, rows: int
) -> None:
    """Lost otherwise: a prompt of an unlucky length would answer from the wrong rows."""
    got = context.forward(TOKENS[:total], rows=rows)
    assert context.length == total and got.shape[0] == rows
    np.testing.assert_allclose(got, reference[total - rows : total], atol=NOISE)


@pytest.fixture(scope="module")
def reference(tiny: Model) -> Rows:
    return one_by_one(tiny, TOKENS)


def test_513_tokens_in_chunks_of_64(tiny: Model, context: Context) -> None:
    """Lost otherwise: the one token after the last chunk."""
    tokens = (TOKENS * 2)[:513]
    rows = context.forward(tokens, rows=2).copy()
    assert context.length == 513
    np.testing.assert_allclose(rows, one_by_one(tiny, tokens)[-2:], atol=NOISE)


def test_stopping_a_long_forward_leaves_a_whole_prefix(context: Context, reference: Rows) -> None:
    """Lost otherwise: Ctrl+C in a long prompt would leave a cache that nobody can name."""
    for asked in (1, 2, 5, 40):
        calls = iter([False] * asked)
        context.rollback(0)
        context.stop = lambda calls=calls: next(calls, True)  # type: ignore[misc]
        with pytest.raises(Interrupted):
            context.forward(TOKENS[:300])
        kept = context.length
        assert kept % 64 == 0 and kept < 300
        context.stop = lambda: False
        rows = context.forward(TOKENS[kept:300])
        assert context.length == 300
        np.testing.assert_allclose(rows, reference[299:], atol=NOISE)


def test_a_gpu_reads_little_at_once(tiny_path: Path) -> None:
    """Lost otherwise: Esc, for the seconds that 512 tokens take there: a GPU ends no pass early."""
    for on_gpu, kept in ((False, 300), (True, 64)):
        with Model(tiny_path) as model:
            model.on_gpu = on_gpu
            with Context(model, 512, ContextSettings(threads=1)) as context:
                context.stop = lambda context=context: context.length > 0  # type: ignore[misc]
                with nullcontext() if kept == 300 else pytest.raises(Interrupted):
                    context.forward(TOKENS, rows=0)
                assert context.length == kept


def test_what_a_gpu_reads_at_once_follows_its_speed() -> None:
    """Lost otherwise: the speed of a fast one, whose passes should be wide, or Esc on a slow one."""
    chunk = ChunkSize(512, adapts=True)
    assert chunk.tokens == 64
    for tokens_per_second, reached in ((10_000, 512), (200, 128), (5, 32)):
        for _ in range(9):
            chunk.observe(chunk.tokens, chunk.tokens / tokens_per_second)
        assert chunk.tokens == reached


def test_a_short_forward_never_asks_to_stop(context: Context) -> None:
    """Lost otherwise: a pass could end half verified."""
    context.stop = lambda: True
    context.forward(TOKENS[:MAX_ROWS], rows=MAX_ROWS)
    assert context.length == MAX_ROWS


TREE = Tree((-1, 0, -1, 2, 2, 4))


def path(node: int) -> list[int]:
    """The nodes of TREE from the root's child to a node."""
    found: list[int] = []
    while node >= 0:
        found.insert(0, node)
        node = TREE.parents[node]
    return found


@pytest.mark.parametrize("node", [-1, 1, 2, 3, 5])
def test_a_tree_is_read_as_if_each_branch_were_alone(tiny: Model, context: Context, node: int) -> None:
    """Lost otherwise: a tree's branches would see one another's tokens, or a rejected one would stay."""
    tokens = TOKENS[40:47]
    context.forward(TOKENS[:40], rows=0)
    rows = context.forward_tree(tokens, TREE).copy()
    with Context(tiny, 1024, SETTINGS) as alone:
        alone.forward(TOKENS[:40], rows=0)
        for leaf in (1, 3, 5):
            nodes = path(leaf)
            chain = [tokens[0], *(tokens[1 + each] for each in nodes)]
            expected = alone.forward(chain, rows=len(chain))
            np.testing.assert_allclose(rows[[0, *(1 + each for each in nodes)]], expected, atol=NOISE)
            alone.rollback(40)
        context.commit(node)
        kept = [tokens[0], *(tokens[1 + each] for each in path(node))]
        assert context.length == 40 + len(kept)
        alone.forward(kept, rows=0)
        # The cells lie elsewhere now, so sums are rounded differently.
        np.testing.assert_allclose(
            context.forward(TOKENS[60:62], rows=2), alone.forward(TOKENS[60:62], rows=2), atol=NOISE
        )
        # What was dropped is gone for good, and another tree can be read.
        again = context.forward_tree(TOKENS[62:65], Tree((-1, -1))).copy()
        alone.rollback(alone.length)
        np.testing.assert_allclose(again[:2], alone.forward(TOKENS[62:64], rows=2), atol=NOISE)


def test_a_tree_whose_pass_came_to_nothing_leaves_no_branch(context: Context) -> None:
    """Lost otherwise: the next tokens would see those of a draft that nobody verified."""
    context.forward(TOKENS[:40], rows=0)
    expected = context.forward(TOKENS[40:43], rows=3).copy()
    context.rollback(40)
    context.forward_tree(TOKENS[50:57], TREE)
    context.recover()
    np.testing.assert_array_equal(context.forward(TOKENS[40:43], rows=3), expected)


def test_a_tree_that_has_no_room_is_refused(context: Context) -> None:
    """Lost otherwise: llama.cpp would end the process."""
    context.forward(TOKENS[:40], rows=0)
    with pytest.raises(ValueError, match="5 tokens in 4 branches"):
        context.forward_tree(TOKENS[:5], Tree((-1, -1, -1, -1)))
    with pytest.raises(ValueError, match="not over a tree"):
        context.commit(0)


def test_hidden_states_belong_to_the_rows(tiny: Model) -> None:
    """Lost otherwise: a trained head would draft from another position's thought."""
    with Context(tiny, 256, ContextSettings(threads=1, hidden_states=True)) as context:
        rows = context.forward(TOKENS[:4], rows=4).copy()
        states = context.hidden_states(4).copy()
        assert states.shape == (4, tiny.width)
        assert len({state.tobytes() for state in states}) == 4 and np.isfinite(states).all()
        context.rollback(3)
        np.testing.assert_allclose(context.forward(TOKENS[3:4]), rows[3:], atol=NOISE)
        np.testing.assert_allclose(context.hidden_states(1), states[3:], atol=NOISE)
    with Context(tiny, 256, ContextSettings(threads=1)) as without, pytest.raises(ValueError):
        without.hidden_states(1)


LAST_ROWS = """
import sys
from pathlib import Path
import numpy as np
from app.llama.context import Context
from app.llama.model import Model
from app.llama.settings import ContextSettings
tokens = list(range(3, 3 + int(sys.argv[2])))
with Model(Path(sys.argv[1])) as model:
    rows = []
    for hidden in (False, True):
        with Context(model, 256, ContextSettings(threads=1, hidden_states=hidden)) as context:
            rows.append(context.forward(tokens, rows=3).copy())
print(np.abs(rows[0] - rows[1]).max() < 0.15)
"""


@pytest.mark.parametrize("total", [8, 100])
def test_hidden_states_keep_the_last_rows(tiny_path: Path, total: int) -> None:
    """Lost otherwise: a head would be fed the first positions, and a long prompt would end the process."""
    assert run_script(LAST_ROWS, tiny_path, total) == "True"


SMALL = """
import sys
from pathlib import Path
from app.llama.context import Context
from app.llama.model import Model
from app.llama.settings import ContextSettings
with Model(Path(sys.argv[1])) as model:
    with Context(model, int(sys.argv[2]), ContextSettings(threads=1)) as context:
        context.forward(list(range(3, 3 + context.capacity)))
        print(context.length == context.capacity)
"""


@pytest.mark.parametrize("length", [2, 16, 63])
def test_a_tiny_context_does_not_abort(tiny_path: Path, length: int) -> None:
    """Lost otherwise: --ctx 16 ends the program with a native assertion."""
    assert run_script(SMALL, tiny_path, length) == "True"


CYCLES = """
import sys
from pathlib import Path
from app.llama.context import Context
from app.llama.model import Model
from app.llama.settings import ContextSettings
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1])
def cycle():
    with Model(Path(sys.argv[1])) as model:
        with Context(model, 2048, ContextSettings(threads=1)) as context:
            context.forward(list(range(3, 63)), rows=2)
for _ in range(10): cycle()
before = resident()
for _ in range(60): cycle()
print((resident() - before) * 4096)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="resident memory is read from /proc")
def test_opening_and_closing_does_not_leak(tiny_path: Path) -> None:
    """Lost otherwise: changing models in a long session fills the memory."""
    # One leaked cache a cycle would be 60 times half a megabyte, one leaked batch or buffer still more.
    assert int(run_script(CYCLES, tiny_path)) < 12_000_000
