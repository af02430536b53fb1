"""Models that other programs keep: found once, called as people call them, whatever the disk looks like."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import platformdirs
import pytest

from app.models import disk_search
from app.models.discovery import discover
from app.models.disk_search import Found
from app.models.places import Layout, Place, places
from app.models.row import UnusableFile

GGUF = b"GGUF\x03\x00\x00\x00"
DIGEST = "sha256:" + "5" * 64
MODEL = "application/vnd.ollama.image.model"


def put(path: Path, data: bytes | str = GGUF) -> Path:
    """Write a file, and the folders that it needs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def look(path: Path, layout: Layout = "tree", origin: str = "here") -> tuple[list[Found], list[UnusableFile]]:
    return discover([Place(origin, layout, path)])


def names(found: list[Found]) -> list[str]:
    return [each.name for each in found]


def reasons(left_out: list[UnusableFile]) -> list[str]:
    return [each.reason for each in left_out]


@pytest.fixture
def link(tmp_path: Path) -> Callable[[Path, Path | str], Path]:
    """Makes links; a test that needs them is skipped where the system refuses to."""

    def make(path: Path, target: Path | str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.symlink_to(target, target_is_directory=Path(path.parent, target).is_dir())
        except OSError:
            pytest.skip("this system lets nobody but administrators make links")
        return path

    return make


Link = Callable[[Path, "Path | str"], Path]


# Places


def folders(environment: dict[str, str], platform: str) -> dict[str, list[str]]:
    """Places below the home /h, by program."""
    found: dict[str, list[str]] = {}
    for place in places(environment, Path("/h"), platform):
        found.setdefault(place.origin, []).append(place.path.as_posix())
    return found


def test_every_program_has_its_folder_on_linux() -> None:
    """Lost otherwise: models that are on the disk, downloaded again."""
    assert folders({}, "linux") == {
        "Hugging Face": ["/h/.cache/huggingface/hub"],
        "llama.cpp": ["/h/.cache/llama.cpp"],
        "LM Studio": ["/h/.lmstudio-home-pointer", "/h/.lmstudio", "/h/.cache/lm-studio"],
        "Ollama": ["/h/.ollama/models", "/usr/share/ollama/.ollama/models"],
        "Jan": ["/h/.local/share/Jan"],
        "specchat": ["/h/.local/share/specchat/models"],
        "specchat downloads": ["/h/.cache/huggingface/assets/specchat/downloads"],
    }


def test_folders_of_other_systems() -> None:
    """Lost otherwise: the same on a Mac and on Windows."""
    mac, windows = folders({}, "darwin"), folders({"LOCALAPPDATA": "/l", "APPDATA": "/r"}, "win32")
    assert mac["llama.cpp"] == ["/h/Library/Caches/llama.cpp"]
    assert mac["Jan"] == ["/h/Library/Application Support/Jan"]
    assert mac["Ollama"] == ["/h/.ollama/models"]
    assert windows["llama.cpp"] == ["/l/llama.cpp"]
    assert windows["Jan"] == ["/r/Jan"]
    assert windows["specchat"] == ["/l/specchat/models"]
    assert windows["Hugging Face"] == ["/h/.cache/huggingface/hub"]
    assert folders({}, "win32")["specchat"] == ["/h/AppData/Local/specchat/models"]


def test_variables_move_folders() -> None:
    """Lost otherwise: models on a second disk."""
    hub = {"XDG_CACHE_HOME": "/x", "HF_HOME": "/f", "HUGGINGFACE_HUB_CACHE": "/o", "HF_HUB_CACHE": "/n"}
    order = []
    while True:
        order.append(folders(hub, "linux")["Hugging Face"][0])
        if not hub:
            break
        hub.popitem()
    assert order == ["/n", "/o", "/f/hub", "/x/huggingface/hub", "/h/.cache/huggingface/hub"]
    moved = folders(
        {"LLAMA_CACHE": "/c", "OLLAMA_MODELS": "~/o", "JAN_DATA_FOLDER": "$D/jan", "D": "/d"}, "linux"
    )
    assert moved["llama.cpp"] == ["/c", "/c", "/h/.cache/llama.cpp"]
    assert moved["Ollama"][0] == "/h/o"
    assert moved["Jan"] == ["/d/jan"]
    assert folders({"OLLAMA_MODELS": ""}, "linux")["Ollama"][0] == "/h/.ollama/models"


def test_own_folder_is_that_of_the_app() -> None:
    own = Path(platformdirs.user_data_dir("specchat", appauthor=False)) / "models"
    assert Place("specchat", "tree", own) in places(os.environ, Path.home(), sys.platform)


def test_folders_of_the_persons_come_last_and_are_missed(tmp_path: Path) -> None:
    """Lost otherwise: a typing error in the settings that nobody points out."""
    found = places({}, tmp_path, "linux", [Path("~/mine"), tmp_path / "gone"])
    assert [place.path for place in found[-2:]] == [tmp_path / "mine", tmp_path / "gone"]
    assert found[-2].origin == str(Path("~/mine"))
    put(tmp_path / "mine" / "a.gguf")
    models, left_out = discover(found)
    assert names(models) == ["a.gguf"]
    assert reasons(left_out) == [f"There is no folder {tmp_path / 'gone'}; check its path."]


# Hugging Face


def test_hub_cache_with_links(tmp_path: Path, link: Link) -> None:
    """Lost otherwise: the cache that most programs share. Two revisions of one file are one model."""
    repository = tmp_path / "models--org--some-GGUF"
    put(repository / "blobs" / "abc")
    link(repository / "snapshots" / "1" / "some.gguf", "../../blobs/abc")
    link(repository / "snapshots" / "2" / "some.gguf", "../../blobs/abc")
    link(repository / "snapshots" / "2" / "sub" / "other.gguf", "../../../blobs/gone")
    put(tmp_path / "datasets--org--data" / "snapshots" / "1" / "no.gguf")
    found, left_out = look(tmp_path, "hub", "Hugging Face")
    assert found == [
        Found(
            repository / "snapshots" / "1" / "some.gguf", "org/some-GGUF:some.gguf", "Hugging Face", len(GGUF)
        )
    ]
    assert reasons(left_out) == [
        "org/some-GGUF:sub/other.gguf is a link to a file that is gone; download it again."
    ]


def test_hub_cache_without_links(tmp_path: Path) -> None:
    """Lost otherwise: Windows, where the cache holds files; the plain name is for the main revision."""
    repository = tmp_path / "models--org--some"
    put(repository / "snapshots" / ("a" * 40) / "some.gguf")
    put(repository / "snapshots" / ("b" * 40) / "some.gguf", GGUF + b"newer")
    put(repository / "refs" / "main", "b" * 40)
    put(tmp_path / "models--gpt2" / "snapshots" / "c" / "x.gguf")
    found, left_out = look(tmp_path, "hub")
    assert names(found) == ["gpt2:x.gguf", "org/some:some.gguf", "org/some@aaaaaaa:some.gguf"]
    assert found[1].path.parent.name == "b" * 40
    assert left_out == []


def test_unfinished_download_of_the_hub_is_told(tmp_path: Path) -> None:
    """Lost otherwise: why a model that was fetched half is not there."""
    put(tmp_path / "models--org--some-GGUF" / "blobs" / "abc.incomplete")
    put(tmp_path / "models--org--weights" / "blobs" / "abc.incomplete")
    found, left_out = look(tmp_path, "hub")
    assert found == []
    assert reasons(left_out) == ["org/some-GGUF holds a file that is not downloaded whole; fetch it again."]


# llama.cpp, LM Studio, Jan


def test_llama_cpp_in_both_layouts(tmp_path: Path) -> None:
    put(tmp_path / "org_repo_old.gguf")
    put(tmp_path / "org_repo_half.gguf.downloadInProgress")
    put(tmp_path / "org_repo_old.gguf.json", "{}")
    put(tmp_path / "models--org--repo" / "snapshots" / "1" / "new.gguf")
    found, left_out = discover(places({"LLAMA_CACHE": str(tmp_path)}, tmp_path / "home", "darwin"))
    assert [(each.name, each.origin) for each in found] == [
        ("org/repo:new.gguf", "llama.cpp"),
        ("org_repo_old.gguf", "llama.cpp"),
    ]
    assert reasons(left_out) == [
        "org_repo_half.gguf is not downloaded whole; let the program that fetches it finish."
    ]


def test_lm_studio_now_before_and_moved(tmp_path: Path) -> None:
    """Lost otherwise: models after an update, or after a move to another disk."""
    put(tmp_path / ".lmstudio" / "models" / "some" / "model-GGUF" / "now.gguf")
    put(tmp_path / ".lmstudio" / "settings.json", json.dumps({"downloadsFolder": str(tmp_path / "big")}))
    put(tmp_path / "big" / "some" / "large-GGUF" / "large.gguf")
    put(tmp_path / ".cache" / "lm-studio" / "models" / "old" / "model" / "old.gguf")
    put(tmp_path / ".cache" / "lm-studio" / "models" / "stray.gguf")
    put(tmp_path / "moved" / "models" / "a" / "b" / "c.gguf")
    put(tmp_path / ".lmstudio-home-pointer", f"{tmp_path / 'moved'}\n")
    found, left_out = discover(places({}, tmp_path, "darwin"))
    assert names(found) == [
        "a/b:c.gguf",
        "some/model-GGUF:now.gguf",
        "some/large-GGUF:large.gguf",
        "stray.gguf",
        "old/model:old.gguf",
    ]
    assert {each.origin for each in found} == {"LM Studio"} and left_out == []


@pytest.mark.parametrize("pointer", ["", "relative/path", "a\0b", "/" + "x" * 300, b"\xff\xfe"])
def test_a_broken_pointer_is_passed_over(tmp_path: Path, pointer: str | bytes) -> None:
    """Lost otherwise: every model, to one broken file of another program."""
    put(tmp_path / ".lmstudio-home-pointer", pointer)
    put(tmp_path / ".lmstudio" / "settings.json", '{"downloadsFolder": "\\ud800"}')
    put(tmp_path / ".lmstudio" / "models" / "a" / "b" / "c.gguf")
    assert names(discover(places({}, tmp_path, "darwin"))[0]) == ["a/b:c.gguf"]


def test_jan(tmp_path: Path) -> None:
    """Lost otherwise: models by their identity in Jan, those that it only refers to included."""
    data = tmp_path / "jan"
    put(data / "llamacpp" / "models" / "org" / "small" / "model.gguf")
    put(data / "llamacpp" / "models" / "org" / "small" / "mmproj.gguf")
    put(data / "llamacpp" / "models" / "org" / "small" / "model.yml", "model_path: llamacpp/x\nname: small\n")
    elsewhere = put(tmp_path / "elsewhere" / "big.gguf")
    put(data / "llamacpp" / "models" / "imported" / "model.yml", f"name: big\nmodel_path: '{elsewhere}'\n")
    put(data / "llamacpp" / "models" / "lost" / "model.yml", f"model_path: {tmp_path / 'lost.gguf'}\n")
    put(tmp_path / "app" / "Jan" / "settings.json", json.dumps({"data_folder": str(data)}))
    found, left_out = look(tmp_path / "app" / "Jan", "jan-settings", "Jan")
    assert [(each.name, each.path.name) for each in found] == [
        ("imported", "big.gguf"),
        ("org/small", "model.gguf"),
    ]
    assert [reason.split(";")[0] for reason in reasons(left_out)] == [
        f"lost was imported from {tmp_path / 'lost.gguf'}, which is gone",
        "org/small/mmproj.gguf is a projector for images or sound",
    ]
    assert names(look(data, "jan")[0]) == ["imported", "org/small"]
    put(tmp_path / "app" / "Jan" / "settings.json", "{broken")
    put(tmp_path / "app" / "Jan" / "data" / "llamacpp" / "models" / "x" / "model.gguf")
    assert names(look(tmp_path / "app" / "Jan", "jan-settings")[0]) == ["x"]


# Ollama


def manifest(folder: Path, tag: str, *layers: object) -> None:
    put(folder / "manifests" / tag, json.dumps({"schemaVersion": 2, "layers": layers}))


def layer(kind: str = MODEL, digest: str = DIGEST) -> dict[str, str]:
    return {"mediaType": kind, "digest": digest}


def test_ollama_calls_its_models_as_people_do(tmp_path: Path) -> None:
    """Lost otherwise: models under names that nobody knows, and twice where a model has two tags."""
    for tag, number in (
        ("registry.ollama.ai/library/llama3.2/latest", "1"),
        ("registry.ollama.ai/library/llama3.2/3b", "1"),
        ("registry.ollama.ai/someone/tuned/latest", "2"),
        ("registry.ollama.ai/someone/tuned/7b-instruct", "2"),
        ("hf.co/org/repo-GGUF/Q4_K_M", "3"),
    ):
        manifest(
            tmp_path,
            tag,
            layer("application/vnd.ollama.image.license"),
            layer(digest=f"sha256:{number * 64}"),
        )
        put(tmp_path / "blobs" / f"sha256-{number * 64}")
    put(tmp_path / "manifests" / "registry.ollama.ai" / "library" / "llama3.2" / ".DS_Store", "x")
    found, left_out = look(tmp_path, "ollama", "Ollama")
    assert names(found) == ["llama3.2:3b", "someone/tuned:7b-instruct", "hf.co/org/repo-GGUF:Q4_K_M"]
    assert found[0].path == tmp_path / "blobs" / f"sha256-{'1' * 64}"
    assert left_out == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "has a manifest that is damaged; run: ollama pull m:1b"),
        ("[" * 100_000, "has a manifest that is damaged; run: ollama pull m:1b"),
        (b"\xff\xfe\xfd", "has a manifest that is damaged; run: ollama pull m:1b"),
        ('{"layers": {"a": 1}}', "has a manifest that is damaged; run: ollama pull m:1b"),
        ([layer(digest="sha256:../../../secret")], "has a manifest that is damaged; run: ollama pull m:1b"),
        ([layer(digest="../" * 20 + "etc/passwd")], "has a manifest that is damaged; run: ollama pull m:1b"),
        ([{"mediaType": MODEL, "digest": 5}], "has a manifest that is damaged; run: ollama pull m:1b"),
        ([layer(digest="sha256:" + "7" * 64)], "is not downloaded whole; run: ollama pull m:1b"),
        (
            [1, None, layer("other")],
            "has no GGUF file on this disk: Ollama runs it elsewhere or in another format.",
        ),
        (
            [layer(), layer("application/vnd.ollama.image.adapter")],
            "is an adapter (LoRA) on another model, which is not supported; choose that model.",
        ),
        (
            [layer(), layer()],
            "is split into several files, which Ollama's names do not join; download it elsewhere.",
        ),
    ],
)
def test_a_model_of_ollama_that_cannot_be_used(tmp_path: Path, content: object, said: str) -> None:
    """Lost otherwise: every other model, or a file outside the folder read for one of its models."""
    text = content if isinstance(content, str | bytes) else json.dumps({"layers": content})
    put(tmp_path / "manifests" / "registry.ollama.ai" / "library" / "m" / "1b", text)
    put(tmp_path / "blobs" / "secret")
    put(tmp_path / "secret")
    manifest(tmp_path, "registry.ollama.ai/library/good/1b", layer())
    put(tmp_path / "blobs" / DIGEST.replace(":", "-"))
    found, left_out = look(tmp_path, "ollama")
    assert names(found) == ["good:1b"]
    assert reasons(left_out) == [f"m:1b {said}"]


