"""The three standard streams, which may be closed, full, or left by their reader."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator

from app.errors import OutputError

_STDIN, _STDOUT, _STDERR = range(3)


def take_streams() -> None:
    """Make the streams safe to use. Raises OutputError where there is no standard output.

    From then on, standard output raises OutputError where it is full, and ReaderLeft where nobody reads it
    any more. Standard error only comments: what cannot be written there is dropped.
    """
    _hold_numbers()
    error, output = sys.stderr, sys.stdout
    if sys.stdin is None:
        sys.stdin = open(_STDIN, encoding="utf-8", closefd=False)  # noqa: SIM115 - it stays open
        # The chat reads keys from this file's number.
        sys.__stdin__ = sys.stdin  # type: ignore[misc]
    if error is None:
        nowhere = open(_STDERR, "wb", closefd=False)  # noqa: SIM115 - it stays open
        sys.stderr = _Comments(nowhere, encoding="utf-8")
    elif error is sys.__stderr__ and isinstance(error, io.TextIOWrapper):
        sys.stderr = _Comments(
            error.buffer, encoding=error.encoding, errors="backslashreplace", line_buffering=True
        )
    if output is None:
        raise OutputError("Standard output is closed, so no answer can be given: open it, or name a file.")
    # A reply may hold characters that this terminal or pipe cannot encode.
    if output is sys.__stdout__ and isinstance(output, io.TextIOWrapper):
        sys.stdout = _Output(
            output.buffer, encoding=output.encoding, errors="replace", line_buffering=output.line_buffering
        )


class ReaderLeft(BrokenPipeError):
    """Whoever read standard output has gone (`| head`)."""


class _Output(io.TextIOWrapper):
    """Standard output, whose failures are exceptions of their own. Each is raised once: when Python ends, it
    writes what is left in the buffer and would complain again."""

    def write(self, text: str) -> int:
        with _told():
            return super().write(text)

    def flush(self) -> None:
        with _told():
            super().flush()


@contextlib.contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        _to_nowhere(_STDOUT)
        raise ReaderLeft from error
    except OSError as error:
        _to_nowhere(_STDOUT)
        raise OutputError(
            f"The output cannot be written ({error.strerror}): make room, or write it elsewhere."
        ) from error


class _Comments(io.TextIOWrapper):
    """Standard error, whose failures are ignored."""

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError:
            _to_nowhere(_STDERR)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            _to_nowhere(_STDERR)


def _hold_numbers() -> None:
    """Open those of the three that are closed. Otherwise the next file, a model or a pipe, gets the number,
    and with it whatever is printed by us, native code or children."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The system gives the lowest free number, which is this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def _to_nowhere(number: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)
