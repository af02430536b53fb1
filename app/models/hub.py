"""Files of Hugging Face on this disk: where its cache keeps them, and which are whole.

The layout is the one of huggingface_hub, so that other programs share the files. It is read and written
here with no import of that library, as the chat looks for its models when it starts.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

from app.errors import UsageError
from app.models.catalogue import Part

DEFAULT_ENDPOINT = "https://huggingface.co"
_COMMIT = re.compile(r"[0-9a-f]{40}")
# Two hyphens or dots in a row would make another name of the folder.
_REPOSITORY = re.compile(r"(?!.*(?:\.\.|--))[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_][\w.-]*", re.ASCII)
_REVISION = re.compile(r"[\w.-]+(/[\w.-]+)*", re.ASCII)
# The catalogue's sizes are rounded, and a repository may hold another make of the file by now. Far less
# than that is a file that something cut.
_SMALLEST_SHARE = 0.5
_LOCK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Hub:
    """Where files come from, and the folder that keeps them."""

    endpoint: str
    cache: Path


def hub_of(environment: Mapping[str, str]) -> Hub:
    """The hub and the cache that huggingface_hub's variables name."""
    endpoint = environment.get("HF_ENDPOINT", "").rstrip("/") or DEFAULT_ENDPOINT
    return Hub(endpoint, _cache_folder(environment))


def check_hub(hub: Hub) -> None:
    """Raises UsageError where the hub's address is none."""
    if not re.fullmatch(r"https?://[^/\s]+(/\S*)?", hub.endpoint):
        raise UsageError(
            f"HF_ENDPOINT is {hub.endpoint!r}, which is no address: write https://… or unset it."
        )


