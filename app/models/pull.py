"""Downloads: files of Hugging Face into its cache, resumed where they broke off, used only when whole.

The bytes come over plain HTTP, also where the hub offers its chunk protocol: so a download that was
ended by anything goes on where it was, and what arrives is hashed as it arrives.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from app.errors import SpecchatError
from app.models.hub import CachedFile, Hub, HubFile, check_hub, check_hub_file, downloaded, hub_of
from app.models.hub_faults import NoNetworkError, Retryable, RetryPolicy, StoppedError
from app.models.transfer import DownloadProgress, Meter, Partial, Remote, ask, digest_of, hash_bytes, receive

_SLICE_SECONDS = 0.2
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A file that is not here, and what the hub says of it."""

    file: CachedFile
    remote: Remote

    @property
    def partial(self) -> Path:
        return self.file.partial(self.remote.etag)


def pull(
    parts: Sequence[HubFile],
    progress: Callable[[DownloadProgress], None],
    stop: Callable[[], bool],
    hub: Hub | None = None,
    policy: RetryPolicy | None = None,
) -> list[Path]:
    """Bring these files to the disk; their paths. Nothing is fetched before all are known to exist and fit.

    What is here and right is not fetched again. `stop` is asked many times a second: StoppedError then, and
    what has come is kept for the next call, as it is after KeyboardInterrupt. Raises SpecchatError with
    what to do for every other fault.
    """
    hub = hub or hub_of(os.environ)
    check_hub(hub)
    # The library's warnings are the server's own words, and would go to the terminal as they are.
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    try:
        return _Pull(hub, progress, stop, policy or RetryPolicy()).run(parts)
    except OSError as error:
        raise _disk_fault(error, hub.cache) from error