def test_a_folder_of_the_persons_may_be_ollamas(tmp_path: Path) -> None:
    """Lost otherwise: a store on another disk, where no file ends in .gguf."""
    manifest(tmp_path, "registry.ollama.ai/library/m/1b", layer())
    put(tmp_path / "blobs" / DIGEST.replace(":", "-"))
    found, _ = discover(places({}, tmp_path / "home", "darwin", [tmp_path]))
    assert [(each.name, each.origin) for each in found] == [("m:1b", "Ollama")]


# Any folder


def test_names_that_clash_get_longer(tmp_path: Path) -> None:
    """Lost otherwise: a name that opens another file than the one meant."""
    for folder in ("a", "b"):
        put(tmp_path / folder / "model.gguf", GGUF + folder.encode())
    first, second = look(tmp_path)[0]
    assert (first.name, second.name) == ("model.gguf", "b/model.gguf")
    put(tmp_path / "c" / "b" / "model.gguf", GGUF + b"c")
    other = [Place("x", "tree", tmp_path), Place("y", "tree", tmp_path / "c")]
    assert len(set(names(discover(other)[0]))) == 3


def test_a_cache_within_a_folder_keeps_its_names(tmp_path: Path) -> None:
    put(tmp_path / "hub" / "models--org--repo" / "snapshots" / "1" / "f.gguf")
    put(tmp_path / ".hidden" / "no.gguf")
    put(tmp_path / "._f.gguf", b"resource fork")
    assert look(tmp_path) == (
        [Found(tmp_path / "hub/models--org--repo/snapshots/1/f.gguf", "org/repo:f.gguf", "here", len(GGUF))],
        [],
    )


