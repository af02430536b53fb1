"""Downloads against a stand-in for the hub: whatever breaks, no file is used that is not whole and right."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

import huggingface_hub
import pytest

from app.errors import SpecchatError, UsageError
from app.models.hub import CachedFile, Hub, HubFile, check_hub_file, downloaded, hub_of, parse_hub_file
from app.models.hub_faults import MissingError, NoNetworkError, RetryPolicy, StoppedError, retry_after
from app.models.pull import pull
from app.models.transfer import DownloadProgress, extent
from tests.models.hub_server import Fault, Gate, HubServer, hub_server

REPOSITORY, FILE, COMMIT = "org/model-GGUF", "model-Q4_K_M.gguf", "a" * 40
SIZE = 700_001
DATA = random.Random(5).randbytes(SIZE)
PART = HubFile(REPOSITORY, FILE, SIZE, None)
DRAFT = HubFile("other/draft-GGUF", "draft.gguf", 300_000, None)
HASTE = RetryPolicy(first_pause=0.0)
AT_ONCE = RetryPolicy(tries=0, tries_to_reach=0)


@dataclass
class Puller:
    """Pulls from the stand-in into a cache of its own, and keeps what was told."""

    server: HubServer
    hub: Hub
    told: list[DownloadProgress] = field(default_factory=list)

    def __call__(self, *parts: HubFile, policy: RetryPolicy = HASTE) -> list[Path]:
        return pull(parts or (PART,), self.told.append, lambda: False, self.hub, policy)

    @property
    def left(self) -> list[Path]:
        """What downloads that did not end have left."""
        return [path for path in self.hub.own.glob("downloads/**/*") if path.is_file()]


@pytest.fixture
def puller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Puller]:
    """A stand-in that holds PART and DRAFT, and an empty cache."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    # The client reads the variables of proxies when it is made.
    huggingface_hub.close_session()
    with hub_server() as server:
        server.add(REPOSITORY, FILE, DATA, COMMIT)
        server.add(DRAFT.repository, DRAFT.file, DATA[:300_000], "b" * 40)
        yield Puller(server, Hub(server.address, tmp_path / "hub", tmp_path / "own"))
    huggingface_hub.close_session()


def test_target_and_draft(puller: Puller) -> None:
    """Lost otherwise: half a pair, a file that other programs do not find, and the same bytes twice."""
    assert downloaded(PART, puller.hub) is None
    target, draft = puller(PART, DRAFT)
    assert target.read_bytes() == DATA and draft.read_bytes() == DATA[:300_000]
    assert (downloaded(PART, puller.hub), downloaded(DRAFT, puller.hub)) == (target, draft)
    for part, path in ((PART, target), (DRAFT, draft)):
        found = huggingface_hub.try_to_load_from_cache(part.repository, part.file, puller.hub.cache)
        assert found == str(path)
    assert puller.told[-1] == DownloadProgress("draft.gguf", 300_000, 300_000, puller.told[-1].rate, 0.0)
    assert puller.server.sent == SIZE + 300_000
    assert puller(PART, DRAFT) == [target, draft] and puller.server.sent == SIZE + 300_000
    assert puller.left == []


def test_nothing_of_specchat_lies_in_the_shared_cache(puller: Puller) -> None:
    """Lost otherwise: files that other programs count, show or delete, as they take them for their own."""
    puller.server.faults["CDN"] = [Fault(cut=200_000)]
    with suppress(SpecchatError):
        puller(policy=AT_ONCE)
    assert len(puller.left) == 1
    assert [path for path in puller.hub.cache.rglob("*") if path.is_file() and path.suffix != ".lock"] == []
    [path] = puller()
    info = huggingface_hub.scan_cache_dir(puller.hub.cache)
    assert info.warnings == []
    [repository] = info.repos
    assert repository.size_on_disk == SIZE and [each.commit_hash for each in repository.revisions] == [COMMIT]
    kept = {each for each in puller.hub.cache.rglob("*") if each.is_file() and each.suffix != ".lock"}
    theirs = {"blobs", "refs", COMMIT}
    assert path in kept and {each.parent.name for each in kept} == theirs


