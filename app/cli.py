"""The command line: arguments, exit codes. Everything heavy is imported when it is needed."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import get_args

from app.arguments import Parser, add_model_options, whole
from app.config.fields import LARGEST, MOST_THREADS, nearest, shown, with_arguments
from app.config.values import CacheType, FlashAttention, Settings
from app.engine.settings import LONGEST_DRAFT
from app.errors import OutputError, SpecchatError, UsageError
from app.streams import ReaderLeft, take_streams
from app.text import one_line
from proposers.registry import PROPOSERS

# Each command's module, loaded when it is called; it has a `main` that takes the arguments.
_COMMANDS = {
    "bench": "app.bench.run",
    "calibrate": "app.bench.calibrate",
    "compare": "app.bench.compare",
    "doctor": "app.commands.doctor",
    "explore": "app.tui.explore.run",
    "models": "app.commands.models",
    "pull": "app.commands.pull",
    "remove": "app.commands.remove",
    "skip-search": "app.bench.skip_search",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    try:
        take_streams()
        return _carry_out(sys.argv[1:] if arguments is None else list(arguments))
    except SpecchatError as error:
        return _complain(error)
    except KeyboardInterrupt:
        return 130
    except ReaderLeft:
        return 0
    finally:
        # Python would complain at its end about what a fault left in the buffer.
        with suppress(OutputError, ReaderLeft):
            if sys.stdout is not None:
                sys.stdout.flush()


def _carry_out(arguments: Sequence[str]) -> int:
    """Run the command, and flush what it printed."""
    module = _COMMANDS.get(arguments[0]) if arguments else None
    try:
        code: int = (
            _chat_or_answer(arguments)
            if module is None
            else importlib.import_module(module).main(arguments[1:])
        )
    except SystemExit:
        # The help was printed.
        sys.stdout.flush()
        raise
    sys.stdout.flush()
    return code


def _complain(error: SpecchatError) -> int:
    # Names of files and lines of templates may hold anything.
    print(f"specchat: {one_line(str(error))}", file=sys.stderr)
    return error.exit_code


def _chat_or_answer(arguments: Sequence[str]) -> int:
    try:
        # What is not written is not there: the settings, or their defaults, decide.
        given = vars(_parser().parse_args(arguments))
    except UsageError as error:
        raise (_mistyped(arguments[0]) or error) from None
    if "version" in given:
        from importlib.metadata import version

        print(f"specchat {version('specchat')}, llama-cpp-python {version('llama-cpp-python')}")
        return 0
    if "prompt" not in given:
        for name in (given.get("name"), given.get("draft"), *given["files"]):
            _check_model(name)
        from app.tui.run import run as chat

        return chat(given)
    if "resume" in given:
        raise UsageError("--resume opens the chat: leave -p out.")
    from app.oneshot import OneShot, run

    return run(
        OneShot(
            prompt=given["prompt"],
            files=tuple(given["files"]),
            settings=with_arguments(Settings(), given),
            stop=tuple(given.get("stop", ())),
            json="json" in given,
            may_write="yes" in given,
        )
    )


def _check_model(name: str | None) -> None:
    """Raises SpecchatError, before the screen is taken, for a model that is not there."""
    if name is None or os.path.isfile(os.path.expanduser(name)):
        return
    from app.models.locate import find_model

    try:
        find_model(name)
    except SpecchatError as error:
        raise (_mistyped(name) or error) from None


def _mistyped(word: str) -> UsageError | None:
    """The fault of a word that is nearly a command; None for others."""
    near = nearest(word, _COMMANDS)
    return UsageError(f"There is no command {shown(word)}. Did you mean `specchat {near}`?") if near else None


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="specchat",
        argument_default=argparse.SUPPRESS,
        description="Chat with a local model; with -p, ask it once. Speculative decoding makes it faster "
        "and changes no probability.",
        usage="specchat [MODEL] [--resume [NAME]] [options]\n       specchat -p PROMPT [FILE…] [options]",
        epilog=f"Commands: {', '.join(_COMMANDS)}; each has its own --help.",
    )
    add = parser.add_argument
    add(
        "files",
        nargs="*",
        default=[],
        metavar="MODEL | FILE",
        help="the model to chat with; after -p, documents",
    )
    add("-p", "--prompt", help="ask this, print the answer and leave; files and piped text go before it")
    add("--resume", nargs="?", const="", metavar="NAME", help="go on with a chat, the newest if not named")
    add("--version", action="store_true", help="print the version")
    add("--json", action="store_true", help="print one JSON object with the text and every figure")
    add("--system", metavar="TEXT", help="system prompt")

    add = add_model_options(parser).add_argument
    add(
        "--gpu-layers",
        type=whole(-1, LARGEST),
        metavar="N",
        help="layers on the GPU (default: as many as fit)",
    )
    add(
        "--rpc",
        type=_addresses,
        metavar="HOST:PORT",
        help="llama.cpp RPC servers that take layers, with commas",
    )
    add("--threads", type=whole(1, MOST_THREADS), metavar="N", help="default: measured")
    add(
        "--flash-attention",
        choices=get_args(FlashAttention),
        help="default: on a GPU llama.cpp's choice, on a CPU measured",
    )
    add(
        "--kv-type",
        dest="cache_type",
        choices=get_args(CacheType),
        help="numbers in the cache (default: f16)",
    )
    add("--no-mmap", dest="mmap", action="store_false", help="read the weights into memory")

    speculation = parser.add_argument_group("speculation")
    add = speculation.add_argument
    names = "; ".join(f"{kind.name}: {kind.summary}" for kind in PROPOSERS.values())
    add(
        "--proposer",
        choices=("auto", *PROPOSERS),
        help=f"{names}; auto: for each pass the one that brings most (default)",
    )
    add("--k", type=_draft_length, metavar="N|auto", help="tokens to draft a pass (default: auto)")

    sampling = parser.add_argument_group("sampling")
    add = sampling.add_argument
    add(
        "--temp", dest="temperature", type=float, metavar="T", help="temperature, 0 for argmax (default: 0.8)"
    )
    add("--top-k", type=int, metavar="N", help="0 for off (default: 40)")
    add("--top-p", type=float, metavar="P", help="1 for off (default: 0.95)")
    add("--min-p", type=float, metavar="P", help="0 for off (default: 0.05)")
    add("--repeat-penalty", type=float, metavar="R", help="1 for off (default: 1)")
    add("--frequency-penalty", type=float, metavar="F", help="0 for off (default: 0)")
    add("--presence-penalty", type=float, metavar="F", help="0 for off (default: 0)")
    add("--seed", type=whole(0), metavar="S", help="default: a new one, shown at the end")
    add("--max-tokens", type=whole(1), metavar="N", help="default: 1024")
    add("--stop", action="append", metavar="S", help="end the reply before this text")
    return parser


def _addresses(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _draft_length(text: str) -> int | None:
    if text == "auto":
        return None
    if text == "0":
        raise argparse.ArgumentTypeError("drafting 0 tokens is --proposer off")
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= LONGEST_DRAFT:
        raise argparse.ArgumentTypeError(f"{text!r} is not auto or a whole number from 1 to {LONGEST_DRAFT}")
    return int(text)