def test_what_is_no_chat_model_is_left_out_with_a_reason(tmp_path: Path) -> None:
    """Lost otherwise: a list that offers files that cannot answer, or hides some without a word."""
    put(tmp_path / "model.gguf")
    put(tmp_path / "README.md")
    for name in ("mmproj-f16.gguf", "mtp-head.gguf", "EAGLE3-head.GGUF", "imatrix.gguf"):
        put(tmp_path / name)
    put(tmp_path / "html.gguf", b"<html>")
    put(tmp_path / "short.gguf", b"GG")
    put(tmp_path / "empty.gguf", b"")
    put(tmp_path / "pointer.gguf", b"version https://git-lfs.github.com/spec/v1\n")
    put(tmp_path / "half.gguf.part")
    put(tmp_path / "sparse.gguf")
    put(tmp_path / "sparse.gguf.aria2")
    (tmp_path / "folder.gguf").mkdir()
    found, left_out = look(tmp_path)
    assert names(found) == ["model.gguf"]
    said = {Path(each.path).name: each.reason for each in left_out}
    assert said["mmproj-f16.gguf"].startswith("mmproj-f16.gguf is a projector")
    assert "EAGLE-3" in said["EAGLE3-head.GGUF"]
    assert said["html.gguf"] == "html.gguf is not a GGUF file, whatever its name says; download it again."
    assert said["empty.gguf"] == "empty.gguf is empty; download it again."
    assert "git lfs pull" in said["pointer.gguf"]
    assert said["half.gguf.part"].startswith("half.gguf is not downloaded whole")
    assert said["sparse.gguf.aria2"].startswith("sparse.gguf is not downloaded whole")
    assert len(said) == len(left_out) == 10