@pytest.mark.skipif(sys.platform == "win32", reason="stands in for another disk by its error")
def test_a_cache_on_another_disk(puller: Puller, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost otherwise: every download where HF_HUB_CACHE is on a disk of its own."""
    rename = os.rename

    def refuse(source: str | Path, target: str | Path) -> None:
        if str(source).startswith(str(puller.hub.own)):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        rename(source, target)

    monkeypatch.setattr(os, "rename", refuse)
    assert puller()[0].read_bytes() == DATA and puller.left == []


def test_other_programs_use_what_was_pulled(puller: Puller) -> None:
    """Lost otherwise: gigabytes twice, as another program downloads what is here."""
    [path] = puller()
    theirs = huggingface_hub.hf_hub_download(
        REPOSITORY, FILE, cache_dir=puller.hub.cache, endpoint=puller.server.address
    )
    assert theirs == str(path) and puller.server.sent == SIZE


def test_ten_cuts(puller: Puller) -> None:
    """Lost otherwise: a file with a piece doubled or missing, or all bytes again after each cut."""
    seed = random.SystemRandom().randrange(2**32)
    print("seed", seed)
    cuts = random.Random(seed)
    puller.server.faults["CDN"] = [Fault(cut=cuts.randrange(1, SIZE // 11)) for _ in range(10)]
    [path] = puller()
    assert path.read_bytes() == DATA
    starts = [int(asked.removeprefix("bytes=").rstrip("-")) for asked in puller.server.ranges[1:] if asked]
    assert len(starts) == 10 and starts == sorted(starts) and starts[0] > 0
    assert puller.left == []


def test_cut_for_good_then_resumed(puller: Puller) -> None:
    """Lost otherwise: the bytes that had come before the connection went, and their count."""
    puller.server.faults["CDN"] = [Fault(cut=200_000)]
    with pytest.raises(SpecchatError, match=r"cannot be reached|ended before"):
        puller(policy=AT_ONCE)
    assert downloaded(PART, puller.hub) is None
    [left] = puller.left
    assert left.read_bytes() == DATA[:200_000]
    [path] = puller()
    assert path.read_bytes() == DATA
    assert puller.server.ranges == [None, "bytes=200000-"] and puller.server.sent == SIZE


def test_a_server_that_never_ends_a_file_is_given_up(puller: Puller) -> None:
    """Lost otherwise: a download that tries for ever without a byte more."""
    puller.server.faults["CDN"] = [Fault(cut=0)] * 100
    with pytest.raises(SpecchatError):
        puller()
    assert len(puller.server.ranges) == HASTE.tries + 1


def test_ranges_ignored(puller: Puller) -> None:
    """Lost otherwise: the start of the file twice in it, where a proxy knows no ranges."""
    puller.server.faults["CDN"] = [Fault(cut=300_000), Fault(whole=True)]
    [path] = puller()
    assert path.read_bytes() == DATA and puller.server.ranges == [None, "bytes=300000-"]


@pytest.mark.parametrize("sends", [DATA + b"more", DATA[:-1], b"an error page"])
def test_wrong_size_is_never_used(puller: Puller, sends: bytes) -> None:
    """Lost otherwise: a model cut short, or a page of a proxy, taken for a model."""
    puller.server.faults["CDN"] = [Fault(sends=sends)]
    with pytest.raises(SpecchatError, match="names 700,001 bytes"):
        puller()
    assert downloaded(PART, puller.hub) is None and puller.left == []
    assert puller()[0].read_bytes() == DATA


def test_wrong_bytes_are_never_used(puller: Puller) -> None:
    """Lost otherwise: a model with one bit turned, that answers nonsense."""
    puller.server.faults["CDN"] = [Fault(sends=b"X" + DATA[1:])]
    with pytest.raises(SpecchatError, match="other bytes"):
        puller()
    assert downloaded(PART, puller.hub) is None and puller.left == []
    assert puller()[0].read_bytes() == DATA


def test_a_rotten_start_is_found(puller: Puller) -> None:
    """Lost otherwise: zeros at the start of a model whose download a power cut ended."""
    puller.server.faults["CDN"] = [Fault(cut=200_000)]
    with suppress(SpecchatError):
        puller(policy=AT_ONCE)
    puller.left[0].write_bytes(bytes(200_000))
    with pytest.raises(SpecchatError, match="other bytes"):
        puller()
    assert puller.left == [] and puller()[0].read_bytes() == DATA


@pytest.mark.parametrize("whole", [True, False])
def test_a_start_that_is_all_or_too_long(puller: Puller, whole: bool) -> None:
    """Lost otherwise: a download that ended a moment before it was named, or any that others wrote into."""
    left = CachedFile(puller.hub, PART).partial(hashlib.sha256(DATA).hexdigest())
    left.parent.mkdir(parents=True)
    left.write_bytes(DATA if whole else DATA + b"more")
    assert puller()[0].read_bytes() == DATA
    assert puller.server.sent == (0 if whole else SIZE)


def test_stopped_then_resumed(puller: Puller) -> None:
    """Lost otherwise: a stop that waits for gigabytes, or loses them."""
    gate = Gate()
    puller.server.faults["CDN"] = [Fault(gate=gate)]
    with pytest.raises(StoppedError) as stopped:
        pull([PART], puller.told.append, gate.reached.is_set, puller.hub, HASTE)
    gate.opened.set()
    assert stopped.value.exit_code == 130 and downloaded(PART, puller.hub) is None
    [left] = puller.left
    came = left.stat().st_size
    assert 0 < came < SIZE and DATA.startswith(left.read_bytes())
    assert puller()[0].read_bytes() == DATA
    assert puller.server.ranges == [None, f"bytes={came}-"]


def test_no_room(puller: Puller, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost otherwise: an hour of download that fills the disk; a resume refused for bytes that are here."""
    free = 900_000
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 0, free))
    with pytest.raises(SpecchatError, match=r"no room: 1 MB are still to come .* 1 MB free\. Make room"):
        puller(PART, DRAFT)
    assert puller.server.ranges == [] and puller.left == []
    puller.server.faults["CDN"] = [Fault(cut=200_000)]
    with suppress(SpecchatError):
        puller(policy=AT_ONCE)
    assert len(puller(PART, DRAFT)) == 2


