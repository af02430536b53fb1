"""What models are called: without these the chat shows a training run's name, or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.models.gguf import Header, read_header
from app.models.naming import Name, name_of, with_draft
from tests.tiny import write_tiny

DIGEST = "0123456789abcdef" * 4


def header(file: str, **general: object) -> Header:
    metadata = {f"general.{key}": value for key, value in {"file_type": 15, **general}.items()}
    return Header(Path("models") / file, 0, 3, metadata, {}, (), 0, 32)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("file", "general", "name"),
    [
        (
            "SmolLM2-135M-Instruct.Q4_1.gguf",
            {"name": "Smollm2 135M 8k Mix1 Ep2"},
            "SmolLM2-135M-Instruct Q4_1",
        ),
        ("qwen3-0.6b-q8_0.gguf", {"name": "Qwen3 0.6B"}, "qwen3-0.6b Q8_0"),
        ("Llama-3.2-1B-Instruct-UD-Q4_K_XL.gguf", {}, "Llama-3.2-1B-Instruct UD-Q4_K_XL"),
        ("Some-7B.i1-IQ3_XXS.gguf", {}, "Some-7B IQ3_XXS"),
        ("gpt-oss-20b-mxfp4.GGUF", {}, "gpt-oss-20b MXFP4"),
        ("big-Q4_K_M-00001-of-00003.gguf", {}, "big Q4_K_M"),
        # Where the name does not say how it was quantised the header does.
        ("my finetune.gguf", {"name": "other"}, "my finetune Q4_K_M"),
        # Names that say nothing.
        ("model.gguf", {"name": "Qwen2.5 0.5B Instruct"}, "Qwen2.5 0.5B Instruct Q4_K_M"),
        ("ggml-model-q4_0.gguf", {"name": "/home/x/models/zephyr-7b"}, "zephyr-7b Q4_0"),
        (
            "unsloth.Q5_K_M.gguf",
            {"name": "model", "basename": "Phi-4", "size_label": "14B"},
            "Phi-4-14B Q5_K_M",
        ),
        (f"sha256-{DIGEST}", {"name": "Meta Llama 3.1 8B"}, "Meta Llama 3.1 8B Q4_K_M"),
        (DIGEST, {"file_type": 999}, f"{DIGEST[:60]}"),
        ("model.gguf", {"name": ""}, "model.gguf Q4_K_M"),
        ("model.gguf", {"name": "x\x1b[2J\n" + "y" * 5000}, "x[2J " + "y" * 54 + "… Q4_K_M"),
        ("Q4_0.gguf", {"name": "Tiny"}, "Tiny Q4_0"),
        ("llama-2-7b-chat.Q4_K_M.gguf", {}, "llama-2-7b-chat Q4_K_M"),
        ("llama-3.gguf", {}, "llama-3 Q4_K_M"),
    ],
)
def test_names(file: str, general: dict[str, object], name: str) -> None:
    """Else: a person does not know which model answers."""
    assert str(name_of(header(file, **general))) == name


def test_a_draft_beside_its_model(tmp_path: Path) -> None:
    """Else: the header has no room for the chat's title, or says the same twice."""
    target = name_of(read_header(write_tiny(tmp_path / "tiny.gguf")))
    assert target == Name("tiny", "F32")
    assert with_draft(str(target), Name("Tiny", "Q4_0").beside(target)) == "tiny F32 + Q4_0 draft"
    assert with_draft(str(target), Name("small", "Q8_0").beside(target)) == "tiny F32 + small Q8_0 draft"
    assert with_draft("tiny F32", None) == "tiny F32"
