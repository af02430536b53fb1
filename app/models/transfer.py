"""One file on its way from the hub: the part of it that is here, its hash, and the requests for the rest."""

from __future__ import annotations

import hashlib
import math
import os
import re
import shutil
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from app.errors import SpecchatError
from app.models.hub import Hub, HubFile
from app.models.hub_faults import Retryable, fault_of, network_errors

_SECONDS = 20.0
_READ_BYTES = 1 << 20
_REPORT_SECONDS = 0.1
_RATE_SECONDS = 8.0
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")

Doing = Literal["downloading", "checking", "waiting"]


@dataclass(frozen=True, slots=True)
class DownloadProgress:
    """How far a file is: bytes done and in all, bytes a second, seconds left (None: not known yet).

    doing: bytes arrive, bytes that are here are hashed, or the hub or another program is waited for.
    """

    file: str
    done: int
    total: int
    rate: float
    left: float | None
    doing: Doing = "downloading"


@dataclass(frozen=True, slots=True)
class Remote:
    """What the hub says of a file. etag: its SHA-256, of a small file its git hash; size in bytes."""

    commit: str
    etag: str
    size: int


class Digest(Protocol):
    """A hash on its way."""

    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


def digest_of(remote: Remote) -> Digest:
    """The hash that the file's bytes have to end in, before the first of them."""
    if len(remote.etag) == 64:
        return hashlib.sha256()
    # What git calls a file that it keeps itself.
    return hashlib.sha1(f"blob {remote.size}\0".encode(), usedforsecurity=False)


@dataclass(slots=True)
class Meter:
    """Tells the progress of one file, a few times a second, and whether to stop."""

    part: HubFile
    total: int
    report: Callable[[DownloadProgress], None]
    check_stop: Callable[[], None]
    _samples: deque[tuple[float, int]] = field(default_factory=deque)
    _told: float = -math.inf

    def start(self, done: int) -> None:
        """Something begins with so many bytes: the rate is counted from here."""
        self._samples = deque([(time.monotonic(), done)])

    def tell(self, done: int, doing: Doing, wait: float | None = None, at_once: bool = False) -> None:
        """Report; raises StoppedError if a stop was asked for. wait: seconds that will be waited."""
        self.check_stop()
        now = time.monotonic()
        if now - self._told < _REPORT_SECONDS and not at_once:
            return
        self._told = now
        samples = self._samples
        samples.append((now, done))
        while len(samples) > 2 and now - samples[0][0] > _RATE_SECONDS:
            samples.popleft()
        since, before = samples[0]
        seconds = now - since
        rate = (done - before) / seconds if seconds > 0 and doing != "waiting" else 0.0
        left = (self.total - done) / rate if rate > 0 else None
        file = self.part.file.rpartition("/")[2]
        left = wait if doing == "waiting" else left
        self.report(DownloadProgress(file, done, self.total, rate, left, doing))


def hash_bytes(read: Callable[[int], bytes], digest: Digest, meter: Meter) -> int:
    """Feed all that there is to read to the hash; how many bytes that were."""
    meter.start(0)
    done = 0
    while piece := read(_READ_BYTES):
        digest.update(piece)
        done += len(piece)
        meter.tell(done, "checking")
    return done


class Partial:
    """The file that the bytes go to, and the hash of those that are in it."""

    def __init__(self, path: Path, remote: Remote, meter: Meter) -> None:
        """Opens what an earlier download left, and hashes it. Close it whatever happens."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._remote = remote
        self._digest = digest_of(remote)
        self._file = path.open("r+b" if path.exists() else "w+b")
        self.done = 0
        try:
            if os.fstat(self._file.fileno()).st_size > remote.size:
                self.restart()
            self.done = hash_bytes(self._file.read, self._digest, meter)
        except BaseException:
            self._file.close()
            raise

    def restart(self) -> None:
        """Forget all that has come."""
        self._file.seek(0)
        self._file.truncate()
        self._digest = digest_of(self._remote)
        self.done = 0

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self._digest.update(data)
        self.done += len(data)

    def close(self) -> None:
        self._file.close()

    def delete(self) -> None:
        """Remove the file: its bytes are wrong."""
        self._file.close()
        self._path.unlink()

    @property
    def is_right(self) -> bool:
        """Whether these are all the bytes and their hash is the one that the hub names."""
        return self.done == self._remote.size and self._digest.hexdigest() == self._remote.etag

    def finish(self, blob: Path) -> None:
        """Make it the blob. The bytes reach the disk first: a blob is whole after a power cut too."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        # Where the cache is on another disk this copies: to a name that is known as unfinished.
        beside = blob.with_name(f"{blob.name}.{os.getpid()}.incomplete")
        try:
            blob.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(self._path, beside)
            os.replace(beside, blob)
        finally:
            beside.unlink(missing_ok=True)


