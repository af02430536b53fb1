"""What the commands share: a parser whose faults are ours, whole numbers, a yes or no."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from app.errors import UsageError


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are UsageError, as all others of ours."""

    def error(self, message: str) -> None:  # type: ignore[override]
        raise UsageError(f"{message[:1].upper()}{message[1:]}. See {self.prog} --help.")


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """An argument type: a whole number in a range."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
        if most is not None and number > most:
            raise argparse.ArgumentTypeError(f"{text} is more than {most}")
        return number

    return parse


def ask(question: str) -> bool:
    """A yes or no from the terminal; no where nobody can answer."""
    if sys.stdin is None or not sys.stdin.isatty():
        return False
    print(question, "[y/N]", end=" ", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
