"""Pairs judged by headers: as llama.cpp judges models, which must not be loaded to fill a list."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from app.errors import SpecchatError
from app.llama.model import Model
from app.llama.settings import ModelSettings
from app.models.gguf import read_header
from app.models.locate import open_draft
from app.models.pairs import pair_problem, token_problem
from tests.tiny import BOS, EOS, IM_END, Extra, tokenizer, write_tiny


def tokens(**changed: str) -> Extra:
    """The tiny vocabulary with other texts at some ids, given as t5="…"."""
    found = tokenizer(288, False, None)["tokenizer.ggml.tokens"]
    assert isinstance(found, list)
    texts = list(found)
    for name, text in changed.items():
        texts[int(name[1:])] = text
    return {"tokenizer.ggml.tokens": texts}


PAIRS: Extra = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "default",
    "tokenizer.ggml.merges": ["t h", "h e"],
}
# What decides, or seems to: texts, kinds, ids that are there, are not, or lie outside the vocabulary.
VOCABULARIES: list[Extra] = [
    {},
    tokens(t270="other"),
    tokens(t287="end"),
    tokens(t0="[UNK]", t1="[BOS]"),
    {"tokenizer.ggml.add_bos_token": True},
    {"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.bos_token_id": EOS},
    {"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.bos_token_id": 9999},
    {"tokenizer.ggml.bos_token_id": EOS},
    {"tokenizer.ggml.add_eos_token": True},
    {"tokenizer.ggml.add_eos_token": True, "tokenizer.ggml.eos_token_id": IM_END},
    {"tokenizer.ggml.eos_token_id": BOS},
    PAIRS,
    {**PAIRS, "tokenizer.ggml.pre": "llama-bpe"},
    {**PAIRS, "tokenizer.ggml.pre": "glm4"},
    {**PAIRS, "tokenizer.ggml.pre": "granite-embed-multi-311m"},
    {**PAIRS, "tokenizer.ggml.pre": "chatglm-bpe", "tokenizer.ggml.add_bos_token": True},
    {**PAIRS, "tokenizer.ggml.bos_token_id": 9999, "tokenizer.ggml.add_bos_token": True},
    {**PAIRS, "tokenizer.ggml.eos_token_id": 9999, "tokenizer.ggml.add_eos_token": True},
    {
        **PAIRS,
        "tokenizer.ggml.pre": "glm4",
        "tokenizer.ggml.bos_token_id": 9999,
        "tokenizer.ggml.add_bos_token": True,
    },
]
# The same where the header does not say whether a text begins with BOS.
SILENT: list[Extra] = [{}, PAIRS, {**PAIRS, "tokenizer.ggml.pre": "llama-bpe"}]


def problem(
    folder: Path, target: Extra | None = None, draft: Extra | None = None, **drafts: int
) -> str | None:
    """What is said of a pair with this metadata, whose draft is smaller unless `drafts` say otherwise."""
    ours = write_tiny(folder / "target.gguf", extra=target)
    theirs = write_tiny(folder / "draft.gguf", extra=draft, **({"layers": 1} | drafts))  # type: ignore[arg-type]
    return pair_problem(read_header(ours), read_header(theirs))


def said_of_models(target: Model, draft: Model) -> str | None:
    """The same rule, asked of llama.cpp and two open models."""
    ours, theirs = target.vocabulary, draft.vocabulary
    if ours.kind != theirs.kind:
        return "its tokenizer is of another kind"
    if ours.add_bos != theirs.add_bos or (ours.add_bos and ours.bos != theirs.bos):
        return "it begins a text with another token"
    if ours.add_eos != theirs.add_eos or (ours.add_eos and ours.eos != theirs.eos):
        return "it ends a text with another token"
    if abs(ours.size - theirs.size) > 128:
        return f"its vocabulary has {theirs.size:,} tokens, the target's {ours.size:,}"
    for token in range(5, min(ours.size, theirs.size)):
        text, their = target.token_text(token), draft.token_text(token)
        if text != their:
            return f"token {token} is {their!r} there and {text!r} in the target"
    return None


def test_the_verdict_is_llama_cpps(tmp_path: Path) -> None:
    """Lost otherwise: a list that offers what is then refused, or hides what would fit."""
    paths = [
        write_tiny(tmp_path / f"{number}.gguf", extra=extra) for number, extra in enumerate(VOCABULARIES)
    ]
    for number, extra in enumerate(SILENT):
        paths.append(write_tiny(tmp_path / f"silent {number}.gguf", extra=extra))
        paths[-1].write_bytes(paths[-1].read_bytes().replace(b"ggml.add_bos_token", b"ggml.xxx_bos_token"))
    paths += [write_tiny(tmp_path / f"{size}.gguf", vocabulary=size) for size in (268, 293, 416, 417)]
    headers = [read_header(path) for path in paths]
    models = [Model(path, ModelSettings(vocabulary_only=True)) for path in paths]
    verdicts = set()
    for (ours, target), (theirs, draft) in itertools.product(zip(headers, models, strict=True), repeat=2):
        said = token_problem(ours, theirs)
        assert said == said_of_models(target, draft), (ours.path.name, theirs.path.name)
        verdicts.add(said)
    assert None in verdicts and len(verdicts) > 5


def test_a_draft_that_is_not_smaller_is_refused(tmp_path: Path) -> None:
    """Lost otherwise: a draft that costs as much as the model that it should speed up."""
    assert problem(tmp_path) is None
    assert problem(tmp_path, layers=2) == "it is not smaller than the target"
    assert problem(tmp_path, layers=3) == "it is not smaller than the target"
    assert problem(tmp_path, layers=3, vocabulary=700) == "its vocabulary has 700 tokens, the target's 288"


def test_the_first_part_of_a_split_target_says_nothing_of_its_size(tmp_path: Path) -> None:
    """Lost otherwise: every draft of the largest models."""
    assert problem(tmp_path, {"split.no": 0, "split.count": 9}, layers=3) is None


def test_a_token_is_shown_short_and_as_text(tmp_path: Path) -> None:
    """Lost otherwise: a line without end, or codes that a terminal acts on."""
    said = problem(tmp_path, draft=tokens(t270="\x1b[2J" + "x" * 5000))
    assert said is not None and said.startswith("token 270 is '\\x1b[2Jxxx") and len(said) < 200


def test_a_file_without_a_vocabulary(tmp_path: Path) -> None:
    ours = read_header(write_tiny(tmp_path / "target.gguf"))
    other = write_tiny(tmp_path / "draft.gguf", layers=1, extra={"tokenizer.ggml.tokens": [1] * 288})
    with pytest.raises(SpecchatError, match=r"draft\.gguf has no list of tokens"):
        token_problem(ours, read_header(other))


def test_a_file_that_shrank(tmp_path: Path) -> None:
    """Lost otherwise: the process, to a download that is begun again while the list is filled."""
    headers = [read_header(write_tiny(tmp_path / f"{name}.gguf")) for name in "ab"]
    headers[1].path.write_bytes(b"GGUF")
    with pytest.raises(SpecchatError, match=r"b\.gguf is damaged"):
        token_problem(*headers)


def spoken(
    folder: Path, target: Extra | None = None, draft: Extra | None = None, size: int = 288
) -> str | None:
    """What is said of a pair with this metadata; `size` is that of the draft's vocabulary."""
    first = write_tiny(folder / "target.gguf", extra=target)
    second = write_tiny(folder / "draft.gguf", extra=draft, vocabulary=size, seed=1)
    return token_problem(read_header(first), read_header(second))


