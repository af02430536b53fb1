"""`specchat models` as a person or a script runs it, over folders that the tests lay out."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from app.commands.table import TableColumn, table
from tests.architectures import write_architecture
from tests.conftest import Ask, Outcome
from tests.tiny import write_tiny

HOSTILE = "\x1b]52;c;aGk=\x07[/b]"


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders of nobody, and no way to a network."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "LLAMA_CACHE", "OLLAMA_MODELS", "JAN_DATA_FOLDER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    for name in ("HOME", "USERPROFILE", "LOCALAPPDATA", "APPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    return tmp_path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A target, a draft for it, a model of another family, and two files that are none."""
    folder = tmp_path / "models"
    folder.mkdir()
    write_tiny(folder / "big-Q4_K_M.gguf", layers=3, context=8192, extra={"general.name": f"Big {HOSTILE}"})
    write_tiny(folder / "small.gguf", layers=1)
    write_tiny(folder / "other.gguf", vocabulary=900)
    write_tiny(folder / "projector.gguf", extra={"general.type": "mmproj"})
    (folder / "bad.gguf").write_bytes(b"<html>")
    return folder


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, ask: Ask) -> Ask:
    """`ask` with a terminal to write to."""

    def run(*arguments: str | Path, columns: int = 80) -> Outcome:
        monkeypatch.setenv("COLUMNS", str(columns))
        for stream in (sys.stdout, sys.stderr):
            monkeypatch.setattr(stream, "isatty", lambda: True)
        return ask(*arguments)

    return run


def test_the_table(ask: Ask, folder: Path) -> None:
    """Lost otherwise: which models there are, and what to type for one."""
    told = ask("models", "--folder", folder)
    assert told.code == 0 and told.err == "" and "\x1b" not in told.out
    here, _, others = told.out.partition("\n\n")
    titles, *lines = here.splitlines()
    assert titles.split() == ["NAME", "QUANT", "CONTEXT", "PARAMS", "ARCH", "SIZE", "FITS", "WHERE", "DRAFTS"]
    assert [line.split()[0] for line in lines][:3] == ["big-Q4_K_M.gguf", "other.gguf", "small.gguf"]
    assert "8k" in lines[0] and "yes, 8k" in lines[0] and lines[0].endswith("small.gguf")
    # In columns: a script and an eye find each under its title.
    assert all(line[titles.index("FITS") :].startswith("yes, ") for line in lines)
    assert "specchat pull NAME" in others and "qwen3-8b" in others and "Apache-2.0" in others
    assert "2 more files cannot be chatted with: specchat models --all says why." in told.out


def test_only_what_is_here(ask: Ask, folder: Path) -> None:
    out = ask("models", "--here", "--folder", folder).out
    assert "small.gguf" in out and "qwen3-8b" not in out


def test_everything_and_why_not(ask: Ask, folder: Path) -> None:
    """Lost otherwise: why a file that is there is not offered."""
    out = ask("models", "--all", "--here", "--folder", folder).out
    assert "- projector.gguf is a projector for images or sound; choose" in out
    assert "- bad.gguf is not a GGUF file" in out and "more file" not in out


def test_one_model(ask: Ask, folder: Path) -> None:
    """Lost otherwise: which draft to load with it, and why not another."""
    told = ask("models", "big-Q4_K_M.gguf", "--folder", folder)
    lines = [" ".join(line.split()) for line in told.out.splitlines()]
    assert (
        told.code == 0 and lines[0] == "big-Q4_K_M.gguf" and "\x1b" not in told.out and "\x07" not in told.out
    )
    assert "calls itself Big ]52;c;aGk=[/b]" in lines
    assert any(line.startswith("fits yes: about") and "8,192 tokens" in line for line in lines)
    assert any(line.startswith("drafts small.gguf (") and line.endswith(") fits") for line in lines)
    assert any("other.gguf" in line and "900 tokens" in line for line in lines)
    assert lines[-1] == "next specchat big-Q4_K_M.gguf --draft small.gguf"


def test_a_memory_that_is_not_plain_attention(ask: Ask, folder: Path) -> None:
    """Lost otherwise: which models go back in another way, before one is loaded."""
    write_architecture(folder / "swift.gguf", "lfm2")
    here = ask("models", "--here", "--folder", folder).out
    titles, *lines = here.splitlines()
    kinds = {line.split()[0]: line[titles.index("MEMORY") :].strip() for line in lines if ".gguf" in line}
    assert kinds["swift.gguf"] == "hybrid" and kinds["small.gguf"] == ""
    assert "memory        hybrid: some layers keep one state" in ask("models", folder / "swift.gguf").out
    assert "memory  " not in ask("models", folder / "small.gguf").out


def test_words_of_a_name(ask: Ask, folder: Path) -> None:
    """Lost otherwise: long names have to be typed whole."""
    assert ask("models", "big q4", "--folder", folder).out.startswith("big-Q4_K_M.gguf\n")
    several = ask("models", "qwen3").out
    assert "qwen3-8b" in several and "qwen3-4b" in several and "gemma" not in several
    one = ask("models", "qwen3-8b").out
    assert "next" in one and "specchat pull qwen3-8b" in one and "Qwen3-0.6B-Q8_0" in one


