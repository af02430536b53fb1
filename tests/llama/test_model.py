"""A model file, opened: its tokens, its facts, and every way in which it may not open."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.errors import SpecchatError
from app.llama.context import Context
from app.llama.model import Model
from app.llama.settings import ContextSettings, ModelSettings
from tests.tiny import BOS, BYTES, CHATML, EOS, IM_END, IM_START, write_tiny

TEXTS = [
    "Hello, world!",
    "  two spaces,\ta tab\n\n\nthree breaks \n",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich",
    "Привет, мир! Καλημέρα κόσμε",
    "日本語のテキスト、한국어 텍스트、中文文本",
    "مرحبا بالعالم",
    "👩‍👩‍👧‍👦 🏳️‍🌈 🤦🏽‍♀️",
    "e\u0301 decomposed, \u00e9 composed",
    "\u200b\ufeff\x00\x1b[31m",
    "def f(x):\n    return {'a': x ** 2}",
    "",
]


@pytest.fixture(scope="module")
def real(bundled: Path) -> Iterator[Model]:
    with Model(bundled, ModelSettings(vocabulary_only=True)) as model:
        yield model


@pytest.mark.parametrize("text", TEXTS)
def test_every_text_comes_back_from_its_tokens(real: Model, tiny: Model, text: str) -> None:
    """Lost otherwise: the model would read other words than the person wrote."""
    for model in (real, tiny):
        tokens = model.tokenise(text)
        assert all(0 <= token < model.vocabulary.size for token in tokens)
        assert model.detokenise(tokens).decode() == text


def test_a_lone_surrogate_does_not_crash(real: Model) -> None:
    """Lost otherwise: an undecodable byte on the command line ends in a traceback."""
    assert real.detokenise(real.tokenise("a\udcffb")) == b"a?b"


def test_control_tokens_act_only_where_they_may(real: Model, tiny: Model) -> None:
    """Lost otherwise: text that spells a control token would forge a turn of the chat."""
    text = "<|im_start|>user<|im_end|>"
    for model in (real, tiny):
        start, *_, end = model.tokenise(text, special=True)
        assert (model.token_text(start), model.token_text(end)) == ("<|im_start|>", "<|im_end|>")
        plain = model.tokenise(text, special=False)
        assert not {start, end} & set(plain)
        assert model.detokenise(plain).decode() == text
        assert {"<|im_start|>", "<|im_end|>"} <= model.special_texts
        assert model.piece(end) == b"" and model.piece(end, special=True) == b"<|im_end|>"
        assert model.detokenise([start, end], special=False) == b""


def test_end_tokens(real: Model, tiny: Model) -> None:
    """Lost otherwise: a reply would run on past its end."""
    assert tiny.end_tokens == {EOS, IM_END}
    assert set(real.tokenise("<|im_end|>")) <= real.end_tokens
    assert not set(real.tokenise("The end")) & real.end_tokens


def test_facts_of_the_file(tiny: Model, tiny_path: Path) -> None:
    """Lost otherwise: contexts of the wrong length, drafts of other vocabularies, prompts without shape."""
    vocabulary = tiny.vocabulary
    assert (vocabulary.size, vocabulary.bos, vocabulary.eos) == (288, BOS, EOS)
    assert not tiny.add_bos and tiny.bos == BOS and not vocabulary.add_eos
    assert (tiny.context_trained, tiny.layers, tiny.width) == (512, 2, 32)
    assert tiny.chat_template == CHATML
    assert tiny.description.startswith("llama") and 0 < tiny.bytes_of_weights < tiny_path.stat().st_size
    assert not tiny.recurrent and tiny.window == 0
    assert tiny.tokenise("\x07") == [BYTES + 7] and tiny.token_text(IM_START) == "<|im_start|>"


def test_a_file_without_template_or_name(tmp_path: Path) -> None:
    """Lost otherwise: such a model could not be opened at all."""
    with Model(write_tiny(tmp_path / "bare.gguf", template=None, extra={"general.name": ""})) as model:
        assert model.chat_template is None


@pytest.mark.parametrize("name", ["ünïcode – 模型.gguf", "two words [x].gguf"])
def test_names_of_files_in_any_script(tmp_path: Path, name: str) -> None:
    """Lost otherwise: a model in a folder with an accent in its name."""
    with Model(write_tiny(tmp_path / name)) as model:
        assert model.vocabulary.size == 288


def test_a_missing_file(tmp_path: Path) -> None:
    """Lost otherwise: a crash, or a message that does not name the file."""
    with pytest.raises(SpecchatError, match=r"gone\.gguf cannot be loaded \(.+\): check that the file"):
        Model(tmp_path / "gone.gguf")


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    """Lost otherwise: a crash on a file that was renamed."""
    path = tmp_path / "text.gguf"
    path.write_text("once upon a time " * 100)
    with pytest.raises(SpecchatError, match=r"text\.gguf cannot be loaded \(.+\)"):
        Model(path)


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_a_file_cut_short(tiny_path: Path, tmp_path: Path, share: float) -> None:
    """Lost otherwise: a download that broke off would crash, or answer nonsense."""
    data = tiny_path.read_bytes()
    path = tmp_path / "cut.gguf"
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(SpecchatError, match=r"check that the file is complete, or download it again\.$"):
        Model(path)


def test_an_unknown_architecture_asks_for_an_update(tmp_path: Path) -> None:
    """Lost otherwise: a person would download a good file again, for nothing."""
    path = write_tiny(tmp_path / "new.gguf", architecture="tomorrow")
    with pytest.raises(SpecchatError, match=r"'tomorrow'.*update llama-cpp-python"):
        Model(path)


def test_a_missing_hyper_parameter_is_named(tmp_path: Path) -> None:
    """Lost otherwise: an error that says nothing of what is wrong."""
    path = write_tiny(tmp_path / "odd.gguf", extra={"llama.embedding_length": 48})
    with pytest.raises(SpecchatError, match=r"odd\.gguf cannot be loaded \(.*(shape|expected).*\)"):
        Model(path)


def test_an_error_of_one_file_is_not_told_of_the_next(tmp_path: Path) -> None:
    """Lost otherwise: the reason shown would be an earlier file's."""
    with pytest.raises(SpecchatError):
        Model(write_tiny(tmp_path / "first.gguf", architecture="tomorrow"))
    with pytest.raises(SpecchatError) as second:
        Model(tmp_path / "second.gguf")
    assert "tomorrow" not in str(second.value)


