"""What the commands share: a parser, types and options of arguments, and a question with yes or no."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from app.config.fields import LARGEST
from app.errors import UsageError


class Parser(argparse.ArgumentParser):
    """Raises UsageError, so that wrong usage is told in one line as all other faults are."""

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


def add_model_options(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Which models a command loads, and how its replies are made with them; the group of these options."""
    group = parser.add_argument_group("models")
    add = group.add_argument
    add(
        "--model",
        dest="name",
        metavar="M",
        help="path of a .gguf or a name of the catalogue (default: the bundled one)",
    )
    add("--draft", metavar="D", help="a smaller model with the same vocabulary")
    add("--bridge", action="store_true", help="allow a draft with another vocabulary: it drafts as text")
    add(
        "--ctx",
        dest="context_length",
        type=whole(2, LARGEST),
        metavar="N",
        help="tokens of context (default: 8192, more if needed, less where memory is short)",
    )
    add("--template", metavar="NAME", help="chat template: chatml, …, or a Jinja file")
    add("--exact", action="store_true", help="the same greedy text bit for bit, whatever is drafted (CPU)")
    add("--yes", action="store_true", help="write a layer-skipped copy above 1 GB without asking")
    return group


def ask(question: str) -> bool:
    """A yes or no from the terminal; no where nobody can answer."""
    if sys.stdin is None or not sys.stdin.isatty():
        return False
    print(question, "[y/N]", end=" ", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
