"""`specchat pull`: bring a model of the catalogue, or one file of Hugging Face, to this disk."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

from app.arguments import Parser
from app.commands.status import StatusLine
from app.config.fields import nearest, shown
from app.errors import SpecchatError
from app.models.catalogue import Entry, catalogue
from app.models.hub import HubFile, parse_hub_file
from app.models.hub_faults import MissingError
from app.models.pull import pull, readable, readable_time
from app.models.transfer import DownloadProgress
from app.text import clean


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    parser = Parser(
        prog="specchat pull",
        description="Download a model and its draft from Hugging Face, into the cache that other programs "
        "share. The same command goes on with a download that was stopped.",
        epilog="HF_HOME moves the cache, HF_ENDPOINT names a mirror.",
    )
    parser.add_argument("name", metavar="NAME", help="a name of the catalogue, or org/repo:file.gguf")
    name = parser.parse_args(arguments).name
    entry, parts = find(name)
    if entry is not None:
        print(f"{entry.name}: licence {clean(entry.licence)}", file=sys.stderr)
    reporter = _Reporter()
    try:
        try:
            paths = pull(parts, reporter.show, lambda: False)
        finally:
            reporter.line.end()
    except KeyboardInterrupt:
        print(
            f"Stopped. What was downloaded is kept: specchat pull {clean(name)} goes on from there.",
            file=sys.stderr,
        )
        return 130
    except MissingError as error:
        if entry is None or not entry.unverified:
            raise
        raise MissingError(
            f"{error} This entry of the catalogue was never checked against the hub: name the file "
            "yourself, specchat pull org/repo:file.gguf."
        ) from error
    for path in paths:
        print(clean(str(path)))
    return 0


def find(name: str) -> tuple[Entry | None, tuple[HubFile, ...]]:
    """The files of that name, with the catalogue's entry where it has one.

    Raises SpecchatError for a name that is neither an entry of the catalogue nor a file.
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


class _Reporter:
    """DownloadProgress of each file: one line that changes on a terminal, otherwise a line for each step."""

    def __init__(self) -> None:
        self.line = StatusLine()
        self._last = ("", "")

    def show(self, progress: DownloadProgress) -> None:
        """Print how far the file is."""
        step = progress.file, progress.doing
        if progress.file != self._last[0]:
            self.line.end()
        if sys.stderr.isatty():
            self.line.show(progress_line(progress, shutil.get_terminal_size().columns - 1))
        elif step != self._last:
            size = f", {readable(progress.total)}" if progress.total else ""
            print(f"{progress.doing} {clean(progress.file)}{size}", file=sys.stderr, flush=True)
        self._last = step


def progress_line(progress: DownloadProgress, columns: int) -> str:
    """File, share, bytes, rate and time left in a line that fits."""
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
