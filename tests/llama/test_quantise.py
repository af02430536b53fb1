"""Requantised copies, from which measured pairs of target and draft are made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.errors import SpecchatError
from app.llama.context import Context
from app.llama.model import Model
from app.llama.quantise import FileType, requantise
from app.llama.settings import ContextSettings
from app.models.gguf import read_header


def test_a_copy_loads_and_agrees(bundled: Path, requantised: Callable[[FileType], Path]) -> None:
    """Lost otherwise: benchmarks of pairs that do not load, or say other things."""
    path = requantised("Q8_0")
    assert read_header(path).quantisation == "Q8_0"
    rows = []
    for file in (bundled, path):
        with Model(file) as model, Context(model, 256, ContextSettings(threads=1)) as context:
            tokens = model.tokenise("The capital of France is")
            rows.append(context.forward(tokens)[0].copy())
    assert rows[0].argmax() == rows[1].argmax()


def test_a_copy_that_is_there_is_kept(tiny_path: Path, tmp_path: Path) -> None:
    """Lost otherwise: minutes for each run of a benchmark."""
    target = tmp_path / "new" / "copy.gguf"
    assert requantise(tiny_path, target, "Q8_0") == target
    with Model(target) as model:
        assert model.vocabulary.size == 288
    written = target.stat().st_mtime_ns
    assert requantise(tmp_path / "gone.gguf", target, "F32") == target
    assert target.stat().st_mtime_ns == written
    assert [path.name for path in target.parent.iterdir()] == ["copy.gguf"]


@pytest.mark.parametrize("fault", ["missing", "text", "cut"])
def test_a_source_that_fails_leaves_no_file(tiny_path: Path, tmp_path: Path, fault: str) -> None:
    """Lost otherwise: half a model under a good name, which the next run loads."""
    source = tmp_path / "source.gguf"
    if fault == "text":
        source.write_text("not a model")
    elif fault == "cut":
        source.write_bytes(tiny_path.read_bytes()[:100_000])
    target = tmp_path / "out" / "copy.gguf"
    with pytest.raises(SpecchatError, match=r"source\.gguf could not be requantised to Q8_0: check"):
        requantise(source, target, "Q8_0")
    assert list(target.parent.iterdir()) == []
