"""Every bad input ends in one line that says what to do, the right exit code, and nothing else.

Lost otherwise: a person who is shown a traceback, or a native abort, and does not know what to change.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from app.models.gguf import read_header
from tests.command import running
from tests.conftest import Ask
from tests.tiny import write_tiny

QUICK = ("--threads", "1", "--max-tokens", "3")


def fault(ask: Ask, code: int, *arguments: str | Path, stdin: bytes = b"") -> str:
    """Run `specchat`; check the form of its complaint and return it."""
    outcome = ask(*QUICK, *arguments, stdin=stdin)
    assert (outcome.code, outcome.out) == (code, ""), outcome
    assert outcome.err.startswith("specchat: ") and outcome.err.count("\n") == 1, outcome.err
    said = outcome.err.removeprefix("specchat: ").strip()
    assert said.endswith("."), said
    return said


@pytest.mark.parametrize(
    "name", ["gone.gguf", "nosuch-7b", "~nobody-here/x.gguf", "x" * 5000, "new\nline\x1b[31m.gguf", ""]
)
def test_a_model_that_is_not_there(ask: Ask, name: str) -> None:
    """Lost otherwise: a crash on a name that the system cannot even look up."""
    assert ".gguf file" in fault(ask, 3, "-p", "hi", "--model", name)


def test_a_model_of_the_catalogue_that_was_not_downloaded(ask: Ask) -> None:
    """Lost otherwise: a person who does not learn where to get it."""
    assert "download qwen" in fault(ask, 3, "-p", "hi", "--model", "qwen3-4b").lower()


def test_a_folder_as_a_model(ask: Ask, tmp_path: Path) -> None:
    """Lost otherwise: a crash when the folder is named instead of the file in it."""
    assert "is a folder" in fault(ask, 3, "-p", "hi", "--model", tmp_path)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"once upon a time " * 40, "is not a GGUF file"),
        (b"", "is empty; download it again"),
        (b"GGUF", "cut short"),
        (b"GGUF" + b"\xff" * 4000, "GGUF version 4294967295"),
    ],
)
def test_a_file_that_is_no_model(ask: Ask, tmp_path: Path, content: bytes, what: str) -> None:
    """Lost otherwise: a crash in native code on a renamed or empty file."""
    path = tmp_path / "some.gguf"
    path.write_bytes(content)
    assert what in fault(ask, 3, "-p", "hi", "--model", path)


@pytest.mark.parametrize("share", [0.02, 0.3, 0.999])
def test_a_truncated_model(ask: Ask, tiny_path: Path, tmp_path: Path, share: float) -> None:
    """Lost otherwise: a broken download that crashes, or answers from half its weights."""
    data = tiny_path.read_bytes()
    path = tmp_path / "cut.gguf"
    path.write_bytes(data[: int(len(data) * share)])
    assert "download it again" in fault(ask, 3, "-p", "hi", "--model", path)


# One process for all: its death would end the others' turns, so it shows.
EACH = """
import contextlib, io, json, sys
from app.cli import main
for path in sys.argv[1:]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["-p", "hi", "--model", path, "--threads", "1", "--max-tokens", "3"])
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""


def test_a_flipped_bit_never_aborts(tiny_path: Path, tmp_path: Path) -> None:
    """Lost otherwise: the program and the chat, to one wrong bit of a header."""
    whole, header = tiny_path.read_bytes(), read_header(tiny_path).data_offset
    paths = [tmp_path / f"{seed}.gguf" for seed in range(40)]
    for seed, path in enumerate(paths):
        rng, data = random.Random(seed), bytearray(whole)
        data[rng.randrange(header)] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
    process = running(*paths, script=EACH)
    out, native = process.communicate(timeout=120)
    results = [json.loads(line) for line in out.splitlines()]
    assert (process.returncode, len(results), native) == (0, len(paths), b""), native[-300:]
    for code, said, complaint in results:
        assert code in (0, 3), complaint
        assert complaint.count("\n") == 1 and "Traceback" not in complaint, complaint
        assert code == 0 or said == ""
    assert {code for code, _, _ in results} == {0, 3}


def test_a_model_that_computes_no_numbers(ask: Ask, tmp_path: Path) -> None:
    """Lost otherwise: a traceback, where a file is damaged so that its logits are NaN."""
    path = write_tiny(tmp_path / "nan.gguf", extra={"llama.rope.freq_base": float("nan")})
    assert "NaN" in fault(ask, 3, "-p", "hi", "--model", path)


