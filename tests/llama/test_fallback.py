"""What kills llama.cpp as a model is loaded is left out, and only that."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from app.llama.fallback import fallbacks, find_fallback, remembered_fallback
from app.llama.settings import ContextSettings, ModelSettings
from tests.dying import dying

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no signals there")
AS_ASKED = (ModelSettings(), ContextSettings())


@pytest.mark.parametrize(
    ("condition", "without"),
    [
        ("False", ""),
        ("parameters.flash_attn_type != 0", "flash attention"),
        ("True", None),
    ],
)
def test_the_first_that_lives_is_found_and_remembered(
    condition: str, without: str | None, tiny_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost otherwise: a model that can never be loaded, for something that it does not need."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", dying(tmp_path, condition))
    said: list[str] = []
    found = find_fallback(tiny_path, "tiny", *AS_ASKED, said.append)
    assert (found and found.without) == without
    assert said[0] == "a trial in a separate process"
    assert remembered_fallback("tiny", *AS_ASKED).without == (without or "")
    assert remembered_fallback("another", *AS_ASKED).without == ""


def test_what_is_left_out_is_kept_apart() -> None:
    """Each stays what was asked for in all but one thing; the last leaves everything out."""
    as_asked, *others, last = fallbacks(ModelSettings(mmap=False), ContextSettings(cache_type="q8_0"))
    assert as_asked.without == "" and len(others) == 3
    assert {(each.model.layouts, each.context.flash_attention, each.model.gpu_layers) for each in others} == {
        ("plain", "auto", -1),
        ("safe", "off", -1),
        ("safe", "auto", 0),
    }
    assert (last.model.layouts, last.context.flash_attention, last.model.gpu_layers) == ("plain", "off", 0)
    assert not last.model.mmap and last.context.cache_type == "q8_0"
