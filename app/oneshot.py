"""`specchat -p`: one question, its answer on stdout, its figures on stderr or as JSON."""

from __future__ import annotations

import json
import secrets
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from app.arguments import ask
from app.assembly.assembly import Assembly
from app.assembly.template import template_for
from app.chat.documents import Document, read_document, read_stdin, with_documents
from app.chat.message import Message
from app.chat.prompt import encode
from app.commands.status import StatusLine
from app.config.values import Settings
from app.engine.events import Finished, Pass, Prefill, ProposerDropped, Request
from app.errors import SpecchatError, UsageError
from app.text import clean

# Tokens of a reply where no limit is given.
_MAX_TOKENS = 1024
# Tokens of a prompt whose reading is shown.
_LONG_PROMPT = 512
_ENDS = {
    "stop_string": "ended at a stop string",
    "length": "cut at --max-tokens",
    "context": "cut: the context is full",
    "cancelled": "interrupted",
}
# Figures that --json prints under their own names.
_SAME_NAME = (
    *("text", "token_ids", "origins", "prompt_tokens", "cached_tokens", "seed", "passes", "drafted"),
    *("accepted", "trimmed", "acceptance_rate", "tokens_per_pass", "accepted_by_position", "k_history"),
    "speedup",
)


@dataclass(frozen=True, slots=True)
class OneShot:
    """What `specchat -p` is asked. files: documents. may_write: large files are written without asking."""

    prompt: str
    files: tuple[str, ...]
    settings: Settings
    stop: tuple[str, ...] = ()
    json: bool = False
    may_write: bool = False


def run(arguments: OneShot) -> int:
    """Answer, and return the exit code.

    The engine works in a thread of its own: Python notices a signal between two of its steps only, and the
    main thread must not be in a native call of seconds when Ctrl+C comes. Documents are read here: only the
    thread that gets the signal can stop waiting for a pipe that stays open.
    """
    if not arguments.prompt.strip():
        raise UsageError("The prompt is empty: write what to do after -p.")
    prompt = with_documents(arguments.prompt, documents_of(arguments.files))
    interrupt = threading.Event()
    outcome: list[int | BaseException] = []

    def work() -> None:
        try:
            outcome.append(_answer(arguments, prompt, interrupt))
        except BaseException as error:
            outcome.append(error)
        finally:
            ended.set()

    # KeyboardInterrupt, raised while the thread starts, would leave it running. And Thread.join, when it is
    # interrupted, takes the thread for ended (Python 3.10 to 3.12).
    before = signal.signal(signal.SIGINT, lambda *_: interrupt.set())
    ended = threading.Event()
    try:
        threading.Thread(target=work, name="engine").start()
        while not ended.is_set():
            ended.wait(0.1 if sys.platform == "win32" else None)
    finally:
        signal.signal(signal.SIGINT, before)
    result = outcome[0]
    if isinstance(result, SpecchatError) and interrupt.is_set():
        return 130  # an interrupted load looks like one that failed
    if isinstance(result, BaseException):
        raise result
    return result


def _answer(arguments: OneShot, prompt: str, interrupt: threading.Event) -> int:
    line = StatusLine(shown=sys.stderr.isatty() and not arguments.json)
    settings = arguments.settings
    sampling, speculation = settings.sampling, settings.speculation
    with Assembly(
        settings.model,
        stop=interrupt.is_set,
        agree=lambda question: arguments.may_write or ask(question),
        say=lambda text: None if arguments.json else print(text, file=sys.stderr),
        progress=lambda share: not interrupt.is_set(),
    ) as assembly:
        target = assembly.target
        template = template_for(target, settings.model.template)
        tokens = encode(_messages(prompt, settings.chat.system), template, target)
        if not tokens:
            raise SpecchatError("The chat template wrote nothing: choose another with --template.")
        limit = sampling.max_tokens or _MAX_TOKENS
        engine = assembly.engine(speculation.proposer, needed=len(tokens) + limit)
        request = Request(
            prompt=tuple(tokens),
            sampling=sampling.for_engine(),
            seed=secrets.randbits(32) if sampling.seed is None else sampling.seed,
            max_tokens=limit,
            stop=arguments.stop,
            k=speculation.k,
        )
        for event in engine.generate(request):
            if isinstance(event, Prefill):
                show_prefill(line, event)
                continue
            line.clear()
            if isinstance(event, Pass):
                _show(event.text, arguments)
            elif isinstance(event, ProposerDropped):
                print(assembly.proposers.drop(event), file=sys.stderr)
            else:
                assembly.remember(engine, event)
                _show(event.rest, arguments)
                _report(event, arguments, assembly)
                return 130 if event.reason == "cancelled" else 0
    raise AssertionError("a reply ends with Finished")


