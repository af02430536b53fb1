"""Files of Hugging Face on this disk: where its cache keeps them, and which are whole.

The cache is huggingface_hub's and is laid out as that library lays it out, so that other programs share the
files; what specchat notes for itself lies in a folder of its own. The library's cache functions are not used:
importing them takes longer than all else that a start does to find its model, one broken link hides a whole
repository from them, and their deletion follows links that lead out of the cache.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from app.errors import UsageError
from app.files import whole_file
from app.models.places import hub_folders

DEFAULT_ENDPOINT = "https://huggingface.co"
# What the hub allows; two dots or hyphens in a row would make another name of the folder that keeps it.
_REPOSITORY = re.compile(r"(?!.*(?:\.\.|--))[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_][\w.-]*", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")
# Signs that separate folders, or name drives and streams, on one system or another.
_FORBIDDEN_IN_FILES = frozenset('\\:*?"<>|')
# The catalogue's sizes are rounded, and a repository may hold another version of the file by now. Far less
# than that is a file that something cut.
_SMALLEST_SHARE = 0.5
_LOCK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file on Hugging Face. size: bytes, rounded as its page shows it; 0 where it is not known. revision:
    the commit to take, None for whatever is newest."""

    repository: str
    file: str
    size: int
    revision: str | None


def repository_problem(repository: str) -> str | None:
    """What to write instead of this name of a repository; None where it is one."""
    return None if _REPOSITORY.fullmatch(repository) else "write it as org/repo"


def file_problem(file: str) -> str | None:
    """What to write instead of this name of a file in a repository; None where it is one."""
    if not file.lower().endswith(".gguf"):
        return "name a file that ends in .gguf"
    if any(not part.strip(" .") for part in file.split("/")) or _FORBIDDEN_IN_FILES.intersection(file):
        return "write its path in the repository, with / between folders and no . or .. in it"
    return None


def revision_problem(revision: object) -> str | None:
    """What to write instead of this revision; None where it is one."""
    if isinstance(revision, str) and _COMMIT.fullmatch(revision):
        return None
    return "give the 40 digits (0-9, a-f) of a commit, or leave it out"


def check_hub_file(part: HubFile) -> None:
    """Raises UsageError where a name could lead out of the folder that it belongs in."""
    problem = repository_problem(part.repository) or file_problem(part.file)
    if problem is None and part.revision is not None:
        problem = revision_problem(part.revision)
    if problem:
        raise UsageError(f"{part.repository}:{part.file} is no file of Hugging Face: {problem}.")


def parse_hub_file(name: str) -> HubFile | None:
    """The file that org/repo:file.gguf names; None where it is no such name."""
    repository, _, file = name.partition(":")
    named = repository_problem(repository) is None and file_problem(file) is None
    return HubFile(repository, file, 0, None) if named else None


@dataclass(frozen=True, slots=True)
class Hub:
    """Where files come from. cache: huggingface_hub's folder, which keeps them. own: specchat's folder for
    downloads that are not whole and for notes on what was verified."""

    endpoint: str
    cache: Path
    own: Path


def hub_of(environment: Mapping[str, str]) -> Hub:
    """The hub and the folders that huggingface_hub's variables name."""
    endpoint = environment.get("HF_ENDPOINT", "").rstrip("/") or DEFAULT_ENDPOINT
    return Hub(endpoint, *hub_folders(environment, Path(os.path.expanduser("~"))))


def check_hub(hub: Hub) -> None:
    """Raises UsageError where the hub's address is not one."""
    if not re.fullmatch(r"https?://[^/\s]+(/\S*)?", hub.endpoint):
        raise UsageError(
            f"HF_ENDPOINT is {hub.endpoint!r}, which is not an address: write https://… or unset it."
        )