def ask(part: HubFile, hub: Hub) -> Remote:
    """What the hub says of the file. Raises Retryable, or SpecchatError with what to do."""
    from huggingface_hub import get_hf_file_metadata

    try:
        said = get_hf_file_metadata(
            _address(part, part.revision or "main", hub), timeout=_SECONDS, endpoint=hub.endpoint
        )
    except network_errors() as error:
        raise fault_of(error, part, hub) from error
    # These become names of files.
    commit, etag = said.commit_hash or "", said.etag or ""
    known = re.fullmatch(r"[0-9a-f]{40}", commit) and re.fullmatch(r"[0-9a-f]{64}|[0-9a-f]{40}", etag)
    if not known or said.size is None:
        raise SpecchatError(
            f"{hub.endpoint} names no checksum or no size for {part.file}, so it could not be verified: "
            "unset HF_ENDPOINT, or set it to another mirror."
        )
    return Remote(commit, etag, said.size)


def receive(part: HubFile, hub: Hub, remote: Remote, partial: Partial, meter: Meter) -> None:
    """One request for all that is missing. Raises Retryable where the connection ends before that.

    Raises SpecchatError, and deletes what came, where the server has a file of another size.
    """
    if partial.done == remote.size:
        return
    try:
        total = _receive(part, hub, remote, partial, meter)
    except network_errors() as error:
        raise fault_of(error, part, hub) from error
    if total != remote.size:
        partial.delete()
        found = "more" if total is None else f"{total:,} bytes"
        raise SpecchatError(
            f"The server has {found} where {part.repository} names {remote.size:,} bytes for {part.file}, so "
            "what came was deleted. Try again; if that repeats, do without the mirror or proxy between."
        )
    if partial.done < remote.size:
        raise Retryable(SpecchatError(f"The connection ended before {part.file} was whole: try again."))


def _receive(part: HubFile, hub: Hub, remote: Remote, partial: Partial, meter: Meter) -> int | None:
    """The size of the whole file, as far as the server tells it; None where more came than it may have."""
    from huggingface_hub import get_session
    from huggingface_hub.utils import build_hf_headers, hf_raise_for_status  # type: ignore[attr-defined]

    headers = {**build_hf_headers(), "Accept-Encoding": "identity"}
    if partial.done:
        headers["Range"] = f"bytes={partial.done}-"
    # The hub's own address, not the one that it redirects to: that one is signed for a short time only.
    # On the way to another host the client leaves the token out.
    address = _address(part, remote.commit, hub)
    with get_session().stream(
        "GET", address, headers=headers, timeout=_SECONDS, follow_redirects=True
    ) as response:
        if response.status_code == 416:
            partial.restart()
            raise Retryable(SpecchatError(f"The server has less of {part.file} than is here: try again."))
        hf_raise_for_status(response)
        start, total = extent(response.status_code, response.headers)
        if total not in (None, remote.size):
            return total
        if start != partial.done:
            partial.restart()
        if start != partial.done:
            raise Retryable(
                SpecchatError(f"The server sent another piece of {part.file} than was asked for.")
            )
        meter.start(partial.done)
        for piece in response.iter_bytes():
            partial.write(piece)
            if partial.done > remote.size:
                return None
            meter.tell(partial.done, "downloading")
    return remote.size


def extent(status: int, headers: Mapping[str, str]) -> tuple[int, int | None]:
    """Where the bytes of an answer begin, and how long the whole file is (None: it does not say)."""
    if status == 206:
        found = _CONTENT_RANGE.match(headers.get("Content-Range", ""))
        if found is None:
            return -1, None
        return int(found[1]), None if found[2] == "*" else int(found[2])
    length = headers.get("Content-Length", "")
    plain = headers.get("Content-Encoding", "identity") == "identity"
    return 0, int(length) if plain and length.isascii() and length.isdigit() else None


def _address(part: HubFile, revision: str, hub: Hub) -> str:
    from huggingface_hub import hf_hub_url

    return hf_hub_url(part.repository, part.file, revision=revision, endpoint=hub.endpoint)