def show_prefill(line: StatusLine, event: Prefill) -> None:
    """How much of a long prompt is read."""
    if event.total - event.cached > _LONG_PROMPT:
        line.show(f"reading {event.done:,} of {event.total:,} tokens")


def _show(text: str, arguments: OneShot) -> None:
    """Write text at once; on a terminal without control characters, into a pipe as the model wrote it."""
    if text and not arguments.json:
        sys.stdout.write(clean(text) if sys.stdout.isatty() else text)
        sys.stdout.flush()


def documents_of(files: Sequence[str]) -> list[Document]:
    """The files, and what was piped in."""
    documents = [read_document(file) for file in files]
    if sys.stdin is not None and not sys.stdin.isatty():
        data = sys.stdin.buffer.read()
        if data:
            documents.append(read_stdin(data))
    return documents


def _messages(prompt: str, system: str) -> list[Message]:
    messages = [Message("system", system)] if system else []
    return [*messages, Message("user", prompt)]


def _report(finished: Finished, arguments: OneShot, assembly: Assembly) -> None:
    draft = assembly.proposers.file_of("draft") or assembly.proposers.file_of("skip")
    if arguments.json:
        exact = arguments.settings.model.exact
        print(json.dumps(as_json(finished, assembly.target.path, draft, exact)))
        return
    if finished.text and not finished.text.endswith("\n"):
        print(flush=True)
    print(summary(finished, arguments.settings.speculation.proposer), file=sys.stderr)


def summary(finished: Finished, proposer: str) -> str:
    """The reply's figures in a line; what was not measured is left out."""
    parts = [proposer, f"{len(finished.token_ids):,} tokens"]
    rate, plain = finished.tokens_per_second, finished.plain_seconds
    if rate is not None:
        parts.append(f"{rate:.1f} tok/s")
        if not finished.drafted and proposer != "off":
            parts.append("never drafted")
    if finished.speedup is not None:
        measured = f" ({1 / plain:.1f} tok/s, measured here)" if plain and finished.drafted else ""
        parts.append(f"{finished.speedup:.2f}× plain{measured}")
    if finished.acceptance_rate is not None:
        parts.append(f"acceptance {finished.acceptance_rate:.0%}")
    if finished.tokens_per_pass is not None:
        parts.append(f"{finished.tokens_per_pass:.2f} tokens/pass")
    read = finished.prompt_tokens - finished.cached_tokens
    parts.append(f"{read:,} prompt tokens in {finished.prefill_seconds:.1f} s")
    parts.append(f"seed {finished.seed}")
    if finished.reason in _ENDS:
        parts.append(_ENDS[finished.reason])
    return " · ".join(parts)


def as_json(finished: Finished, model: Path, draft: Path | None, exact: bool) -> dict[str, object]:
    """The contract of `--json`: one object, null for what was not measured."""
    plain, host = finished.plain_seconds, finished.host_seconds_per_pass
    return {
        **{name: getattr(finished, name) for name in _SAME_NAME},
        "finish_reason": finished.reason,
        "by_proposer": {name: asdict(tally) for name, tally in finished.by_proposer.items()},
        "prefill_s": finished.prefill_seconds,
        "decode_s": finished.decode_seconds,
        "tokens_per_s": finished.tokens_per_second,
        "plain_tokens_per_s": 1 / plain if plain else None,
        "host_us_per_pass": host * 1e6 if host is not None else None,
        "model": str(model),
        "draft": str(draft) if draft else None,
        "exact": exact,
    }