def test_a_split_model_is_one(tmp_path: Path) -> None:
    """Lost otherwise: parts offered as models, or a size that is a part's."""
    for number in (1, 2, 3):
        put(tmp_path / f"big-0000{number}-of-00003.gguf", GGUF + bytes(number))
    assert look(tmp_path) == (
        [Found(tmp_path / "big-00001-of-00003.gguf", "big-00001-of-00003.gguf", "here", 3 * len(GGUF) + 6)],
        [],
    )


def test_missing_parts_are_told(tmp_path: Path) -> None:
    """Lost otherwise: a model that fails to load an hour after it was chosen, or hides without a word."""
    put(tmp_path / "a-00001-of-00004.gguf")
    put(tmp_path / "a-00003-of-00004.gguf")
    put(tmp_path / "b-00002-of-00003.gguf")
    put(tmp_path / "b-00003-of-00003.gguf")
    put(tmp_path / "c-00001-of-00002.gguf")
    put(tmp_path / "c-00002-of-00002.gguf", b"<html>")
    put(tmp_path / "d-00001-of-99999.gguf")
    put(tmp_path / "e-00001-of-00001.gguf")
    found, left_out = look(tmp_path)
    assert names(found) == ["e-00001-of-00001.gguf"]
    assert reasons(left_out) == [
        "a-00001-of-00004.gguf has 4 parts, and these are missing: 2, 4; download them again.",
        "b-00001-of-00003.gguf is missing, the first part of a model; download it again.",
        "c-00001-of-00002.gguf, part 2 is not a GGUF file, whatever its name says; download it again.",
        "d-00001-of-99999.gguf has 99,999 parts, and these are missing: 2, 3, 4, 5, 6, 7, 8, 9, …; "
        "download them again.",
    ]