@pytest.mark.parametrize("form", [(), ("--json",)])
@pytest.mark.parametrize("proposer", ["draft", "auto"])
def test_a_draft_that_computes_no_numbers(
    ask: Ask, tiny_path: Path, tmp_path: Path, proposer: str, form: tuple[str, ...]
) -> None:
    """Lost otherwise: the answer, and a good model, which is downloaded again for its draft's fault."""
    draft = write_tiny(tmp_path / "broken.gguf", extra={"llama.rope.freq_base": float("nan")})
    common = (
        "--threads",
        "1",
        "--temp",
        "0",
        "--max-tokens",
        "20",
        "-p",
        "hi",
        "--model",
        tiny_path,
        "--exact",
    )
    plain = ask(*common, "--proposer", "off")
    outcome = ask(*common, *form, "--draft", draft, "--proposer", proposer, "--k", "3")
    assert outcome.code == 0
    assert (json.loads(outcome.out)["text"] if form else outcome.out.rstrip("\n")) == plain.out.rstrip("\n")
    said = outcome.err.splitlines()
    assert said[0] == (
        "The draft broken.gguf is switched off, as it computes no numbers (NaN or infinity), so its file is "
        "damaged: download it again or choose another draft."
    )
    assert len(said) == (1 if form else 2)


def test_a_real_draft_that_is_damaged(ask: Ask, bundled: Path, tmp_path: Path) -> None:
    """Lost otherwise: the answer, where 2 MB of a draft were overwritten."""
    draft = tmp_path / "damaged.gguf"
    data = bytearray(bundled.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 2_000_000] = b"\xff" * 2_000_000
    draft.write_bytes(data)
    common = ("--temp", "0", "--max-tokens", "8", "--ctx", "256", "-p", "Say hello.", "--exact")
    plain = ask(*common, "--proposer", "off")
    outcome = ask(*common, "--draft", draft, "--proposer", "draft", "--k", "3")
    assert outcome.code == plain.code == 0 and outcome.out == plain.out
    assert "damaged.gguf is switched off" in outcome.err


def test_an_unknown_architecture(ask: Ask, tmp_path: Path) -> None:
    """Lost otherwise: a person who downloads a good file again and again."""
    path = write_tiny(tmp_path / "new.gguf", architecture="tomorrow")
    assert "'tomorrow'): update llama-cpp-python" in fault(ask, 3, "-p", "hi", "--model", path)


@pytest.mark.parametrize(
    ("name", "architecture", "what"),
    [
        ("head.gguf", "eagle3", "an EAGLE-3 head"),
        ("image.gguf", "clip", "a projector"),
        ("mmproj-some.gguf", "llama", "a projector"),
        ("embed.gguf", "bert", "an embedding model"),
    ],
)
@pytest.mark.parametrize("option", ["--model", "--draft"])
def test_a_file_that_is_no_chat_model(
    ask: Ask, tiny_path: Path, tmp_path: Path, option: str, name: str, architecture: str, what: str
) -> None:
    """Lost otherwise: an assertion of llama.cpp, or an answer of noise."""
    path = write_tiny(tmp_path / name, architecture=architecture)
    model = () if option == "--model" else ("--model", tiny_path)
    said = fault(ask, 3, "-p", "hi", *model, option, path)
    assert said.startswith(f"{name} is {what}") and "choose" in said


def test_a_draft_of_another_vocabulary(ask: Ask, tiny_path: Path, tmp_path: Path) -> None:
    """Lost otherwise: speculation that is on and accepts nothing, or reads beyond a row."""
    draft = write_tiny(tmp_path / "far.gguf", vocabulary=600)
    said = fault(ask, 3, "-p", "hi", "--model", tiny_path, "--draft", draft)
    assert "far.gguf cannot draft for" in said and "600" in said and "--proposer lookup" in said


def test_a_draft_that_is_not_there(ask: Ask, tiny_path: Path) -> None:
    """Lost otherwise: plain decoding, while the person believes that a draft is on."""
    said = fault(ask, 3, "-p", "hi", "--model", tiny_path, "--draft", "gone.gguf")
    assert "gone.gguf" in said


def test_the_proposer_draft_without_a_draft(ask: Ask, tiny_path: Path) -> None:
    """Lost otherwise: speculation that is configured but off."""
    said = fault(ask, 2, "-p", "hi", "--model", tiny_path, "--proposer", "draft")
    assert "--draft" in said


@pytest.mark.parametrize("proposer", ["off", "lookup"])
def test_a_prompt_longer_than_the_context(ask: Ask, tiny_path: Path, proposer: str) -> None:
    """Lost otherwise: a document that is silently cut, and answered all the same."""
    # Each x is a token or two, so the prompt has at least 600.
    long = ("-p", "x" * 1200, "--model", tiny_path, "--proposer", proposer)
    said = fault(ask, 4, *long)
    assert "The prompt has 1,2" in said and "the context holds 512" in said and "shorten" in said
    said = fault(ask, 4, *long, "--ctx", "600")
    assert "the context holds 600" in said
    assert ask(*QUICK, *long, "--ctx", "2048").code == 0


@pytest.mark.parametrize("length", [2, 10, 18])
def test_a_context_smaller_than_the_shortest_prompt(ask: Ask, tiny_path: Path, length: int) -> None:
    """Lost otherwise: a native assertion."""
    assert "--ctx" in fault(ask, 4, "-p", "hi", "--model", tiny_path, "--ctx", str(length))