def test_a_copy_is_accepted(tmp_path: Path) -> None:
    """Lost otherwise: no pair could be used."""
    assert spoken(tmp_path) is None


@pytest.mark.parametrize("size", [288 + 128, 288 + 5, 288 - 20])
def test_padding_of_the_vocabulary_is_accepted(tmp_path: Path, size: int) -> None:
    """Lost otherwise: real pairs, such as Qwen2.5's, whose sizes differ by padding."""
    assert spoken(tmp_path, size=size) is None


def test_another_size_is_refused(tmp_path: Path) -> None:
    """Lost otherwise: drafts of tokens that the target does not have."""
    assert spoken(tmp_path, size=288 + 129) == "its vocabulary has 417 tokens, the target's 288"


def test_other_texts_are_refused_and_shown(tmp_path: Path) -> None:
    """Lost otherwise: a draft that guesses ids of other words, and an acceptance of nothing."""
    said = spoken(tmp_path, draft=tokens(t270="other"))
    assert said is not None and said.startswith("token 270 is 'other' there and ")


def test_the_last_common_token_is_compared(tmp_path: Path) -> None:
    """Lost otherwise: vocabularies that part only at their end."""
    said = spoken(tmp_path, draft=tokens(t287="end"))
    assert said is not None and said.startswith("token 287 is 'end'")


def test_control_tokens_may_be_named_otherwise(tmp_path: Path) -> None:
    """Lost otherwise: good pairs whose first tokens were renamed by a conversion."""
    assert spoken(tmp_path, draft=tokens(t0="[UNK]", t1="[BOS]")) is None


def test_another_use_of_bos_is_refused(tmp_path: Path) -> None:
    """Lost otherwise: the draft would read a text shifted by a token."""
    said = "it begins a text with another token"
    adds: Extra = {"tokenizer.ggml.add_bos_token": True}
    assert spoken(tmp_path, draft=adds) == said
    assert spoken(tmp_path, target=adds) == said
    assert spoken(tmp_path, target=adds, draft=adds) is None
    assert spoken(tmp_path, target=adds, draft={**adds, "tokenizer.ggml.bos_token_id": EOS}) == said
    # Where nobody writes it, it does not matter which it is.
    assert spoken(tmp_path, draft={"tokenizer.ggml.bos_token_id": EOS}) is None


def test_another_use_of_eos_is_refused(tmp_path: Path) -> None:
    """Lost otherwise: the same at the end of a text."""
    said = "it ends a text with another token"
    adds: Extra = {"tokenizer.ggml.add_eos_token": True}
    assert spoken(tmp_path, draft=adds) == said
    assert spoken(tmp_path, target=adds, draft=adds) is None
    assert spoken(tmp_path, target=adds, draft={**adds, "tokenizer.ggml.eos_token_id": IM_END}) == said
    assert spoken(tmp_path, draft={"tokenizer.ggml.eos_token_id": BOS}) is None


def test_another_kind_of_tokenizer_is_refused(tmp_path: Path) -> None:
    """Lost otherwise: the same id would stand for other bytes."""
    byte_pairs: Extra = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.merges": ["t h", "h e"],
    }
    assert spoken(tmp_path, draft=byte_pairs) == "its tokenizer is of another kind"


def test_the_refusal_names_both_files_and_a_way_out(tmp_path: Path) -> None:
    """Lost otherwise: a person who knows only that it did not work."""
    path = write_tiny(tmp_path / "far.gguf", vocabulary=600)
    target = read_header(write_tiny(tmp_path / "target.gguf"))
    with pytest.raises(SpecchatError, match=r"far\.gguf cannot draft for target\.gguf: .*--proposer lookup"):
        open_draft(path, target, ModelSettings())
