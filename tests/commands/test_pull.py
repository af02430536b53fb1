"""`specchat pull` and `specchat remove`, against a stand-in for the hub and a catalogue of a person's own."""

from __future__ import annotations

import hashlib
import io
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub
import pytest

from app.commands import pull as pull_command
from app.commands import remove as remove_command
from app.commands.pull import progress_line
from app.errors import SpecchatError, UsageError
from app.models.catalogue import Entry, catalogue
from app.models.hub import HubFile, downloaded, hub_of
from app.models.hub_faults import MissingError
from app.models.locate import find_model
from app.models.transfer import DownloadProgress
from tests.command import running
from tests.models.hub_server import Fault, Gate, HubServer, hub_server

DATA = random.Random(7).randbytes(2_000_000)
# Sizes are rounded, as those of the real catalogue are.
CATALOGUE = """
[one]
target = {repository = "org/one", file = "one.gguf", size = 0.002}
draft = {repository = "org/small", file = "small.gguf", size = 0.0005}
licence = "Apache-2.0"
memory = 1

[two]
target = {repository = "org/two", file = "two.gguf", size = 0.001}
draft = {same_as = "one"}
licence = "Apache-2.0"
memory = 1

[one-again]
target = {same_as = "one"}
draft = {same_as = "one"}
licence = "Apache-2.0"
memory = 1

[guessed]
target = {repository = "org/one", file = "another.gguf", size = 0.001}
licence = "Apache-2.0"
memory = 1
unverified = true
"""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """A stand-in that the variables name, an empty cache, and the catalogue above."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    own = tmp_path / "models.toml"
    own.write_text(CATALOGUE, encoding="utf-8")
    monkeypatch.setattr("app.models.catalogue.user_catalogue_file", lambda: own)
    huggingface_hub.close_session()
    with hub_server() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        hub.add("org/one", "one.gguf", DATA)
        hub.add("org/two", "two.gguf", DATA[:1_000_000])
        hub.add("org/small", "small.gguf", DATA[:500_000])
        yield hub
    huggingface_hub.close_session()


def entry(name: str) -> Entry:
    return catalogue()[name]


def here(name: str) -> list[bool]:
    """Whether the target and the draft of an entry are on the disk."""
    parts = entry(name).target, entry(name).draft
    return [downloaded(part) is not None for part in parts if part is not None]


def cache() -> Path:
    return hub_of(os.environ).cache


def test_pull_and_remove(server: HubServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Lost otherwise: a model that cannot be had, or not be got rid of."""
    assert pull_command.main(["one"]) == 0
    written = capsys.readouterr()
    paths = [Path(line) for line in written.out.splitlines()]
    assert [path.read_bytes() for path in paths] == [DATA, DATA[:500_000]]
    assert "licence Apache-2.0" in written.err and "\r" not in written.err and "\x1b" not in written.err
    assert "downloading one.gguf, 2 MB" in written.err and "downloading small.gguf" in written.err
    assert here("one") == [True, True]
    assert remove_command.main(["one", "--yes"]) == 0
    assert "2 MB freed" in capsys.readouterr().err
    assert here("one") == [False, False]
    # Nothing of it is left but the locks, whose files others may hold.
    assert [path for path in cache().rglob("*") if path.is_file() and path.suffix != ".lock"] == []
    assert list(hub_of(os.environ).own.rglob("*.*")) == []
    with pytest.raises(SpecchatError, match="nothing to remove"):
        remove_command.main(["one", "--yes"])


def test_a_file_by_its_name(server: HubServer) -> None:
    """Lost otherwise: every model that the catalogue does not have."""
    assert pull_command.main(["org/two:two.gguf"]) == 0
    assert downloaded(HubFile("org/two", "two.gguf", 0, None)) is not None
    assert remove_command.main(["org/two:two.gguf", "--yes"]) == 0
    assert here("two") == [False, False]


def test_a_name_that_is_none(server: HubServer) -> None:
    """Lost otherwise: a guess at what to type instead."""
    with pytest.raises(SpecchatError, match=r"no \"one-agian\" \(did you mean one-again\?\)"):
        pull_command.main(["one-agian"])
    with pytest.raises(SpecchatError, match=r"org/repo:file\.gguf"):
        pull_command.main(["org/one"])
    assert server.requests == []


