"""Memory that cannot be cut: wherever it went back to, what follows is what a fresh cache would have said."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import llama_cpp
import numpy as np
import pytest
from numpy.typing import NDArray

from app.llama.context import Context, Interrupted
from app.llama.model import Model
from app.models.gguf import read_header
from app.models.shape import Shape
from tests.architectures import KINDS, Kind

LENGTH = 900
TOKENS = [int(token) for token in np.random.default_rng(3).integers(3, 259, LENGTH)]

Make = Callable[..., Context]


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


@pytest.fixture(scope="module")
def model(kind: Kind, architectures: Callable[[Kind], Model]) -> Model:
    return architectures(kind)


@pytest.fixture
def make(kind: Kind, model: Model) -> Iterator[Make]:
    made: list[Context] = []

    def one(length: int = LENGTH) -> Context:
        made.append(Context(model, length, kind.settings))
        return made[-1]

    yield one
    for context in made:
        context.close()


def assert_fresh(make: Make, tokens: list[int], row: NDArray[np.float32]) -> None:
    """The logits after these tokens are those of a context that has read nothing else."""
    context = make()
    # Outside of exact mode only rounding may differ. One lost row of a window shows by twice as much.
    np.testing.assert_allclose(
        row, context.forward(tokens)[0], rtol=0, atol=0 if context.settings.exact else 0.02
    )


def test_the_kind_is_the_one_that_the_architecture_has(kind: Kind, model: Model, make: Make) -> None:
    """Snapshots that llama.cpp silently refused would be taken up all the same."""
    context = make()
    assert context.memory_kind == kind.label
    context.forward(TOKENS[:10])
    if kind.label != "sliding window":
        # What its file says, and a few bytes more for each layer.
        told = Shape(read_header(model.path)).state_bytes
        assert told < context.state_bytes < told + 200


@pytest.mark.parametrize("seed", range(6))
def test_logits_behind_any_way_back_are_those_of_a_fresh_cache(make: Make, seed: int) -> None:
    """A state that is one token off answers from tokens that were never said."""
    rng = random.Random(seed)
    context = make()
    held: list[int] = []

    def read(count: int, rows: int) -> NDArray[np.float32]:
        tokens = [rng.randrange(3, 259) for _ in range(count)]
        held.extend(tokens)
        found: NDArray[np.float32] = context.forward(tokens, rows).copy()
        return found

    read(rng.choice([1, 2, 63, 64, 65, 200]), 0)
    context.keep()
    for _ in range(40):
        if len(held) > LENGTH - 80:
            break
        before = len(held)
        width = rng.choice([1, 1, 2, 3, 5, 9, 17, 33, 47])
        rows = read(width, width)
        if rng.random() < 0.1:
            assert_fresh(make, held, rows[-1])
        action = rng.random()
        if action < 0.6:
            length = before + rng.randint(0, width)
        elif action < 0.7:
            length = rng.randint(0, before)
        else:
            length = len(held)
        if action > 0.9:
            context.checkpoint()
        context.rollback(length)
        del held[length:]
        assert context.length == len(held)
    row = read(1, 1)[0]
    assert_fresh(make, held, row)


def test_a_draft_is_taken_back_token_by_token(make: Make) -> None:
    """A draft model makes a pass for each token, and goes back over all of them."""
    context = make()
    context.forward(TOKENS[:100], 0)
    held = TOKENS[:100]
    for first in range(100, 130, 3):
        context.forward(TOKENS[first : first + 1])
        held.append(TOKENS[first])
        context.checkpoint()
        for token in (5, 6, 7, 8):
            context.forward([token])
        context.rollback(len(held) + first % 4)
        held += [5, 6, 7, 8][: first % 4]
    assert_fresh(make, [*held, 9], context.forward([9])[0])


def test_what_was_kept_need_not_be_read_again(make: Make) -> None:
    """A turn is regenerated and gone on with: reading the whole chat again is the wait people feel."""
    context = make()
    context.forward(TOKENS[:300], 0)
    context.keep()
    context.forward(TOKENS[300:320], 0)
    context.keep()
    for token in range(30):
        context.forward([TOKENS[400 + token]])
    assert context.rewind(320) == 320
    assert context.rewind(300) == 300
    assert context.pending == 0
    assert_fresh(make, [*TOKENS[:300], 9], context.forward([9])[0])


def test_what_cannot_be_kept_is_read_again(make: Make, kind: Kind) -> None:
    """A chat that only shares its first tokens with the last one still answers, and says what was kept."""
    context = make()
    context.forward(TOKENS[:600], 0)
    kept = context.rewind(50)
    assert kept == (50 if kind.label == "sliding window" and kind.whole_window else 0)
    assert context.length == kept
    row = context.forward([*TOKENS[kept:50], 9])[0]
    assert_fresh(make, [*TOKENS[:50], 9], row)


def test_a_window_is_cut_just_where_it_is_still_there(make: Make, model: Model, kind: Kind) -> None:
    """llama.cpp cuts anywhere, and then reads on without the rows that are lost."""
    if kind.whole_window or kind.label != "sliding window":
        pytest.skip("no rows are lost")
    context = make()
    context.forward(TOKENS[:700], 0)
    first = llama_cpp.llama_memory_seq_pos_min(llama_cpp.llama_get_memory(context.pointer), 0)
    assert first > 0
    # A token at n sees itself and window - 1 before it.
    length = first + kind.window - 1
    assert context.rewind(length) == length
    row = context.forward([9])[0].copy()
    assert_fresh(make, [*TOKENS[:length], 9], row)
    assert context.rewind(length - 1) < length - 1


@pytest.mark.parametrize("often", [40, 190, 500])
def test_a_stopped_forward_leaves_a_whole_prefix(make: Make, often: int) -> None:
    """A state that half of a pass has gone into belongs to no text at all. llama.cpp asks some 50 times in
    each pass."""
    context = make()
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > often

    context.stop = stop
    with pytest.raises(Interrupted):
        context.forward(TOKENS[:800], 0)
    context.stop = lambda: False
    held = context.length
    assert held in range(0, 800, 48 if context.settings.exact else 64)
    context.forward(TOKENS[held:800], 0)
    assert_fresh(make, [*TOKENS[:800], 9], context.forward([9])[0])


def test_many_rejections_in_a_row_do_not_make_passes_ever_wider(make: Make) -> None:
    """What has to be read again grows with each of them, until it is read alone."""
    context = make()
    context.forward(TOKENS[:100], 0)
    longest = 0
    for step in range(60):
        context.forward([TOKENS[100 + step], *range(20, 36)], rows=17)
        context.rollback(101 + step)
        longest = max(longest, context.pending)
    assert longest < 16
    row = context.forward([9])[0]
    assert_fresh(make, [*TOKENS[:160], 9], row)


def test_the_smallest_contexts_can_be_made(make: Make) -> None:
    """Snapshots that do not fit into a pass would end the process."""
    for length in (1, 2, 3, 8, 9, 10):
        context = make(length=length)
        context.forward(TOKENS[:length], rows=1)
        context.rollback(0)
        context.forward(TOKENS[:length], rows=min(length, context.max_width))


def test_a_copy_that_cannot_be_loaded_is_done_without(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply may take longer then; it may not be wrong, nor fail."""
    context = make()
    context.forward(TOKENS[:300], 0)
    context.keep()
    context.forward(TOKENS[300:700], 0)
    monkeypatch.setattr("llama_cpp.llama_state_seq_set_data_ext", lambda *_: 0)
    context.rollback(290)
    assert_fresh(make, [*TOKENS[:290], 9], context.forward([9])[0])


def test_a_chat_goes_on_where_there_is_no_memory_for_copies(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then what cannot be cut is read again from the first token on."""
    monkeypatch.setattr("llama_cpp.llama_state_seq_get_data_ext", lambda *_: 0)
    context = make()
    context.forward(TOKENS[:100], 0)
    context.keep()
    held = TOKENS[:100]
    for step in range(4):
        context.forward(TOKENS[200:220], 20)
        held.append(TOKENS[200])
        context.rollback(101 + step)
        assert context.length == len(held)
    assert_fresh(make, [*held, 9], context.forward([9])[0])
