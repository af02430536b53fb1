"""Whether a draft speaks the target's tokens: if not, it must be said, never tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.errors import SpecchatError
from app.llama.model import Model
from app.llama.settings import ModelSettings
from app.models.compatibility import draft_problem
from app.models.locate import open_draft
from tests.tiny import BOS, EOS, IM_END, Extra, tokenizer, write_tiny


def problem(
    folder: Path, target: Extra | None = None, draft: Extra | None = None, size: int = 288
) -> str | None:
    """What is said of a pair with this metadata; `size` is that of the draft's vocabulary."""
    vocabulary = ModelSettings(vocabulary_only=True)
    first = write_tiny(folder / "target.gguf", extra=target)
    second = write_tiny(folder / "draft.gguf", extra=draft, vocabulary=size, seed=1)
    with Model(first, vocabulary) as ours, Model(second, vocabulary) as theirs:
        return draft_problem(ours, theirs)


def tokens(**changed: str) -> Extra:
    """The tiny vocabulary with other texts at some ids, given as t5="…"."""
    found = tokenizer(288, False, None)["tokenizer.ggml.tokens"]
    assert isinstance(found, list)
    texts = list(found)
    for name, text in changed.items():
        texts[int(name[1:])] = text
    return {"tokenizer.ggml.tokens": texts}


def test_a_copy_is_accepted(tmp_path: Path) -> None:
    """Lost otherwise: no pair could be used."""
    assert problem(tmp_path) is None


@pytest.mark.parametrize("size", [288 + 128, 288 + 5, 288 - 20])
def test_padding_of_the_vocabulary_is_accepted(tmp_path: Path, size: int) -> None:
    """Lost otherwise: real pairs, such as Qwen2.5's, whose sizes differ by padding."""
    assert problem(tmp_path, size=size) is None


def test_another_size_is_refused(tmp_path: Path) -> None:
    """Lost otherwise: drafts of tokens that the target does not have."""
    assert problem(tmp_path, size=288 + 129) == "its vocabulary has 417 tokens, the target's 288"


def test_other_texts_are_refused_and_shown(tmp_path: Path) -> None:
    """Lost otherwise: a draft that guesses ids of other words, and an acceptance of nothing."""
    said = problem(tmp_path, draft=tokens(t270="other"))
    assert said is not None and said.startswith("token 270 is 'other' there and ")


def test_the_last_common_token_is_compared(tmp_path: Path) -> None:
    """Lost otherwise: vocabularies that part only at their end."""
    said = problem(tmp_path, draft=tokens(t287="end"))
    assert said is not None and said.startswith("token 287 is 'end'")


def test_control_tokens_may_be_named_otherwise(tmp_path: Path) -> None:
    """Lost otherwise: good pairs whose first tokens were renamed by a conversion."""
    assert problem(tmp_path, draft=tokens(t0="[UNK]", t1="[BOS]")) is None


def test_another_use_of_bos_is_refused(tmp_path: Path) -> None:
    """Lost otherwise: the draft would read a text shifted by a token."""
    said = "it begins a text with another token"
    adds: Extra = {"tokenizer.ggml.add_bos_token": True}
    assert problem(tmp_path, draft=adds) == said
    assert problem(tmp_path, target=adds) == said
    assert problem(tmp_path, target=adds, draft=adds) is None
    assert problem(tmp_path, target=adds, draft={**adds, "tokenizer.ggml.bos_token_id": EOS}) == said
    # Where nobody writes it, it does not matter which it is.
    assert problem(tmp_path, draft={"tokenizer.ggml.bos_token_id": EOS}) is None


def test_another_use_of_eos_is_refused(tmp_path: Path) -> None:
    """Lost otherwise: the same at the end of a text."""
    said = "it ends a text with another token"
    adds: Extra = {"tokenizer.ggml.add_eos_token": True}
    assert problem(tmp_path, draft=adds) == said
    assert problem(tmp_path, target=adds, draft=adds) is None
    assert problem(tmp_path, target=adds, draft={**adds, "tokenizer.ggml.eos_token_id": IM_END}) == said
    assert problem(tmp_path, draft={"tokenizer.ggml.eos_token_id": BOS}) is None


def test_another_kind_of_tokenizer_is_refused(tmp_path: Path) -> None:
    """Lost otherwise: the same id would stand for other bytes."""
    byte_pairs: Extra = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.merges": ["t h", "h e"],
    }
    assert problem(tmp_path, draft=byte_pairs) == "its tokenizer is of another kind"


def test_the_refusal_names_both_files_and_a_way_out(tmp_path: Path) -> None:
    """Lost otherwise: a person who knows only that it did not work."""
    path = write_tiny(tmp_path / "far.gguf", vocabulary=600)
    with (
        Model(write_tiny(tmp_path / "target.gguf")) as target,
        pytest.raises(SpecchatError, match=r"far\.gguf cannot draft for target\.gguf: .*--proposer lookup"),
    ):
        open_draft(path, target, ModelSettings())
