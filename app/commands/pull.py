"""`specchat pull`: bring a model of the catalogue, or one file of Hugging Face, to this disk."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

from app.arguments import Parser
from app.chat.gate import clean
from app.config.fields import nearest, shown
from app.errors import SpecchatError
from app.models.catalogue import Entry, catalogue
from app.models.hub import HubFile, parse_hub_file
from app.models.hub_faults import MissingError
from app.models.pull import pull, readable, readable_time
from app.models.transfer import DownloadProgress


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    parser = Parser(
        prog="specchat pull",
        description="Download a model and its draft from Hugging Face, into the cache that other programs "
        "share. A download that was stopped goes on with the same command.",
        epilog="HF_HOME moves the cache, HF_ENDPOINT names a mirror.",
    )
    parser.add_argument("name", metavar="NAME", help="a name of the catalogue, or org/repo:file.gguf")
    name = parser.parse_args(arguments).name
    entry, parts = find(name)
    if entry is not None:
        print(f"{entry.name}: licence {clean(entry.licence)}", file=sys.stderr)
    lines = _Lines(sys.stderr.isatty())
    try:
        paths = pull(parts, lines.show, lambda: False)
    except KeyboardInterrupt:
        lines.end()
        print(
            f"Stopped. What has come is kept: specchat pull {clean(name)} goes on from there.",
            file=sys.stderr,
        )
        return 130
    except MissingError as error:
        lines.end()
        if entry is not None and entry.unverified:
            raise MissingError(
                f"{error} This entry of the catalogue was never checked against the hub: name the file "
                "yourself, specchat pull org/repo:file.gguf."
            ) from error
        raise
    except SpecchatError:
        lines.end()
        raise
    lines.end()
    for path in paths:
        print(clean(str(path)))
    return 0


def find(name: str) -> tuple[Entry | None, tuple[HubFile, ...]]:
    """What a person named: an entry of the catalogue, if it is one, and its files.

    Raises SpecchatError where it is neither an entry nor a file.
    """
    entries = catalogue()
    entry = entries.get(name)
    if entry is not None:
        return entry, entry.parts
    part = parse_hub_file(name)
    if part is not None:
        return None, (part,)
    near = nearest(name.lower(), entries)
    meant = f" (did you mean {near}?)" if near else ""
    raise SpecchatError(
        f"The catalogue has no {shown(name)}{meant}: `specchat models` lists what it has, and any other file "
        "is named org/repo:file.gguf."
    )


class _Lines:
    """A line of progress for each file: one that changes on a terminal, two that stay elsewhere."""

    def __init__(self, terminal: bool) -> None:
        self._terminal = terminal
        self._file = ""
        self._doing = ""
        self._width = 0

    def show(self, progress: DownloadProgress) -> None:
        """Tell how far it is."""
        if self._file and progress.file != self._file:
            self.end()
        if self._terminal:
            line = progress_line(progress, shutil.get_terminal_size().columns - 1)
            # No escape codes: what the line before leaves over is written over with spaces.
            print(f"\r{line.ljust(self._width)}", end="", file=sys.stderr, flush=True)
            self._width = len(line)
        elif (progress.file, progress.doing) != (self._file, self._doing):
            size = f", {readable(progress.total)}" if progress.total else ""
            print(f"{progress.doing} {clean(progress.file)}{size}", file=sys.stderr, flush=True)
        self._file, self._doing = progress.file, progress.doing

    def end(self) -> None:
        """Leave the line that changes as it is."""
        if self._terminal and self._file:
            print(file=sys.stderr)
        self._file, self._width = "", 0


def progress_line(progress: DownloadProgress, columns: int) -> str:
    """How far a file is, in a line that fits: what it is, share, bytes, rate, time left."""
    total, done = progress.total, progress.done
    said = [f"{100 * done // total:3} %  {readable(done)} of {readable(total)}"] if total else []
    if progress.doing == "waiting":
        said.append(f"waiting, {readable_time(progress.left)}" if progress.left is not None else "waiting")
    else:
        if progress.doing == "checking":
            said.append("checking")
        if progress.rate:
            said.append(f"{progress.rate / 1e6:.1f} MB/s")
        if progress.left is not None and done < total:
            said.append(f"{readable_time(progress.left)} left")
    figures = "  ".join(said)
    name, room = clean(progress.file), max(columns - len(figures) - 2, 8)
    if len(name) > room:
        name = f"{name[: room - 1]}…"
    return f"{name}  {figures}"[:columns]
