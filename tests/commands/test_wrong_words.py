"""A word that names nothing is told before the screen is taken, and with what was probably meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Ask


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("doctr",), 2, 'There is no command "doctr". Did you mean `specchat doctor`?'),
        (("doctr", "--quick"), 2, "Did you mean `specchat doctor`?"),
        (("qwen9-8b",), 3, 'There is no model "qwen9-8b" (did you mean qwen3-8b?)'),
        (("missing.gguf",), 3, 'There is no model "missing.gguf"'),
        (("--draft", "missing.gguf"), 3, 'There is no model "missing.gguf"'),
        (("--quikc",), 2, "See specchat --help."),
    ],
)
def test_words_that_name_nothing(
    ask: Ask,
    arguments: tuple[str, ...],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else: the chat opens over a mistyped command, and its sentence is lost behind a screen."""
    for name in ("HOME", "USERPROFILE", "LOCALAPPDATA", "APPDATA", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    outcome = ask(*arguments)
    assert outcome.code == code and outcome.out == ""
    assert said in outcome.err and outcome.err.count("\n") == 1


def test_the_version_names_llama_cpp_too(ask: Ask) -> None:
    outcome = ask("--version")
    assert outcome.code == 0 and outcome.out.startswith("specchat ") and "llama-cpp-python" in outcome.out