@pytest.mark.parametrize("prompt", ["", "  \n\t"])
def test_an_empty_prompt(ask: Ask, tiny_path: Path, prompt: str) -> None:
    """Lost otherwise: an answer to nothing."""
    assert "prompt is empty" in fault(ask, 2, "-p", prompt, "--model", tiny_path)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"\x7fELF\x02\x01\x01\x00\x00", "is a binary file"),
        (b"caf\xe9", "is not text in UTF-8 (byte 3"),
        (b"", "is empty"),
    ],
)
def test_documents_that_are_not_text(
    ask: Ask, tiny_path: Path, tmp_path: Path, content: bytes, what: str
) -> None:
    """Lost otherwise: a prompt of rubbish, and an answer that hides it."""
    path = tmp_path / "some.bin"
    path.write_bytes(content)
    assert what in fault(ask, 3, "-p", "hi", path, "--model", tiny_path)
    if content:
        said = fault(ask, 3, "-p", "hi", "--model", tiny_path, stdin=content)
        assert said.startswith("Standard input") and what in said


def test_documents_that_are_not_there(ask: Ask, tiny_path: Path, tmp_path: Path) -> None:
    """Lost otherwise: an answer that never saw the document."""
    assert "There is no file gone.md" in fault(ask, 3, "-p", "hi", "gone.md", "--model", tiny_path)
    assert "is a folder" in fault(ask, 3, "-p", "hi", tmp_path, "--model", tiny_path)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("--temp", "-1"), "temperature is -1"),
        (("--temp", "nan"), "temperature is nan"),
        (("--temp", "warm"), "--temp"),
        (("--top-p", "2"), "top-p is 2"),
        (("--min-p", "-0.1"), "min-p is -0.1"),
        (("--top-k", "-1"), "top-k is -1"),
        (("--repeat-penalty", "0"), "repeat-penalty is 0"),
        (("--frequency-penalty", "inf"), "frequency-penalty is inf"),
        (("--k", "0"), "--proposer off"),
        (("--k", "x"), "'x' is not auto or a whole number from 1 to 32"),
        (("--k", "33"), "from 1 to 32"),
        (("--k", "²"), "from 1 to 32"),
        (("--max-tokens", "0"), "'0' is not a whole number of at least 1"),
        (("--ctx", "1"), "--ctx"),
        (("--ctx", "4294967297"), "4294967297 is more than"),
        (("--threads", "0"), "--threads"),
        (("--threads", "99999999999"), "99999999999 is more than 512"),
        (("--seed", "-1"), "--seed"),
        (("--seed", "lucky"), "--seed"),
        (("--proposer", "oracle"), "'oracle'"),
        (("--kv-type", "q9"), "'q9'"),
        (("--sead", "1"), "--sead"),
        (("--template", "nosuch"), "There is no chat template 'nosuch': use chatml"),
    ],
)
def test_wrong_usage(ask: Ask, tiny_path: Path, arguments: tuple[str, ...], what: str) -> None:
    """Lost otherwise: a setting that is silently something else."""
    assert what in fault(ask, 2, "-p", "hi", "--model", tiny_path, *arguments)


def test_no_prompt(ask: Ask) -> None:
    """Lost otherwise: a command that hangs or does nothing."""
    assert "-p PROMPT" in fault(ask, 2)


def test_a_model_without_a_template(ask: Ask, tmp_path: Path) -> None:
    """Lost otherwise: a chat in a form that the model never saw."""
    path = write_tiny(tmp_path / "bare.gguf", template=None)
    said = fault(ask, 3, "-p", "hi", "--model", path)
    assert said == "bare.gguf has no chat template: name one with --template, such as chatml."
    assert ask(*QUICK, "-p", "hi", "--model", path, "--template", "chatml").code == 0


@pytest.mark.parametrize(
    ("template", "what"),
    [
        ("{{ raise_exception('No, thank you') }}", "refused the conversation: No, thank you."),
        ("{{ raise_exception('two\nlines \x1b[31m') }}", "two lines [31m"),
        ("{% for %}", "is not valid Jinja"),
        ("{{ messages[7].content.nothing }}", "The chat template failed"),
        ("{{ 1 // 0 }}", "The chat template failed"),
    ],
)
def test_a_template_that_fails(ask: Ask, tmp_path: Path, template: str, what: str) -> None:
    """Lost otherwise: a traceback out of a file of a stranger."""
    path = write_tiny(tmp_path / "odd.gguf", template=template)
    said = fault(ask, 3, "-p", "hi", "--model", path)
    assert what in said and "--template" in said
    assert ask(*QUICK, "-p", "hi", "--model", path, "--template", "chatml").code == 0


def test_a_template_that_writes_nothing(ask: Ask, tmp_path: Path) -> None:
    """Lost otherwise: a traceback where the prompt has no token."""
    path = write_tiny(tmp_path / "mute.gguf", template="{# nothing #}")
    assert "--template" in fault(ask, 3, "-p", "hi", "--model", path)