def test_the_disk_is_full_after_all(puller: Puller, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost otherwise: a traceback and all bytes, where another program took the room meanwhile."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with (
        monkeypatch.context() as patch,
        pytest.raises(SpecchatError, match=r"is full\. What has come is kept"),
    ):
        patch.setattr(os, "fsync", full)
        puller()
    assert downloaded(PART, puller.hub) is None
    assert puller()[0].read_bytes() == DATA and puller.server.sent == SIZE


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (401, "GatedRepo", "accepts? its licence|accept its licence"),
        (403, "GatedRepo", "hf auth login"),
        (403, "", "accept it at http"),
        (401, "", "token"),
        (401, "RepoNotFound", "There is no repository org/model-GGUF"),
        (404, "RepoNotFound", "There is no repository"),
        (404, "EntryNotFound", f"has no file {FILE}"),
        (404, "", f"has no file {FILE}"),
        (404, "RevisionNotFound", "has no revision main"),
        (418, "", "fault 418"),
    ],
)
def test_refusals(puller: Puller, status: int, code: str, said: str) -> None:
    """Lost otherwise: a traceback of a library, where a licence is to be accepted."""
    puller.server.faults["HEAD"] = [Fault(status, {"X-Error-Code": code} if code else {})]
    with pytest.raises(SpecchatError, match=said):
        puller()
    assert len(puller.server.requests) == 1 and downloaded(PART, puller.hub) is None