@dataclass(frozen=True, slots=True)
class CachedFile:
    """The place of one repository's file in the cache."""

    hub: Hub
    part: HubFile

    @property
    def folder(self) -> Path:
        """The repository's folder."""
        return self.hub.cache / f"models--{self.part.repository.replace('/', '--')}"

    def pointer(self, commit: str) -> Path:
        """The file as programs open it: a link to its blob where the system has links, else the file."""
        return self.folder.joinpath("snapshots", commit, *self.part.file.split("/"))

    def blob(self, etag: str) -> Path:
        """The bytes, under the name of their hash. Only whole files lie here."""
        return self.folder / "blobs" / etag

    def partial(self, etag: str) -> Path:
        """What has come of the file, named by the file and its hash, so that it is found again."""
        file = f"{self.part.file}.incomplete"
        return self.hub.own.joinpath("downloads", *self.part.repository.split("/"), etag, *file.split("/"))

    def commits(self) -> list[str]:
        """Revisions that have files here: first the one that `main` last named, then the newest."""
        dated = []
        with suppress(OSError), os.scandir(self.folder / "snapshots") as entries:
            main = self._main_commit()
            dated = [
                (entry.name == main, entry.stat().st_mtime, entry.name) for entry in entries if entry.is_dir()
            ]
        return [name for *_, name in sorted(dated, reverse=True)]

    def _main_commit(self) -> str:
        try:
            return (self.folder / "refs" / "main").read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return ""

    def verified_note(self, etag: str) -> Path:
        """The small file that says which size and time the bytes had when their hash was right."""
        return self.hub.own / "verified" / self.folder.name / etag

    def is_verified(self, etag: str, file: Path) -> bool:
        """Whether this file's hash was found right, and the file is as it was then."""
        try:
            return self.verified_note(etag).read_text(encoding="ascii") == _state(file)
        except (OSError, ValueError):
            return False

    def set_verified(self, etag: str, file: Path) -> None:
        """Note that this file's hash is right, so that gigabytes need not be read for it again."""
        with whole_file(self.verified_note(etag)) as note:
            note.write(_state(file).encode())

    def is_known(self, file: Path) -> bool:
        """Whether this file of a revision is linked to a blob whose hash was found right."""
        blob = target_of(file)
        return blob is not None and blob == self.blob(blob.name) and self.is_verified(blob.name, blob)

    def link(self, etag: str, commit: str) -> Path:
        """Make the blob the commit's file, and note the commit as the newest unless it was asked for by its
        number; the path to open."""
        blob, pointer = self.blob(etag), self.pointer(commit)
        if os.path.lexists(blob) and target_of(pointer) != blob:
            pointer.parent.mkdir(parents=True, exist_ok=True)
            pointer.unlink(missing_ok=True)
            try:
                os.symlink(os.path.relpath(blob, pointer.parent), pointer)
            except FileExistsError:
                pass  # another download of the same file was quicker
            except OSError:
                # Windows gives links to administrators and developers only.
                os.replace(blob, pointer)
        if self.part.revision is None and self._main_commit() != commit:
            with whole_file(self.folder / "refs" / "main") as reference:
                reference.write(commit.encode())
        return pointer

    @contextmanager
    def lock(self, etag: str, wait: Callable[[], None]) -> Iterator[None]:
        """Be the only program that writes this blob. `wait` is called about twice a second till then; what it
        raises ends the wait."""
        path = self.hub.cache / ".locks" / self.folder.name / f"{etag}.lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            while True:
                try:
                    stack.enter_context(file_lock(path, _LOCK_SECONDS))
                    break
                except TimeoutError:
                    wait()
            yield

    def drop_partials(self, keep: str | None = None) -> int:
        """Remove what had come of other versions of this file than `keep`, unless it is being written; how
        many bytes that frees."""
        freed = 0
        downloads = self.hub.own / "downloads"
        versions = downloads / self.part.repository
        for etag in os.listdir(versions) if versions.is_dir() else []:
            path = self.partial(etag)
            if etag != keep and path.exists():
                with suppress(_Busy), self.lock(etag, _refuse):
                    freed += unlink(path)
                    remove_empty(path.parent, downloads)
        return freed


class _Busy(Exception):
    """Another program writes the file."""


def _refuse() -> None:
    raise _Busy


def _state(file: Path) -> str:
    status = file.stat()
    return f"{status.st_size} {status.st_mtime_ns}"


def downloaded(part: HubFile, hub: Hub | None = None) -> Path | None:
    """The whole file in the cache, looked for without a network; None where it is not here.

    A file that names no revision may be of any, the one that `main` last named first.
    """
    file = CachedFile(hub or hub_of(os.environ), part)
    for commit in [part.revision] if part.revision else file.commits():
        path = file.pointer(commit)
        # os.path answers for any name; pathlib raises for some.
        if os.path.isfile(path) and os.path.getsize(path) > part.size * _SMALLEST_SHARE:
            return path
    return None


def target_of(link: Path) -> Path | None:
    """Where a link leads, one step; None where it is no link."""
    try:
        return Path(os.path.normpath(link.parent / os.readlink(link).removeprefix("\\\\?\\")))
    except OSError:
        return None


def unlink(path: Path) -> int:
    """Remove a file or link; how many bytes that frees."""
    try:
        status = path.lstat()
        path.unlink()
    except FileNotFoundError:
        return 0
    return 0 if status.st_nlink > 1 or stat.S_ISLNK(status.st_mode) else status.st_size


def remove_empty(folder: Path, top: Path) -> None:
    """Remove a folder and those above it, below `top`, as far as they are empty."""
    with suppress(OSError):
        while folder != top:
            folder.rmdir()
            folder = folder.parent


def file_lock(path: Path, seconds: float | None = None) -> AbstractContextManager[object]:
    """The lock that huggingface_hub takes on that file. Raises TimeoutError after so many seconds."""
    from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]

    return WeakFileLock(path, timeout=seconds)