@dataclass(frozen=True, slots=True)
class _Pull:
    """One call of `pull`."""

    hub: Hub
    progress: Callable[[DownloadProgress], None]
    stop: Callable[[], bool]
    policy: RetryPolicy

    def run(self, parts: Sequence[HubFile]) -> list[Path]:
        found = {part: self._find(part) for part in dict.fromkeys(parts)}
        self._check_room([each for each in found.values() if isinstance(each, _Wanted)])
        paths = {part: each if isinstance(each, Path) else self._bring(each) for part, each in found.items()}
        return [paths[part] for part in parts]

    def _find(self, part: HubFile) -> Path | _Wanted:
        """The file, if it is here and right; else what the hub says of it."""
        check_hub_file(part)
        file = CachedFile(self.hub, part)
        here = downloaded(part, self.hub)
        if here is not None and part.revision is not None and file.is_known(here):
            # What a commit holds never changes, so the hub need not be asked.
            return here
        meter = self._meter(part, part.size)
        try:
            remote = self._retry(lambda: ask(part, self.hub), lambda: 0, self.policy.tries_to_reach, meter)
        except NoNetworkError:
            if here is None:
                raise
            return here
        return self._look(file, remote) or _Wanted(file, remote)

    def _look(self, file: CachedFile, remote: Remote) -> Path | None:
        """The file, if what is here is what the hub has. A wrong file in its place is deleted."""
        blob, pointer = file.blob(remote.etag), file.pointer(remote.commit)
        here = blob if os.path.lexists(blob) else pointer
        if not os.path.lexists(here):
            return None
        if not self._is_right(file, remote, here):
            here.unlink()
            return None
        return file.link(remote.etag, remote.commit)

    def _is_right(self, file: CachedFile, remote: Remote, here: Path) -> bool:
        if not here.is_file() or here.stat().st_size != remote.size:
            return False
        if file.is_verified(remote.etag, here):
            return True
        # Another program brought it. It is read once.
        digest = digest_of(remote)
        with here.open("rb") as opened:
            hash_bytes(opened.read, digest, self._meter(file.part, remote.size))
        if digest.hexdigest() != remote.etag:
            return False
        file.set_verified(remote.etag, here)
        return True

    def _check_room(self, wanted: Sequence[_Wanted]) -> None:
        """Raises SpecchatError where a disk has no room for what is missing of all files."""
        missing = {each.partial: each.remote.size - _size(each.partial) for each in wanted}
        own, cache = _existing(self.hub.own), _existing(self.hub.cache)
        needed = {own: sum(max(0, size) for size in missing.values())}
        if own.stat().st_dev != cache.stat().st_dev:
            needed[cache] = sum(each.remote.size for each in wanted)
        for folder, size in needed.items():
            free = shutil.disk_usage(folder).free
            if size > free:
                raise SpecchatError(
                    f"The disk has no room: {readable(size)} are still to come and {folder} has "
                    f"{readable(free)} free. Make room, or set HF_HOME to a folder on another disk."
                )

    def _bring(self, wanted: _Wanted) -> Path:
        """Download the file, unless another program is quicker; its path."""
        file, remote = wanted.file, wanted.remote
        meter = self._meter(file.part, remote.size)
        # While another program downloads this very file it is waited for.
        with file.lock(remote.etag, lambda: meter.tell(_size(wanted.partial), "waiting")):
            path = self._look(file, remote)
            if path is None:
                with closing(Partial(wanted.partial, remote, meter)) as partial:
                    self._fill(wanted, partial, meter)
                path = file.link(remote.etag, remote.commit)
        file.drop_partials(keep=remote.etag)
        return path

    def _fill(self, wanted: _Wanted, partial: Partial, meter: Meter) -> None:
        """Bring all bytes. Raises SpecchatError, and deletes them, where they are not the hub's."""
        file, part, remote = wanted.file, wanted.file.part, wanted.remote
        self._retry(
            lambda: receive(part, self.hub, remote, partial, meter),
            lambda: partial.done,
            self.policy.tries,
            meter,
        )
        if not partial.is_right:
            partial.delete()
            raise SpecchatError(
                f"{part.file} arrived with other bytes than {part.repository} names (its checksum differs), "
                "so it was deleted. Try again; if that repeats, do without the mirror or proxy between."
            )
        meter.tell(partial.done, "downloading", at_once=True)
        partial.finish(file.blob(remote.etag))
        file.set_verified(remote.etag, file.blob(remote.etag))

    def _meter(self, part: HubFile, total: int) -> Meter:
        return Meter(part, total, self.progress, self._check_stop)

    def _check_stop(self) -> None:
        if self.stop():
            raise StoppedError("Stopped. What has come is kept: the same command goes on from there.")

    def _retry(
        self, attempt: Callable[[], _Result], done: Callable[[], int], tries: int, meter: Meter
    ) -> _Result:
        """Try until it succeeds. Raises SpecchatError after `tries` tries in a row without progress."""
        failures = 0
        while True:
            before = done()
            try:
                return attempt()
            except Retryable as fault:
                failures = 1 if done() > before else failures + 1
                wait = self.policy.first_pause * 2 ** (failures - 1) if fault.wait is None else fault.wait
                if failures > tries or wait > self.policy.longest:
                    raise fault.error from fault
            while wait > 0:
                meter.tell(done(), "waiting", wait=wait)
                self.policy.sleep(min(wait, _SLICE_SECONDS))
                wait -= _SLICE_SECONDS


def readable(count: int) -> str:
    """A number of bytes as people read it."""
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    while not folder.exists():
        folder = folder.parent
    return folder


def _disk_fault(error: OSError, cache: Path) -> SpecchatError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return SpecchatError(
            f"The disk of {cache} is full. What has come is kept: make room, then give the command again."
        )
    return SpecchatError(
        f"{cache} cannot be used ({error.strerror}): change its rights, or set HF_HOME to another folder."
    )


def readable_time(seconds: float) -> str:
    """A time as people read it, to the second below a minute."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