def _cache_folder(environment: Mapping[str, str]) -> Path:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environment.get(name):
            return _expanded(environment[name])
    if environment.get("HF_HOME"):
        return _expanded(environment["HF_HOME"]) / "hub"
    return _expanded(environment.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface" / "hub"


def _expanded(path: str) -> Path:
    return Path(os.path.abspath(os.path.expandvars(os.path.expanduser(path))))


def parse_part(name: str) -> Part | None:
    """The file that org/repo:file.gguf names, of a size not known (0); None where it is no such name."""
    repository, colon, file = name.partition(":")
    part = Part(repository, file, 0, None)
    return part if colon and file.lower().endswith(".gguf") and _problem(part) is None else None


def check_part(part: Part) -> None:
    """Raises UsageError where a name could lead out of the folder that it belongs in."""
    problem = _problem(part)
    if problem:
        raise UsageError(problem)


def _problem(part: Part) -> str | None:
    names = [PurePosixPath(part.file), *(PureWindowsPath(name) for name in part.file.split("/"))]
    if any(name.drive or name.root or ".." in name.parts or not name.name for name in names):
        return f"{part.file!r} is no name of a file in a repository: write it as its page does."
    if not _REPOSITORY.fullmatch(part.repository):
        return f"{part.repository!r} is no name of a repository: write it as org/repo."
    if part.revision is not None and (not _REVISION.fullmatch(part.revision) or ".." in part.revision):
        return f"{part.revision!r} is no revision: give a commit, a branch or a tag."
    return None


@dataclass(frozen=True, slots=True)
class Shelf:
    """The place of one repository's file in the cache."""

    hub: Hub
    part: Part

    @property
    def folder(self) -> Path:
        """The repository's folder."""
        return self.hub.cache / self._name

    @property
    def _name(self) -> str:
        return "models--" + self.part.repository.replace("/", "--")

    def pointer(self, commit: str) -> Path:
        """The file as programs open it: a link to its blob where the system has links, else the file."""
        return self.folder.joinpath("snapshots", commit, *self.part.file.split("/"))

    def blob(self, etag: str) -> Path:
        """The bytes, under the name of their hash. Nothing lies here that is not whole."""
        return self.folder / "blobs" / etag

    def partial(self, etag: str) -> Path:
        """What has come of the file, named by its hash and the file's name, so that it is found again."""
        return self.folder / "blobs" / f"{etag}.{self._mark}.incomplete"

    @property
    def _mark(self) -> str:
        return hashlib.sha256(self.part.file.encode()).hexdigest()[:12]

    def commits(self) -> list[str]:
        """Revisions of which something is here, newest first."""
        dated = []
        with suppress(OSError), os.scandir(self.folder / "snapshots") as entries:
            dated = [(entry.stat().st_mtime, entry.name) for entry in entries if entry.is_dir()]
        return [name for _, name in sorted(dated, reverse=True)]

    def commit_of(self, revision: str) -> str | None:
        """The commit that a branch or tag stood for when it was last asked for."""
        if _COMMIT.fullmatch(revision):
            return revision
        try:
            text = self.folder.joinpath("refs", *revision.split("/")).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return None
        return text if _COMMIT.fullmatch(text) else None

    def remember(self, revision: str, commit: str) -> None:
        """Note the commit that a branch or tag stands for."""
        if revision != commit and self.commit_of(revision) != commit:
            reference = self.folder.joinpath("refs", *revision.split("/"))
            reference.parent.mkdir(parents=True, exist_ok=True)
            fresh = reference.with_name(f"{reference.name}.{os.getpid()}.tmp")
            fresh.write_text(commit, encoding="ascii")
            os.replace(fresh, reference)

    def is_verified(self, etag: str, file: Path) -> bool:
        """Whether this file's hash was found right, and the file is as it was then."""
        try:
            return self.verified_note(etag).read_text(encoding="ascii") == _state(file)
        except (OSError, ValueError):
            return False

    def set_verified(self, etag: str, file: Path) -> None:
        """Note that this file's hash is right, so that gigabytes need not be read for it again."""
        self.verified_note(etag).parent.mkdir(exist_ok=True)
        self.verified_note(etag).write_text(_state(file), encoding="ascii")

    def verified_note(self, etag: str) -> Path:
        """The small file that says of which size and time the blob was when its hash was right."""
        return self.folder / "blobs" / f"{etag}.verified"

    def is_known(self, file: Path) -> bool:
        """Whether this file of a revision is linked to a blob whose hash was found right."""
        blob = target_of(file)
        return blob is not None and blob == self.blob(blob.name) and self.is_verified(blob.name, blob)

    def link(self, etag: str, commit: str) -> Path:
        """Let the commit's file be this blob; the path to open."""
        blob, pointer = self.blob(etag), self.pointer(commit)
        if not os.path.lexists(blob) or target_of(pointer) == blob:
            return pointer
        pointer.parent.mkdir(parents=True, exist_ok=True)
        pointer.unlink(missing_ok=True)
        try:
            os.symlink(os.path.relpath(blob, pointer.parent), pointer)
        except FileExistsError:
            # Another download of the same file was quicker.
            return pointer
        except OSError:
            # Windows gives links to administrators and developers only.
            os.replace(blob, pointer)
        return pointer

    @contextmanager
    def lock(self, etag: str, wait: Callable[[], None]) -> Iterator[None]:
        """Be the only program that writes this blob. `wait` is called about twice a second till then."""
        path = self.hub.cache / ".locks" / self._name / f"{etag}.lock"
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
        """Take away what had come of this file in other makes than `keep`, unless it is being written."""
        freed = 0
        for path in list(self.folder.glob(f"blobs/*.{self._mark}.incomplete")):
            etag = path.name.partition(".")[0]
            if etag != keep:
                with suppress(_Busy), self.lock(etag, _refuse):
                    freed += unlink(path)
        return freed


class _Busy(Exception):
    """Another program writes the file."""


def _refuse() -> None:
    raise _Busy


def _state(file: Path) -> str:
    status = file.stat()
    return f"{status.st_size} {status.st_mtime_ns}"


def downloaded(part: Part, hub: Hub | None = None) -> Path | None:
    """The whole file in the cache, looked for without a network; None where it is not here.

    A file that names no revision may be of any, the one that `main` last stood for first.
    """
    shelf = Shelf(hub or hub_of(os.environ), part)
    commit = shelf.commit_of(part.revision or "main")
    others = shelf.commits() if part.revision is None else []
    for each in ([commit] if commit else []) + others:
        path = shelf.pointer(each)
        # os.path answers for any name; pathlib raises for some.
        if os.path.isfile(path) and os.path.getsize(path) > part.size * _SMALLEST_SHARE:
            return path
    return None


def target_of(link: Path) -> Path | None:
    """Where a link leads, one step; None where it is none."""
    try:
        return Path(os.path.normpath(link.parent / os.readlink(link).removeprefix("\\\\?\\")))
    except OSError:
        return None


def unlink(path: Path) -> int:
    """Take a file or link away; how many bytes that frees."""
    try:
        status = path.lstat()
        path.unlink()
    except FileNotFoundError:
        return 0
    return 0 if status.st_nlink > 1 or stat.S_ISLNK(status.st_mode) else status.st_size


def file_lock(path: Path, seconds: float | None = None) -> AbstractContextManager[object]:
    """The lock that huggingface_hub takes on that file. Raises TimeoutError after so many seconds."""
    from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]

    return WeakFileLock(path, timeout=seconds)