def test_links_cycles_and_hard_links_give_each_file_once(tmp_path: Path, link: Link) -> None:
    """Lost otherwise: a search without end, or a model several times, under names of links."""
    real = put(tmp_path / "mine" / "real.gguf")
    link(tmp_path / "mine" / "current.gguf", "real.gguf")
    link(tmp_path / "mine" / "again", "../mine")
    link(tmp_path / "mine" / "itself", "itself")
    link(tmp_path / "mine" / "itself.gguf", "itself.gguf")
    link(tmp_path / "mine" / "disk", "../disk")
    put(tmp_path / "disk" / "far.gguf")
    os.link(real, tmp_path / "disk" / "hard.gguf")
    found, left_out = look(tmp_path / "mine")
    assert names(found) == ["real.gguf", "far.gguf"]
    assert [Path(each.path).name for each in left_out] == ["itself.gguf"]
    assert left_out[0].reason.startswith("itself.gguf cannot be read (")


def test_a_file_in_two_programs_is_called_as_the_first_does(tmp_path: Path, link: Link) -> None:
    manifest(tmp_path / "ollama", "registry.ollama.ai/library/m/1b", layer())
    blob = put(tmp_path / "ollama" / "blobs" / DIGEST.replace(":", "-"))
    link(tmp_path / "mine" / "m.gguf", blob)
    searched = [Place("Ollama", "ollama", tmp_path / "ollama"), Place("mine", "tree", tmp_path / "mine")]
    assert names(discover(searched)[0]) == ["m:1b"]
    assert names(discover(searched[::-1])[0]) == ["m.gguf"]


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names there are always Unicode")
def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    """Lost otherwise: the whole list, to a file from an old disk."""
    raw = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(raw)
    Path(os.fsdecode(raw + b"/m\xff.gguf")).write_bytes(GGUF)
    Path(os.fsdecode(raw + b"/n\xff.gguf")).write_bytes(b"")
    found, left_out = look(tmp_path)
    assert os.fsencode(found[0].path) == raw + b"/m\xff.gguf" and found[0].path.is_file()
    assert len(left_out) == 1


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="modes hold nobody back here")
def test_what_may_not_be_read_is_told(tmp_path: Path) -> None:
    """Lost otherwise: every model, to one folder of another user."""
    put(tmp_path / "a.gguf")
    put(tmp_path / "locked.gguf").chmod(0)
    put(tmp_path / "closed" / "b.gguf")
    (tmp_path / "closed").chmod(0)
    try:
        found, left_out = look(tmp_path)
    finally:
        (tmp_path / "closed").chmod(0o700)
    assert names(found) == ["a.gguf"]
    assert len(left_out) == 2 and all("cannot be read (" in reason for reason in reasons(left_out))


