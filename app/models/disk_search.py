"""Looks through folders for GGUF files that can be chatted with, each once, and tells why others cannot.

Nothing on a disk is trusted to be as its program wrote it: what is broken, gone or forbidden is told in a
sentence or passed over, and the rest is found all the same.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from app.models.places import Place
from app.models.row import UnusableFile
from app.models.usable import PART, kind_by_name

# A folder with more in it is hardly one for models, and listing it takes seconds.
_MOST_ENTRIES = 200_000
_MOST_MISSING = 8
# Windows would change line ends.
_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0)
# What downloaders append; aria2 keeps a file of its own beside the unfinished one.
_UNFINISHED = re.compile(
    r"(\.gguf)\.(part|partial|incomplete|download|downloading|downloadinprogress|crdownload|tmp|aria2)$",
    re.IGNORECASE,
)

PathParts: TypeAlias = tuple[str, ...]
Called: TypeAlias = Callable[[PathParts], PathParts]
"""From the parts of a file's path to what it may be called, best first."""


@dataclass(frozen=True, slots=True)
class Found:
    """A model. path: the file to load. name: how a person calls it, unique in a search. origin: the program
    that keeps it, or the folder that was searched. size: bytes, of all its parts."""

    path: Path
    name: str
    origin: str
    size: int


def parts_of(path: str) -> tuple[str, ...]:
    """The files that the model at `path` consists of, by its name alone: itself, or all parts of a split."""
    match = PART.search(path)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        return (path,)
    stem, end = path[: match.start()], path[match.end() :]
    numbers = range(1, int(match[2]) + 1)
    return tuple(f"{stem}-{number:05d}-of-{match[2]}{end}" for number in numbers)


class Search:
    """What was found so far, each file once, under one name."""

    def __init__(self) -> None:
        self.found: list[Found] = []
        self.unusable: list[UnusableFile] = []
        self._seen: set[object] = set()
        self._names: set[str] = set()
        self._told: set[str] = set()

    def leave_out(self, path: Path | str, origin: str, reason: str) -> None:
        """Say why, once, however the file is reached again."""
        try:
            real = os.path.realpath(path)
        except ValueError:  # no file can have such a name
            real = os.fspath(path)
        if real not in self._told:
            self._told.add(real)
            self.unusable.append(UnusableFile(os.fspath(path), origin, reason))

    def listed(self, folder: Path | str, place: Place) -> tuple[list[str], list[str]]:
        """Names of the files and of the folders in a folder, in order, links last: what they lead to may be
        reached by its own name. Nothing where the folder is not there or cannot be read."""
        files: list[tuple[bool, str]] = []
        folders: list[tuple[bool, str]] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    (folders if _is_folder(entry) else files).append((entry.is_symlink(), entry.name))
        except (FileNotFoundError, NotADirectoryError):
            if place.named and Path(folder) == place.path:
                self.leave_out(folder, place.origin, f"There is no folder {folder}; check its path.")
        except (OSError, ValueError) as error:
            self.leave_out(folder, place.origin, _unreadable(os.fspath(folder), error))
        return [name for _, name in sorted(files)], [name for _, name in sorted(folders)]

    def walk(self, top: Path, place: Place, called: Called, above: PathParts = (), deep: bool = True) -> None:
        """Take the models in a folder. called: the names of a file, given the folders that lead to it from
        the place and its own name; `above` are those before `top`."""
        for folder, parts, files in self.folders(top, place, deep=deep):
            self.take_files(folder, files, place.origin, called, (*above, *parts))

    def folders(
        self, top: Path, place: Place, *, deep: bool = True
    ) -> Iterator[tuple[str, PathParts, list[str]]]:
        """Each folder from `top` down, once, whatever links lead to it: its path, the names that lead to it,
        its files. Hidden folders hold what programs keep for themselves, and are passed over."""
        waiting: list[tuple[str, PathParts]] = [(os.fspath(top), ())]
        visited: set[object] = set()
        entries = 0
        while waiting:
            folder, parts = waiting.pop()
            try:
                identity = _identity(folder, os.stat(folder))
            except (OSError, ValueError):
                identity = folder  # why, is said where it is listed
            if identity in visited:
                continue
            visited.add(identity)
            files, below = self.listed(folder, place)
            entries += len(files) + len(below)
            if entries > _MOST_ENTRIES:
                reason = f"{top} holds more than {_MOST_ENTRIES:,} files; name a folder nearer to the models."
                self.leave_out(top, place.origin, reason)
                return
            yield folder, parts, files
            if deep:
                kept = [name for name in below if not name.startswith(".")]
                waiting += [(os.path.join(folder, name), (*parts, name)) for name in reversed(kept)]

    def take_files(
        self, folder: str, files: Sequence[str], origin: str, called: Called, above: PathParts
    ) -> None:
        """Take the models among the files of one folder, which the names `above` lead to."""
        present = set(files)
        for name in files:
            if name.startswith("."):
                continue
            path = os.path.join(folder, name)
            unfinished = _UNFINISHED.search(name)
            if unfinished is not None:
                whole = called((*above, name[: unfinished.end(1)]))[0]
                reason = f"{whole} is not downloaded whole; let the program that fetches it finish."
                self.leave_out(path, origin, reason)
            elif name.lower().endswith(".gguf") and f"{name}.aria2" not in present:
                first = parts_of(name)[0]
                if first == name:
                    self.take(path, origin, called((*above, name)))
                elif first not in present:
                    reason = f"{called((*above, first))[0]} is missing, the first part of a model; "
                    self.leave_out(os.path.join(folder, first), origin, f"{reason}download it again.")

    def take(self, path: str, origin: str, names: PathParts) -> None:
        """Take a model by its file, or the first of its parts, unless it was taken before or cannot be used.
        names: what it may be called, best first: the next where the one before is taken."""
        try:
            parts = [(part, _stat(part)) for part in parts_of(path)]
            first = parts[0][1]
            if first is not None:
                identity = _identity(path, first)
                if identity in self._seen or not stat.S_ISREG(first.st_mode):
                    return
                self._seen.add(identity)
            elif len(parts) == 1 and not os.path.islink(path):
                return  # it vanished meanwhile
            problem = _problem(names[0], parts)
        except (OSError, ValueError) as error:
            self.leave_out(path, origin, _unreadable(names[0], error))
            return
        if problem is not None:
            self.leave_out(path, origin, problem)
            return
        unused = next((each for each in (*names, path) if each not in self._names), path)
        self._names.add(unused)
        size = sum(about.st_size for _, about in parts if about)
        self.found.append(Found(Path(parts[0][0]), unused, origin, size))