@pytest.mark.parametrize(
    "part",
    [
        HubFile("no/such-repository", FILE, 0, None),
        HubFile(REPOSITORY, "no-such.gguf", 0, None),
        HubFile(REPOSITORY, FILE, 0, "c" * 40),
    ],
)
def test_nothing_is_fetched_for_a_pair_that_cannot_be_whole(puller: Puller, part: HubFile) -> None:
    """Lost otherwise: gigabytes of a target whose draft is not there."""
    with pytest.raises(MissingError):
        puller(PART, part)
    assert puller.server.sent == 0


def test_asked_to_wait(puller: Puller) -> None:
    """Lost otherwise: a download that ends, or asks on and on, where the hub asks for a minute's policy."""
    slept: list[float] = []
    policy = RetryPolicy(sleep=slept.append)
    puller.server.faults["HEAD"] = [Fault(429, {"Retry-After": "7"})]
    puller.server.faults["GET"] = [Fault(429, {"RateLimit": '"resolvers";r=0;t=3'})]
    assert puller(policy=policy)[0].read_bytes() == DATA
    assert sum(slept) == pytest.approx(10)
    waits = [told.left for told in puller.told if told.doing == "waiting"]
    assert waits and waits[0] == pytest.approx(7)


def test_asked_to_wait_too_often_or_too_long(puller: Puller) -> None:
    """Lost otherwise: a terminal that stands still for a day."""
    slept: list[float] = []
    for wait, tries in (("7", 3), ("86400", 1)):
        puller.server.requests.clear()
        puller.server.faults["HEAD"] = [Fault(429, {"Retry-After": wait})] * 3
        with pytest.raises(SpecchatError, match=f"It asks for {wait} s"):
            puller(policy=RetryPolicy(sleep=slept.append))
        assert len(puller.server.requests) == tries
        puller.server.faults["HEAD"].clear()
    assert sum(slept) == pytest.approx(14)


def test_server_faults_pass(puller: Puller) -> None:
    """Lost otherwise: a download that one bad answer of many machines ends."""
    puller.server.faults["HEAD"] = [Fault(503), Fault(500)]
    puller.server.faults["GET"] = [Fault(502), Fault(500)]
    # The store refuses an address that has grown old: the hub gives a new one.
    puller.server.faults["CDN"] = [Fault(403), Fault(500), Fault(cut=1000), Fault(403)]
    assert puller()[0].read_bytes() == DATA


def test_server_faults_that_stay(puller: Puller) -> None:
    """Lost otherwise: tries without end."""
    puller.server.faults["CDN"] = [Fault(500)] * 100
    with pytest.raises(SpecchatError, match="fault 500"):
        puller()
    assert len(puller.server.ranges) == HASTE.tries + 1


def test_no_network(puller: Puller) -> None:
    """Lost otherwise: a model that is here and refused, as the hub cannot be asked about it."""
    with hub_server() as gone:
        nowhere = Hub(gone.address, puller.hub.cache, puller.hub.own)
    with pytest.raises(NoNetworkError, match=r"cannot be reached for model-Q4_K_M\.gguf"):
        pull([PART], puller.told.append, lambda: False, nowhere, HASTE)
    [path] = puller()
    assert pull([PART], puller.told.append, lambda: False, nowhere, HASTE) == [path]