def test_a_folder_that_the_system_refuses_is_told(tmp_path: Path) -> None:
    put(tmp_path / "file")
    _, left_out = look(tmp_path / ("x" * 300))
    assert len(left_out) == 1 and "cannot be read (" in left_out[0].reason
    assert look(tmp_path / "file") == ([], [])
    assert look(tmp_path / "gone") == ([], [])
    assert len(look(tmp_path / "a\0b")[1]) == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_blocks_nothing(tmp_path: Path) -> None:
    """Lost otherwise: the start of the app, for ever."""
    os.mkfifo(tmp_path / "pipe.gguf")
    os.mkfifo(tmp_path / ".lmstudio-home-pointer")
    assert discover(places({}, tmp_path, "darwin", [tmp_path])) == ([], [])


def test_a_folder_of_everything_is_not_searched_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_search, "_MOST_ENTRIES", 5)
    for number in range(6):
        put(tmp_path / "z" / f"{number}.txt")
    put(tmp_path / "a.gguf")
    found, left_out = look(tmp_path)
    assert names(found) == ["a.gguf"]
    assert reasons(left_out) == [f"{tmp_path} holds more than 5 files; name a folder nearer to the models."]


def test_work_grows_with_the_number_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost otherwise: seconds at each start for a person with many models."""
    calls = 0
    stat = os.stat

    def counted(path: Path | str) -> os.stat_result:
        nonlocal calls
        calls += 1
        return stat(path)

    def cost(files: int) -> int:
        nonlocal calls
        for number in range(files):
            put(tmp_path / str(files) / f"model{number}.gguf")
        with monkeypatch.context() as patched:
            calls = 0
            patched.setattr(os, "stat", counted)
            assert len(look(tmp_path / str(files))[0]) == files
        return calls

    assert cost(200) - cost(100) == 100
