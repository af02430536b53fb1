"""What is said of a model's memory agrees with what the model does."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.llama import memory
from app.models.estimate import parts
from app.models.gguf import read_header
from app.models.memory_words import kind_in_words, said_of_memory, way_back
from app.models.shape import memory_kind
from tests.architectures import write_architecture
from tests.tiny import Value, write_tiny

PROPOSERS = {"lfm2": "hybrid", "qwen35": "hybrid", "mamba": "recurrent", "gemma3": "sliding window"}


@pytest.mark.parametrize(("architecture", "kind"), PROPOSERS.items())
def test_the_kind_is_told_by_the_header(architecture: str, kind: str, tmp_path: Path) -> None:
    """Lost otherwise: that a download speculates in another way, before it is loaded."""
    path = write_architecture(tmp_path / "model.gguf", architecture)
    assert memory_kind(read_header(path)) == kind
    assert kind_in_words(kind).startswith(f"{kind}: ")


def test_nothing_is_said_of_attention(tmp_path: Path) -> None:
    assert memory_kind(read_header(write_tiny(tmp_path / "model.gguf"))) is None
    assert way_back("attention") == way_back("") == ""
    assert said_of_memory("attention", 0) == "attention"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("attention.head_count_kv", ["a", "b"]),
        ("attention.recurrent_layers", ["a"]),
        ("attention.head_count_kv", [float("nan"), 2.0]),
    ],
)
def test_a_header_that_holds_nonsense_is_survived(key: str, value: Value, tmp_path: Path) -> None:
    """Lost otherwise: the whole list of models, for one file."""
    header = read_header(write_tiny(tmp_path / "model.gguf", extra={f"llama.{key}": value}))
    assert memory_kind(header) is None
    assert parts(header, 512, "f16").table > 0


def test_every_way_back_is_explained() -> None:
    """Lost otherwise: the explanation of a kind that is named anew in app.llama."""
    labels = {
        each.label
        for each in vars(memory).values()
        if isinstance(each, type) and issubclass(each, memory.CopiedMemory)
    }
    assert len(labels) == 3 and all(map(way_back, labels))


def test_a_copy_has_its_size() -> None:
    assert said_of_memory("snapshots", 66_000) == "snapshots, 66 KB a copy"
    assert said_of_memory("copied state", 19_400_000) == "copied state, 19.4 MB a copy"
