"""Headers that llama.cpp would end the process over: they must be refused before it sees them."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.models.gguf import read_header
from app.models.usable import load_problem
from tests.tiny import BYTES, Extra, tokenizer, write_tiny


def said(folder: Path, extra: Extra | None = None) -> str | None:
    return load_problem(read_header(write_tiny(folder / "some.gguf", extra=extra)))


def vocabulary(token: int, text: str) -> Extra:
    """The tiny vocabulary with another text at one id."""
    found = tokenizer(288, False, None)["tokenizer.ggml.tokens"]
    assert isinstance(found, list)
    return {"tokenizer.ggml.tokens": [*found[:token], text, *found[token + 1 :]]}


def test_a_whole_file_passes(tmp_path: Path, bundled: Path) -> None:
    """Lost otherwise: every good model."""
    assert said(tmp_path) is None
    assert load_problem(read_header(bundled)) is None


@pytest.mark.parametrize(
    ("extra", "what"),
    [
        ({"block_count": 0}, "it claims 0 layers"),
        ({"block_count": 513}, "it claims 513 layers"),
        ({"nextn_predict_layers": 3}, "it claims 3 prediction layers of 2"),
        ({"expert_count": 8}, "it does not say how many of its 8 experts are used"),
        ({"expert_count": 1025, "expert_used_count": 2}, "it claims 1,025 experts"),
        ({"expert_count": 8, "expert_used_count": 9}, "it claims to use 9 of 8 experts"),
        ({"expert_count": 8, "expert_used_count": 0}, "it claims to use 0 of 8 experts"),
        ({"expert_used_count": 2}, "it claims to use 2 of 0 experts"),
        ({"expert_group_count": 1}, "it claims 1 groups of 0 experts"),
        (
            {"expert_count": 9, "expert_used_count": 1, "expert_group_count": 2},
            "it claims to use 0 of 2 groups of 9 experts",
        ),
        ({"attention.layer_norm_rms_epsilon": -1.0}, "its layer_norm_rms_epsilon is -1.0"),
        ({"attention.layer_norm_rms_epsilon": float("nan")}, "its layer_norm_rms_epsilon is nan"),
        ({"rope.scaling.type": "spiral"}, "its rope.scaling.type is 'spiral'"),
    ],
)
def test_hyper_parameters_that_llama_cpp_asserts(tmp_path: Path, extra: Extra, what: str) -> None:
    """Lost otherwise: the whole program, to one damaged number."""
    problem = said(tmp_path, {f"llama.{key}": value for key, value in extra.items()})
    assert problem == f"some.gguf is damaged: {what}; download it again."


def test_experts_that_add_up_pass(tmp_path: Path) -> None:
    """Lost otherwise: every mixture of experts."""
    mixture: Extra = {
        "llama.expert_count": 8,
        "llama.expert_used_count": 2,
        "llama.expert_group_count": 4,
        "llama.expert_group_used_count": 2,
    }
    assert said(tmp_path, mixture) is None


def test_an_alignment_that_tensors_cannot_have(tmp_path: Path) -> None:
    """Lost otherwise: the program, while the weights are put into memory."""
    problem = said(tmp_path, {"general.alignment": 8})
    assert problem is not None and "aligned to 8 bytes" in problem


def test_a_token_that_comes_twice(tmp_path: Path) -> None:
    """Lost otherwise: the program, to one flipped bit of the vocabulary."""
    problem = said(tmp_path, vocabulary(BYTES + 65, "<0x42>"))
    assert problem == "some.gguf is damaged: its vocabulary holds a token twice; download it again."
    assert said(tmp_path, vocabulary(280, "")) is None


def test_a_byte_without_a_token(tmp_path: Path) -> None:
    """Lost otherwise: the program, as soon as a text holds that byte."""
    problem = said(tmp_path, vocabulary(BYTES + 9, "<0xZZ>"))
    assert problem == "some.gguf is damaged: its vocabulary has no token for the byte 9; download it again."
    assert said(tmp_path, vocabulary(BYTES + 9, "\t")) is None


def test_a_vocabulary_that_is_no_list_of_texts(tmp_path: Path) -> None:
    """Lost otherwise: seconds and gigabytes, to a list of bytes where the tokens should be."""
    problem = said(tmp_path, {"tokenizer.ggml.tokens": [1, 2, 3]})
    assert problem == "some.gguf is damaged: its vocabulary is not a list of texts; download it again."
    assert said(tmp_path, {"tokenizer.ggml.tokens": 5}) == problem
