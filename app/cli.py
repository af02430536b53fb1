"""The command line: arguments, exit codes. Everything heavy is imported when it is needed."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from app.arguments import Parser, whole
from app.chat.gate import clean
from app.errors import OutputError, SpecchatError, UsageError
from app.settings.fields import nearest, shown
from app.streams import ReaderLeft, take_streams
from proposers.registry import PROPOSERS

if TYPE_CHECKING:
    from app.oneshot import OneShot

_KV_TYPES = ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0")
_LONGEST_K = 32
# ggml has room for so many threads, and the native settings for so large a number.
_MOST_THREADS = 512
_LARGEST = 2**31 - 1
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
        # What a fault left in the buffer: Python would complain at its end.
        with suppress(OutputError, ReaderLeft):
            if sys.stdout is not None:
                sys.stdout.flush()


def _carry_out(arguments: Sequence[str]) -> int:
    """Run the command, and have all written that it printed."""
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
    print(f"specchat: {' '.join(clean(str(error)).split())}", file=sys.stderr)
    return error.exit_code


def _chat_or_answer(arguments: Sequence[str]) -> int:
    parser = _parser()
    try:
        options = parser.parse_args(arguments)
    except UsageError as error:
        raise (_mistyped(arguments[0]) or error) from None
    if options.version:
        from importlib.metadata import version

        print(f"specchat {version('specchat')}, llama-cpp-python {version('llama-cpp-python')}")
        return 0
    if options.prompt is None:
        for name in (options.model, options.draft, *options.files):
            _check_model(name)
        from app.tui.run import run as chat

        return chat(_given(parser, arguments))
    if options.resume is not None:
        raise UsageError("--resume opens the chat: leave -p out.")
    from app.oneshot import run

    return run(_one_shot(options))


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
    """What to say of a word that is nearly a command."""
    near = nearest(word, _COMMANDS)
    return UsageError(f"There is no command {shown(word)}. Did you mean `specchat {near}`?") if near else None


def _given(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> dict[str, object]:
    """What was written on the command line, by its name: what was not, the settings decide."""
    absent = object()
    parser.set_defaults(**dict.fromkeys(vars(parser.parse_args([])), absent))
    return {name: value for name, value in vars(parser.parse_args(arguments)).items() if value is not absent}


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="specchat",
        description="Chat with a local model; with -p, ask it once. Speculative decoding makes it faster "
        "and changes no probability.",
        usage="specchat [MODEL] [--resume [NAME]] [options]\n       specchat -p PROMPT [FILE…] [options]",
        epilog=f"Commands: {', '.join(_COMMANDS)}; each has its own --help.",
    )
    add = parser.add_argument
    add("files", nargs="*", metavar="MODEL | FILE", help="the model to chat with; after -p, documents")
    add("-p", "--prompt", help="ask this, print the answer and leave; files and piped text go before it")
    add("--resume", nargs="?", const="", metavar="NAME", help="go on with a chat, the newest if not named")
    add("--version", action="store_true", help="print the version")
    add("--json", action="store_true", help="print one JSON object with the text and every figure")
    add("--system", metavar="TEXT", help="system prompt")
    add("--template", metavar="NAME", help="chat template: chatml, …, or a Jinja file")

    model = parser.add_argument_group("models")
    add = model.add_argument
    add("--model", metavar="M", help="path of a .gguf or a name of the catalogue (default: the bundled one)")
    add("--draft", metavar="D", help="a smaller model with the same vocabulary")
    add("--bridge", action="store_true", help="allow a draft with another vocabulary, by way of its text")
    add(
        "--ctx",
        type=whole(2, _LARGEST),
        metavar="N",
        help="tokens of context (default: 8192, more if needed, less where memory is short)",
    )
    add(
        "--gpu-layers",
        type=whole(-1, _LARGEST),
        default=-1,
        metavar="N",
        help="layers on the GPU (default: as many as fit)",
    )
    add(
        "--rpc",
        type=_addresses,
        default=(),
        metavar="HOST:PORT",
        help="llama.cpp RPC servers that take layers, with commas",
    )
    add("--threads", type=whole(1, _MOST_THREADS), metavar="N", help="default: measured")
    add(
        "--flash-attention",
        choices=("auto", "on", "off"),
        default="auto",
        help="default: on a GPU llama.cpp's choice, on a CPU measured",
    )
    add("--kv-type", choices=_KV_TYPES, default="f16", help="numbers in the cache (default: f16)")
    add("--no-mmap", action="store_true", help="read the weights into memory")

    speculation = parser.add_argument_group("speculation")
    add = speculation.add_argument
    names = "; ".join(f"{kind.name}: {kind.summary}" for kind in PROPOSERS.values())
    add(
        "--proposer",
        choices=("auto", *PROPOSERS),
        default="auto",
        help=f"{names}; auto: for each pass the one that brings most (default)",
    )
    add("--k", type=_draft_length, metavar="N|auto", help="tokens to draft a pass (default: auto)")
    add("--exact", action="store_true", help="the same greedy stream whatever is drafted, bit for bit (CPU)")
    add("--yes", action="store_true", help="write a layer-skipped copy above 1 GB without asking")

    sampling = parser.add_argument_group("sampling")
    add = sampling.add_argument
    add("--temp", type=float, default=0.8, metavar="T", help="temperature, 0 for argmax (default: 0.8)")
    add("--top-k", type=int, default=40, metavar="N", help="0 for off (default: 40)")
    add("--top-p", type=float, default=0.95, metavar="P", help="1 for off (default: 0.95)")
    add("--min-p", type=float, default=0.05, metavar="P", help="0 for off (default: 0.05)")
    add("--repeat-penalty", type=float, default=1.0, metavar="R", help="1 for off (default: 1)")
    add("--frequency-penalty", type=float, default=0.0, metavar="F", help="0 for off (default: 0)")
    add("--presence-penalty", type=float, default=0.0, metavar="F", help="0 for off (default: 0)")
    add("--seed", type=whole(0), metavar="S", help="default: a new one, shown at the end")
    add("--max-tokens", type=whole(1), default=1024, metavar="N", help="default: 1024")
    add("--stop", action="append", default=[], metavar="S", help="end the reply before this text")
    return parser


def _one_shot(options: argparse.Namespace) -> OneShot:
    from app.assembly import Setup
    from app.engine.settings import Sampling
    from app.llama.settings import ContextSettings, ModelSettings
    from app.oneshot import OneShot

    return OneShot(
        prompt=options.prompt,
        files=tuple(options.files),
        setup=Setup(
            model=options.model,
            draft=options.draft,
            context_length=options.ctx,
            model_settings=ModelSettings(
                gpu_layers=options.gpu_layers, mmap=not options.no_mmap, rpc=options.rpc
            ),
            context_settings=ContextSettings(
                threads=options.threads,
                flash_attention=options.flash_attention,
                cache_type=options.kv_type,
                exact=options.exact,
            ),
            bridge=options.bridge,
        ),
        proposer=options.proposer,
        sampling=Sampling(
            temperature=options.temp,
            top_k=options.top_k,
            top_p=options.top_p,
            min_p=options.min_p,
            repeat_penalty=options.repeat_penalty,
            frequency_penalty=options.frequency_penalty,
            presence_penalty=options.presence_penalty,
        ),
        k=options.k,
        seed=options.seed,
        max_tokens=options.max_tokens,
        system=options.system,
        stop=tuple(options.stop),
        template=options.template,
        json=options.json,
        agreed=options.yes,
    )


def _addresses(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _draft_length(text: str) -> int | None:
    if text == "auto":
        return None
    if text == "0":
        raise argparse.ArgumentTypeError("drafting 0 tokens is --proposer off")
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= _LONGEST_K:
        raise argparse.ArgumentTypeError(f"{text!r} is not auto or a whole number from 1 to {_LONGEST_K}")
    return int(text)