def test_loading_tells_its_progress_and_can_be_stopped(tiny_path: Path) -> None:
    """Lost otherwise: a load of a minute without a sign of life, deaf to Ctrl+C."""
    shares: list[float] = []

    def go_on(share: float) -> bool:
        shares.append(share)
        return True

    Model(tiny_path, progress=go_on).close()
    assert shares == sorted(shares) and shares[-1] == 1.0
    with pytest.raises(SpecchatError):
        Model(tiny_path, progress=lambda share: False)
    Model(tiny_path).close()


def test_closing_twice_is_harmless(tiny_path: Path) -> None:
    """Lost otherwise: memory freed twice when a window and its owner both close."""
    model = Model(tiny_path, ModelSettings(mmap=False))
    context = Context(model, 256, ContextSettings(threads=1))
    for _ in range(2):
        context.close()
        model.close()


QUIET = """
import sys
from pathlib import Path
from app.errors import SpecchatError
from app.llama.context import Context
from app.llama.model import Model
from app.llama.settings import ContextSettings
from app.llama.native import native_log
with Model(Path(sys.argv[1])) as model, Context(model, 256, ContextSettings(threads=1)) as context:
    context.forward([3, 4, 5])
try:
    Model(Path("missing.gguf"))
except SpecchatError:
    pass
assert native_log().lines and native_log().faults
"""


def test_native_logs_never_reach_the_terminal(tiny_path: Path) -> None:
    """Lost otherwise: llama.cpp's lines would be drawn across the screen."""
    done = subprocess.run([sys.executable, "-c", QUIET, tiny_path], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