def test_an_entry_that_was_never_checked(server: HubServer) -> None:
    """Lost otherwise: why a model of the catalogue is not there."""
    with pytest.raises(MissingError, match=r"has no file another\.gguf.*never checked"):
        pull_command.main(["guessed"])


def test_progress_on_a_terminal(
    server: HubServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost otherwise: an hour without a sign of life, or a screen full of lines."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    assert pull_command.main(["one"]) == 0
    lines = capsys.readouterr().err.splitlines()
    seen = [part for line in lines for part in line.split("\r")]
    assert any("100 %" in part and part.startswith("one.gguf") for part in seen)
    assert all(len(part) < 60 for part in seen)


@pytest.mark.parametrize(
    ("progress", "line"),
    [
        (
            DownloadProgress("a.gguf", 1_710_000_000, 5_030_000_000, 48e6, 69.2),
            "a.gguf   33 %  1.71 GB of 5.03 GB  48.0 MB/s  1 min left",
        ),
        (DownloadProgress("a.gguf", 1, 5_030_000_000, 0.0, None), "a.gguf    0 %  0 MB of 5.03 GB"),
        (
            DownloadProgress("a.gguf", 20_000_000, 50_000_000, 5e8, 3.0, "checking"),
            "a.gguf   40 %  20 MB of 50 MB  checking  500.0 MB/s  3 s left",
        ),
        (DownloadProgress("a.gguf", 0, 0, 0.0, 55.0, "waiting"), "a.gguf  waiting, 55 s"),
        (DownloadProgress("a.gguf", 9, 9, 1e6, 0.0), "a.gguf  100 %  0 MB of 0 MB  1.0 MB/s"),
        (
            DownloadProgress("\x1b[31ma\x07.gguf", 0, 0, 0.0, 8000.0, "waiting"),
            "[31ma.gguf  waiting, 2 h 13 min",
        ),
    ],
)
def test_the_line(progress: DownloadProgress, line: str) -> None:
    """Lost otherwise: how long it will take; or a terminal, to a file's name with escape codes in it."""
    assert progress_line(progress, 80) == line
    assert len(progress_line(progress, 30)) <= 30


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT to another process")
def test_ctrl_c_and_on(server: HubServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Lost otherwise: what had come of gigabytes, and how to go on."""
    gate = Gate()
    server.faults["CDN"] = [Fault(gate=gate)]
    script = "import sys; from app.commands.pull import main; sys.exit(main(sys.argv[1:]))"
    process = running("org/one:one.gguf", script=script)
    assert gate.reached.wait(60)
    [left] = [path for path in wait_for_partial() if path.stat().st_size]
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    gate.opened.set()
    assert (process.returncode, out) == (130, b"")
    assert b"specchat pull org/one:one.gguf goes on from there" in err and b"Traceback" not in err
    came = left.stat().st_size
    assert DATA.startswith(left.read_bytes()) and here("one") == [False, False]
    assert pull_command.main(["one"]) == 0 and here("one") == [True, True]
    assert server.ranges == [None, f"bytes={came}-", None]


def wait_for_partial() -> list[Path]:
    """The file that a download writes, once something is in it."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = list(hub_of(os.environ).own.rglob("*.incomplete"))
        if any(path.stat().st_size for path in found):
            return found
        time.sleep(0.01)
    raise AssertionError("nothing came")


def test_offline_in_a_process_of_its_own(server: HubServer) -> None:
    """Lost otherwise: the one sentence, where the variable is set as people set it."""
    script = "import sys; from app.commands.pull import main; main(sys.argv[1:])"
    process = running("org/one:one.gguf", script=script, environment={"HF_HUB_OFFLINE": "1"})
    _, err = process.communicate(timeout=60)
    assert b"HF_HUB_OFFLINE is set" in err and server.requests == []


def test_a_draft_that_another_model_needs_stays(
    server: HubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lost otherwise: another model's draft; or files that nothing needs, for ever."""
    pull_command.main(["one"])
    pull_command.main(["two"])
    capsys.readouterr()
    assert remove_command.main(["one", "--yes"]) == 0
    assert "small.gguf stays: two uses it" in capsys.readouterr().err
    assert here("one") == [False, True] and here("two") == [True, True]
    assert remove_command.main(["two", "--yes"]) == 0
    assert here("two") == [False, False]


def test_only_what_stays(server: HubServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Lost otherwise: a model broken by the removal of its draft under the draft's own name."""
    pull_command.main(["one"])
    assert remove_command.main(["org/small:small.gguf", "--yes"]) == 0
    assert "small.gguf stays: one, one-again uses it" in capsys.readouterr().err
    assert here("one") == [True, True]


def test_asked_first(server: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost otherwise: gigabytes, to a name mistyped."""
    pull_command.main(["one"])
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    with pytest.raises(UsageError, match="--yes"):
        remove_command.main(["one"])
    for answer, left in (("n\n", True), ("y\n", False)):
        stdin = io.StringIO(answer)
        monkeypatch.setattr(stdin, "isatty", lambda: True)
        monkeypatch.setattr("sys.stdin", stdin)
        try:
            remove_command.main(["one"])
        except UsageError:
            assert left
        assert here("one") == [left, left]


def test_a_stopped_download_is_removed(server: HubServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Lost otherwise: gigabytes that no command finds again."""
    server.faults["CDN"] = [Fault(cut=1_000_000)]
    server.faults["GET"] = [Fault(), Fault(404)]
    with pytest.raises(SpecchatError):
        pull_command.main(["org/one:one.gguf"])
    [left] = hub_of(os.environ).own.rglob("*.incomplete")
    assert left.stat().st_size == 1_000_000
    for name in ("org/one:one.gguf", "org/one"):
        with pytest.raises(SpecchatError, match=r"whole; run: specchat pull org/one:one\.gguf"):
            find_model(name)
    assert remove_command.main(["one", "--yes"]) == 0
    assert "1 MB freed" in capsys.readouterr().err and not left.exists()


def test_what_others_link_to_stays(server: HubServer, tmp_path: Path) -> None:
    """Lost otherwise: another file of the repository, or one outside of the cache that a link leads to."""
    pull_command.main(["org/one:one.gguf"])
    folder = cache() / "models--org--one"
    [snapshot] = (folder / "snapshots").iterdir()
    blob = folder / "blobs" / hashlib.sha256(DATA).hexdigest()
    try:
        (snapshot / "copy.gguf").symlink_to(blob)
    except OSError:
        pytest.skip("this system lets nobody make links")
    precious = tmp_path / "precious.gguf"
    precious.write_bytes(b"precious")
    older = folder / "snapshots" / ("c" * 40) / "one.gguf"
    older.parent.mkdir()
    older.symlink_to(precious)
    assert remove_command.main(["one", "--yes"]) == 0
    assert precious.read_bytes() == b"precious" and not os.path.lexists(older)
    assert (snapshot / "copy.gguf").read_bytes() == DATA and not (snapshot / "one.gguf").exists()


def test_a_folder_that_leads_outside(server: HubServer, tmp_path: Path) -> None:
    """Lost otherwise: files of a folder that is not the cache's."""
    pull_command.main(["org/one:one.gguf"])
    folder = cache() / "models--org--one"
    elsewhere = tmp_path / "elsewhere"
    folder.rename(elsewhere)
    try:
        folder.symlink_to(elsewhere)
    except OSError:
        pytest.skip("this system lets nobody make links")
    with pytest.raises(SpecchatError, match="outside"):
        remove_command.main(["one", "--yes"])
    assert here("one")[0]


@pytest.mark.parametrize("shared", [True, False])
def test_bytes_that_the_cache_keeps_once_for_all(server: HubServer, shared: bool) -> None:
    """Lost otherwise: the bytes of another repository; or room that is freed in words only."""
    pull_command.main(["org/one:one.gguf"])
    name = hashlib.sha256(DATA).hexdigest()
    blob = cache() / "models--org--one" / "blobs" / name
    store = cache() / "blobs" / "ff" / ("f" * 64)
    store.parent.mkdir(parents=True)
    blob.rename(store)
    other = cache() / "models--org--other" / "blobs" / name
    other.parent.mkdir(parents=True)
    try:
        blob.symlink_to(os.path.relpath(store, blob.parent))
        if shared:
            other.symlink_to(os.path.relpath(store, other.parent))
    except OSError:
        pytest.skip("this system lets nobody make links")
    assert remove_command.main(["one", "--yes"]) == 0
    assert store.exists() == shared and here("one")[0] is False