def test_a_path(ask: Ask, folder: Path) -> None:
    told = ask("models", folder / "small.gguf")
    assert told.out.startswith("small.gguf\n") and f"specchat {folder / 'small.gguf'}" in told.out
    told = ask("models", folder / "projector.gguf")
    assert "cannot chat" in told.out and "next" not in told.out


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("qwen3-8bb", "did you mean qwen3-8b?"),
        ("bad.gguf", "is not a GGUF file"),
        ("zzz", "`specchat models`"),
    ],
)
def test_a_name_that_is_none(ask: Ask, folder: Path, name: str, said: str) -> None:
    """Lost otherwise: what to type instead."""
    told = ask("models", name, "--folder", folder)
    assert told.code == 3 and told.out == "" and said in told.err and len(told.err.splitlines()) == 1


def test_json(ask: Ask, folder: Path) -> None:
    """Lost otherwise: a script has to take a table apart."""
    data = json.loads(ask("models", "--json", "--folder", folder).out)
    rows = {row["name"]: row for row in data["models"]}
    big = rows["big-Q4_K_M.gguf"]
    assert big["path"] == str(folder / "big-Q4_K_M.gguf") and big["context_length"] == 8192
    assert big["room"]["fits"] is True and big["title"] == f"Big {HOSTILE}"
    assert [each["name"] for each in big["drafts"] if each["problem"] is None] == ["small.gguf"]
    assert rows["qwen3-8b"]["parts"][0]["repository"] == "Qwen/Qwen3-8B-GGUF"
    assert "projector.gguf" not in rows and [Path(each["path"]).name for each in data["left_out"]] == [
        "bad.gguf"
    ]
    data = json.loads(ask("models", "--json", "--all", "small.gguf", "--folder", folder).out)
    assert [row["name"] for row in data["models"]] == ["small.gguf"]


def test_eighty_columns(terminal: Ask, folder: Path) -> None:
    """Lost otherwise: lines that a terminal breaks, so that no column is one."""
    write_tiny(folder / f"{'long-' * 20}Q8_0.gguf")
    for columns in (60, 80, 120, 200):
        told = terminal("models", "--folder", folder, columns=columns)
        plain = [line.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", "") for line in
                 told.out.splitlines()]  # fmt: skip
        assert max(map(len, plain)) <= columns
        assert (
            plain[0].startswith("NAME") and "FITS" in plain[0] and ("DRAFTS" in plain[0]) == (columns == 200)
        )
        assert "\x1b[2mNAME" in told.out and "\r" in told.err


def test_no_colour(terminal: Ask, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in terminal("models", "--folder", folder).out


def test_nothing_is_here(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost otherwise: an empty table leaves a person guessing."""
    monkeypatch.setattr("app.commands.models.bundled_model", lambda: None)
    told = ask("models")
    assert told.code == 0 and told.out.startswith("No model is on this disk yet. `specchat pull NAME`")
    assert ask("models", "--here").out.startswith("No model is on this disk yet")


def test_a_folder_that_is_not_there(ask: Ask, tmp_path: Path) -> None:
    told = ask("models", "--all", "--folder", tmp_path / "gone")
    assert told.code == 0 and "There is no folder" in told.out


def test_folders_of_the_settings_are_looked_through(ask: Ask, folder: Path, own_home: Path) -> None:
    settings = own_home / "xdg_config_home" / "specchat" / "settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"[model]\ndraft_folders = ['{folder}']\n", encoding="utf-8")
    assert "big-Q4_K_M.gguf" in ask("models", "--here").out


def test_a_fault_in_the_own_catalogue(ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Lost otherwise: one wrong letter, and there is no list at all."""
    own = tmp_path / "models.toml"
    own.write_text("[mine]\ntraget = 3\n", encoding="utf-8")
    monkeypatch.setattr("app.models.catalogue.user_catalogue_file", lambda: own)
    told = ask("models")
    assert told.code == 0 and "qwen3-8b" in told.out
    assert len(told.err.splitlines()) == 1 and "models.toml line 2" in told.err


def test_a_wrong_option(ask: Ask) -> None:
    told = ask("models", "--wrong")
    assert told.code == 2 and "specchat models --help" in told.err


def test_columns_are_left_out_by_importance() -> None:
    rows = (("wide text here", "1", "", "d"), ("b", "22", "", "d"))
    columns: list[TableColumn[tuple[str, ...]]] = [
        TableColumn("A", lambda row: row[0], narrowest=6),
        TableColumn("B", lambda row: row[1], 2, right=True),
        TableColumn("C", lambda row: row[2], 9),
        TableColumn("D", lambda row: row[3], 1),
    ]
    assert table(rows, columns) == [
        "A                B  D",
        "wide text here   1  d",
        "b               22  d",
    ]
    assert table(rows, columns, 13) == ["A        B  D", "wide …   1  d", "b       22  d"]
    assert table(rows, columns, 12) == ["A          B", "wide te…   1", "b         22"]
    assert table(rows, columns, 3) == ["A", "wide …", "b"]
