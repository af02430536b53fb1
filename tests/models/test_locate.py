"""From what a person types to a file: names of the catalogue, of the hub, and of other programs' folders."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from app.errors import SpecchatError
from app.models.catalogue import catalogue
from app.models.locate import draft_of, find_model
from tests.tiny import write_tiny

CATALOGUE = """\
[pair]
target.repository = "org/repo"
target.file = "target.gguf"
target.size = 0.0001
draft.repository = "org/small"
draft.file = "draft.gguf"
draft.size = 0.0001
licence = "MIT"
memory = 1

[head]
kind = "eagle3"
target.same_as = "pair"
draft.same_as = "pair"
licence = "MIT"
memory = 1
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, a catalogue of two names, and a folder to be in."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "LLAMA_CACHE", "OLLAMA_MODELS"):
        monkeypatch.delenv(name, raising=False)
    for name in ("JAN_DATA_FOLDER", "APPDATA", "LOCALAPPDATA", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    own = tmp_path / "models.toml"
    own.write_text(CATALOGUE)
    monkeypatch.setattr("app.models.catalogue.user_catalogue_file", lambda: own)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return home


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("tiny") / "tiny.gguf", layers=1)


def put(source: Path, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, path)
    return path


def cached(source: Path, home: Path, repository: str, file: str) -> Path:
    """A file in the hub's cache."""
    folder = home / ".cache" / "huggingface" / "hub" / f"models--{repository.replace('/', '--')}"
    return put(source, folder / "snapshots" / ("a" * 40) / file)


def said(name: str) -> str:
    with pytest.raises(SpecchatError) as caught:
        find_model(name)
    return str(caught.value)


def test_a_name_of_the_catalogue_is_its_file(home: Path, model: Path) -> None:
    """Lost otherwise: what was downloaded, to whoever does not know where the cache keeps it."""
    assert said("pair").endswith("disk: download pair (0.0002 GB) with `specchat pull pair`.")
    assert draft_of("pair") is None
    target = cached(model, home, "org/repo", "target.gguf")
    draft = cached(model, home, "org/small", "draft.gguf")
    assert find_model("pair") == target and draft_of("pair") == draft
    assert find_model("head") == target and draft_of("head") is None


def test_a_file_or_folder_of_the_same_name(home: Path, model: Path) -> None:
    """Lost otherwise: a file that is named by its path, or a catalogue name to a folder beside one's work."""
    target = cached(model, home, "org/repo", "target.gguf")
    cached(model, home, "org/small", "draft.gguf")
    Path("pair").mkdir()
    assert find_model("pair") == target
    Path("pair").rmdir()
    put(model, Path("pair"))
    assert find_model("pair") == Path("pair") and draft_of("pair") is None


def test_a_file_that_another_program_keeps_is_not_fetched_again(home: Path, model: Path) -> None:
    """Lost otherwise: gigabytes, and the time to download them."""
    theirs = put(model, home / ".lmstudio" / "models" / "org" / "repo" / "target.gguf")
    assert find_model("pair") == theirs


def test_a_part_of_a_download_is_no_file(home: Path, model: Path) -> None:
    """Lost otherwise: an error of llama.cpp in place of the command that ends the download."""
    put(model, home / ".cache/huggingface/hub/models--org--repo/blobs/b.incomplete")
    cached(model, home, "org/repo", "target.gguf").write_bytes(model.read_bytes()[:9000])
    assert "`specchat pull pair`" in said("pair")


def test_a_repository_of_the_hub(home: Path, model: Path) -> None:
    """Lost otherwise: the names that the hub's own pages show."""
    assert "`specchat pull who/what:q4.gguf`" in said("who/what:q4.gguf")
    assert "There is no model" in said("who/what")
    four = cached(model, home, "who/what", "q4.gguf")
    cached(model, home, "who/what", "mmproj-q4.gguf")
    write_tiny(four.with_name("other.gguf"), layers=1, architecture="eagle3")
    assert find_model("who/what:q4.gguf") == find_model("who/what") == four
    cached(model, home, "who/what", "q8.gguf")
    assert "name one of who/what:q4.gguf, who/what:q8.gguf" in said("who/what")


def test_names_of_files_that_were_found(home: Path, model: Path) -> None:
    """Lost otherwise: a list of models in which half the names lead nowhere."""
    digest = "b" * 64
    blob = put(model, home / ".ollama" / "models" / "blobs" / f"sha256-{digest}")
    manifest = home / ".ollama" / "models" / "manifests" / "registry.ollama.ai/library/llama3.2/3b"
    manifest.parent.mkdir(parents=True)
    layer = {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}"}
    manifest.write_text(json.dumps({"layers": [layer]}))
    assert find_model("llama3.2:3b") == blob
    blob.unlink()
    assert said("llama3.2:3b") == "llama3.2:3b is not downloaded whole; run: ollama pull llama3.2:3b"
    assert "There is no model" in said("small.gguf")


def test_a_head_is_no_model_whatever_its_place(home: Path, model: Path) -> None:
    """Lost otherwise: a name that looks like a model's, and an error after half a minute of loading."""
    put(model, home / ".lmstudio" / "models" / "org" / "repo" / "mtp-target.gguf")
    assert "MTP head" in said("org/repo:mtp-target.gguf")


def test_the_catalogue_is_read_only_where_a_name_could_be_in_it(tmp_path: Path, model: Path) -> None:
    """Lost otherwise: every chat, to a slip in a file that it does not need."""
    (tmp_path / "models.toml").write_text("[pair]\nlicense = 5\n")
    assert find_model(str(model)) == model and draft_of(str(model)) is None
    assert "There is no model" in said("folder/gone.gguf")
    for name in ("pair", "qwen3-8b"):
        assert "models.toml line 2: pair has no key license; did you mean licence" in said(name)
    with pytest.raises(SpecchatError, match="line 2"):
        draft_of("pair")


def test_a_name_that_nearly_is_one() -> None:
    assert 'no model "Qwen3-8B" (did you mean qwen3-8b?)' in said("Qwen3-8B")
    assert "\x1b" not in said("a\x1b[31m") and "\n" not in said("a\nb")
    assert len(said("x" * 5000)) < 200
    assert all(draft_of(name) is None for name in ("", "x" * 5000, "nul\0", "~nobody/x", "pair:x"))
    assert draft_of(None) is None and "pair" in catalogue()