def test_offline(puller: Puller, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost otherwise: the network, used where a person said that it must not be."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(NoNetworkError, match="HF_HUB_OFFLINE is set"):
        puller()
    assert puller.server.requests == []


def test_two_at_once(puller: Puller) -> None:
    """Lost otherwise: two downloads that write into one file, or the bytes twice."""
    gate, waits, paths = Gate(), threading.Event(), []
    puller.server.faults["CDN"] = [Fault(gate=gate)]

    def other(progress: DownloadProgress) -> None:
        if progress.doing == "waiting":
            waits.set()
            gate.opened.set()

    first = threading.Thread(target=lambda: paths.extend(puller()))
    first.start()
    assert gate.reached.wait(60)
    paths.extend(pull([PART], other, lambda: False, puller.hub, HASTE))
    first.join(60)
    assert waits.is_set() and len(paths) == 2 and paths[0] == paths[1]
    assert paths[0].read_bytes() == DATA and puller.server.sent == SIZE


@pytest.mark.parametrize("right", [True, False])
def test_a_file_of_another_program(puller: Puller, right: bool) -> None:
    """Lost otherwise: a broken file of another program used, or gigabytes read at each pull."""
    data = DATA if right else b"X" + DATA[1:]
    file = CachedFile(puller.hub, PART)
    blob = file.blob(hashlib.sha256(DATA).hexdigest())
    blob.parent.mkdir(parents=True)
    blob.write_bytes(data)
    assert puller()[0].read_bytes() == DATA
    assert puller.told[0].doing == "checking" and puller.server.sent == (0 if right else SIZE)
    puller.told.clear()
    puller()
    assert "checking" not in {told.doing for told in puller.told}


def test_a_commit_is_not_asked_for_again(puller: Puller) -> None:
    """Lost otherwise: a start that needs the network for what can never change."""
    pinned = HubFile(REPOSITORY, FILE, SIZE, COMMIT)
    [path] = puller(pinned)
    asked = len(puller.server.requests)
    assert puller(pinned) == [path] and len(puller.server.requests) == asked
    # A person who asks for no revision has it too.
    assert downloaded(PART, puller.hub) == path


def test_main_moves(puller: Puller) -> None:
    """Lost otherwise: gigabytes for a change of a README, or an old model for a new one."""
    [old] = puller()
    puller.server.add(REPOSITORY, FILE, DATA, "d" * 40)
    [same] = puller()
    assert same != old and same.samefile(old) and puller.server.sent == SIZE
    puller.server.add(REPOSITORY, FILE, DATA[::-1], "e" * 40)
    puller.server.faults["CDN"] = [Fault(cut=1000)]
    with suppress(SpecchatError):
        puller(policy=AT_ONCE)
    # Till the new one is whole, the old one is there.
    assert downloaded(PART, puller.hub) == same
    [new] = puller()
    assert new.read_bytes() == DATA[::-1] and downloaded(PART, puller.hub) == new


def test_without_links(puller: Puller, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost otherwise: all downloads on Windows, where links are for administrators."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(os, "symlink", refuse)
    [path] = puller()
    assert path.read_bytes() == DATA and not path.is_symlink()
    puller.told.clear()
    assert puller() == [path] and puller.server.sent == SIZE and puller.told == []


def test_chunk_storage_is_left_alone(puller: Puller) -> None:
    """Lost otherwise: a download that cannot be resumed, where the hub offers its chunk protocol."""
    puller.server.more_headers = {
        "X-Xet-Hash": "f" * 64,
        "Link": f'<{puller.server.address}/api/models/x/xet-read-token/y>; rel="xet-auth"',
    }
    puller.server.faults["CDN"] = [Fault(cut=200_000)]
    assert puller()[0].read_bytes() == DATA
    assert puller.server.ranges == [None, "bytes=200000-"]


def test_the_token_stays_with_the_hub(puller: Puller, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost otherwise: a person's token, sent to whatever host the hub redirects to."""
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    puller()
    assert {(request.step, request.authorised) for request in puller.server.requests} == {
        ("HEAD", True),
        ("GET", True),
        ("CDN", False),
    }


def test_warnings_of_a_server(puller: Puller, capfd: pytest.CaptureFixture[str]) -> None:
    """Lost otherwise: a terminal, to the escape codes that a mirror sends; or the line of progress."""
    puller.server.more_headers = {"X-HF-Warning": "topic; \x1b[31mred"}
    puller()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Linked-Etag": '"../../../outside"'},
        {"X-Linked-Etag": "", "ETag": '"5d41"'},
        {"X-Repo-Commit": "../../outside"},
        {"X-Linked-Size": "many"},
    ],
)
def test_names_that_a_server_gives(puller: Puller, headers: dict[str, str]) -> None:
    """Lost otherwise: files written outside of the cache, or used without a checksum."""
    puller.server.more_headers = headers
    with pytest.raises(SpecchatError, match="to another mirror"):
        puller()
    assert puller.server.sent == 0 and not puller.hub.cache.exists()


@pytest.mark.parametrize(
    "part",
    [
        HubFile("org/repo", "../x.gguf", 0, None),
        HubFile("org/repo", "/x.gguf", 0, None),
        HubFile("org/repo", "a\\..\\x.gguf", 0, None),
        HubFile("org/repo", "C:x.gguf", 0, None),
        HubFile("../repo", "x.gguf", 0, None),
        HubFile("org", "x.gguf", 0, None),
        HubFile("org/repo", "x.gguf", 0, "../main"),
    ],
)
def test_names_that_lead_outside(part: HubFile) -> None:
    """Lost otherwise: files of a person, written over by an entry of a catalogue."""
    with pytest.raises(UsageError):
        check_hub_file(part)


def test_a_file_that_was_cut_is_not_there(puller: Puller) -> None:
    """Lost otherwise: a start with a model that a full disk left empty."""
    [path] = puller()
    path.write_bytes(b"")
    assert downloaded(PART, puller.hub) is None
    assert puller()[0].read_bytes() == DATA


def test_names_of_files() -> None:
    """Lost otherwise: any file that the catalogue does not have."""
    assert parse_hub_file("org/repo-GGUF:sub/x-Q4.gguf") == HubFile("org/repo-GGUF", "sub/x-Q4.gguf", 0, None)
    for name in (
        "qwen3-4b",
        "org/repo",
        "org/repo:x.bin",
        "org:x.gguf",
        "a/b/c:x.gguf",
        "o/r:../x.gguf",
        ":x.gguf",
    ):
        assert parse_hub_file(name) is None


def test_where_the_cache_is(tmp_path: Path) -> None:
    """Lost otherwise: gigabytes on the disk that a person had moved them from."""
    home = os.path.expanduser("~")
    for variables, expected in (
        ({"HF_HUB_CACHE": str(tmp_path), "HF_HOME": "/elsewhere"}, str(tmp_path)),
        ({"HF_HOME": str(tmp_path), "XDG_CACHE_HOME": "/elsewhere"}, os.path.join(tmp_path, "hub")),
        ({"XDG_CACHE_HOME": str(tmp_path)}, os.path.join(tmp_path, "huggingface", "hub")),
        ({"HF_HOME": ""}, os.path.join(home, ".cache", "huggingface", "hub")),
    ):
        hub = hub_of(variables)
        assert (hub.endpoint, hub.cache) == ("https://huggingface.co", Path(expected))
    assert hub_of({"HF_HOME": str(tmp_path)}).own == tmp_path / "assets" / "specchat"
    assert hub_of({"HF_ENDPOINT": "https://mirror.example/"}).endpoint == "https://mirror.example"
    with pytest.raises(UsageError, match="HF_ENDPOINT"):
        pull([PART], lambda _: None, lambda: False, hub_of({"HF_ENDPOINT": "mirror"}))


def test_headers() -> None:
    """Lost otherwise: a wait or a range misread."""
    now = datetime(2026, 1, 1, tzinfo=timezone.utc)
    assert retry_after({"Retry-After": "Thu, 01 Jan 2026 00:00:30 GMT"}, now) == 30
    assert retry_after({"Retry-After": "Wed, 31 Dec 2025 00:00:00 GMT"}, now) == 0
    assert retry_after({"Retry-After": "soon"}, now) is None and retry_after({}, now) is None
    assert extent(206, {"Content-Range": "bytes 5-9/10"}) == (5, 10)
    assert extent(206, {"Content-Range": "bytes 5-9/*"}) == (5, None)
    assert extent(206, {})[0] < 0
    assert extent(200, {"Content-Length": "10"}) == (0, 10)
    assert extent(200, {"Content-Length": "10", "Content-Encoding": "gzip"}) == (0, None)