def _unreadable(name: str, error: OSError | ValueError) -> str:
    """A sentence for what the system says of a file or folder."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"{name} cannot be read ({reason}); check its path and permissions."


def first_bytes(path: Path | str, count: int) -> bytes:
    """At most `count` bytes of a regular file, without the file object that costs more than reading them.

    Raises OSError where it cannot be read.
    """
    descriptor = os.open(path, _READ)
    try:
        return os.read(descriptor, count)
    finally:
        os.close(descriptor)


def _identity(path: str, about: os.stat_result) -> object:
    """What two ways to one file have in common. Some file systems number no files."""
    return (about.st_dev, about.st_ino) if about.st_ino else os.path.realpath(path)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False


def _stat(path: str) -> os.stat_result | None:
    """None where there is no such file. Raises OSError where it cannot be seen."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _problem(name: str, parts: Sequence[tuple[str, os.stat_result | None]]) -> str | None:
    """A sentence that says why these files are not a model. Raises OSError where one cannot be read."""
    missing = [number for number, (_, about) in enumerate(parts, 1) if about is None]
    if missing and len(parts) == 1:
        return f"{name} is a link to a file that is gone; download it again."
    if missing:
        listed = ", ".join(map(str, missing[:_MOST_MISSING])) + (
            ", …" if len(missing) > _MOST_MISSING else ""
        )
        return f"{name} has {len(parts):,} parts, and these are missing: {listed}; download them again."
    for number, (part, about) in enumerate(parts, 1):
        what = kind_by_name(os.path.basename(part)) if number == 1 else None
        what = what or _first_bytes_problem(part, about.st_size if about else 0)
        if what is not None:
            return f"{name if len(parts) == 1 else f'{name}, part {number}'} is {what}"
    return None


def _first_bytes_problem(path: str, size: int) -> str | None:
    """What the file is instead of a GGUF file. Raises OSError where it cannot be read."""
    if size == 0:
        return "empty; download it again."
    start = first_bytes(path, 4)
    if start == b"vers":
        return "a pointer of Git LFS, not the file itself; fetch it with git lfs pull."
    return None if start == b"GGUF" else "not a GGUF file, whatever its name says; download it again."
