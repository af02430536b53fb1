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
from app.assembly import Assembly, Setup, template_for
from app.chat.documents import Document, read_document, read_stdin, with_documents
from app.chat.gate import clean
from app.chat.message import Message
from app.chat.prompt import encode
from app.engine.events import Finished, Pass, Prefill, ProposerDropped, Request
from app.engine.settings import Sampling
from app.errors import SpecchatError, UsageError


@dataclass(frozen=True, slots=True)
class OneShot:
    """The arguments of `specchat -p`, checked for type only."""

    prompt: str
    files: tuple[str, ...]
    setup: Setup
    proposer: str
    sampling: Sampling
    k: int | None = None
    seed: int | None = None
    max_tokens: int = 1024
    system: str | None = None
    stop: tuple[str, ...] = ()
    template: str | None = None
    json: bool = False
    agreed: bool = False


def run(arguments: OneShot) -> int:
    """Answer, and return the exit code.

    The engine works in a thread of its own: a signal is only noticed between two steps of Python, and
    the main thread must not sit in a native call of seconds when Ctrl+C comes. Documents are read here:
    a pipe that stays open can only be given up by the thread that gets the signal.
    """
    prompt = with_documents(_checked_prompt(arguments.prompt), documents_of(arguments.files))
    interrupt = threading.Event()
    outcome: list[int | BaseException] = []

    def work() -> None:
        try:
            outcome.append(_answer(arguments, prompt, interrupt))
        except BaseException as error:
            outcome.append(error)
        finally:
            ended.set()

    # Not KeyboardInterrupt: raised while the thread begins it would leave it running. And not Thread.join:
    # interrupted, it takes the thread for ended (Python 3.10 to 3.12).
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
    progress = Progress(shown=sys.stderr.isatty() and not arguments.json)
    with Assembly(
        arguments.setup,
        stop=interrupt.is_set,
        agree=lambda question: arguments.agreed or ask(question),
        say=lambda line: None if arguments.json else print(line, file=sys.stderr),
        progress=lambda share: not interrupt.is_set(),
    ) as assembly:
        target = assembly.target
        tokens = encode(_messages(prompt, arguments.system), template_for(target, arguments.template), target)
        if not tokens:
            raise SpecchatError("The chat template wrote nothing: choose another with --template.")
        engine = assembly.engine(arguments.proposer, needed=len(tokens) + arguments.max_tokens)
        request = Request(
            prompt=tuple(tokens),
            sampling=arguments.sampling,
            seed=secrets.randbits(32) if arguments.seed is None else arguments.seed,
            max_tokens=arguments.max_tokens,
            stop=arguments.stop,
            k=arguments.k,
        )
        for event in engine.generate(request):
            if isinstance(event, Prefill):
                progress.prefill(event)
            elif isinstance(event, Pass):
                progress.clear()
                _show(event.text, arguments)
            elif isinstance(event, ProposerDropped):
                progress.clear()
                print(assembly.drop(event), file=sys.stderr)
            else:
                progress.clear()
                assembly.remember(engine, event)
                _show(event.rest, arguments)
                _report(event, arguments, assembly)
                return 130 if event.reason == "cancelled" else 0
    raise AssertionError("a reply ends with Finished")


def _show(text: str, arguments: OneShot) -> None:
    """Stream text out. No control sequence of the model may reach a terminal; a pipe gets what it said."""
    if text and not arguments.json:
        sys.stdout.write(clean(text) if sys.stdout.isatty() else text)
        sys.stdout.flush()


def _checked_prompt(prompt: str) -> str:
    if not prompt.strip():
        raise UsageError("The prompt is empty: write what to do after -p.")
    return prompt


def documents_of(files: Sequence[str]) -> list[Document]:
    """The files, and what was piped in."""
    documents = [read_document(file) for file in files]
    if sys.stdin is not None and not sys.stdin.isatty():
        data = sys.stdin.buffer.read()
        if data:
            documents.append(read_stdin(data))
    return documents


def _messages(prompt: str, system: str | None) -> list[Message]:
    messages = [Message("system", system)] if system else []
    return [*messages, Message("user", prompt)]


class Progress:
    """One line on the terminal while a long prompt is read."""

    def __init__(self, shown: bool) -> None:
        self._shown = shown
        self._visible = False

    def prefill(self, event: Prefill) -> None:
        if self._shown and event.total - event.cached > 512:
            print(f"\rreading {event.done:,} of {event.total:,} tokens", end="", file=sys.stderr, flush=True)
            self._visible = True

    def clear(self) -> None:
        if self._visible:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
            self._visible = False


def _report(finished: Finished, arguments: OneShot, assembly: Assembly) -> None:
    draft = assembly.draft_path
    if arguments.json:
        exact = arguments.setup.context_settings.exact
        print(json.dumps(as_json(finished, assembly.target.path, draft, exact)))
        return
    if finished.text and not finished.text.endswith("\n"):
        print(flush=True)
    print(summary(finished, arguments.proposer), file=sys.stderr)


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
    ends = {
        "stop": "",
        "stop_string": "ended at a stop string",
        "length": "cut at --max-tokens",
        "context": "cut: the context is full",
        "cancelled": "interrupted",
    }
    return " · ".join([*parts, ends[finished.reason]] if ends[finished.reason] else parts)


def as_json(finished: Finished, model: Path, draft: Path | None, exact: bool) -> dict[str, object]:
    """The contract of `--json`: one object, null for what was not measured."""
    plain = finished.plain_seconds
    host = finished.host_seconds_per_pass
    return {
        "text": finished.text,
        "token_ids": finished.token_ids,
        "origins": finished.origins,
        "prompt_tokens": finished.prompt_tokens,
        "cached_tokens": finished.cached_tokens,
        "finish_reason": finished.reason,
        "seed": finished.seed,
        "passes": finished.passes,
        "drafted": finished.drafted,
        "accepted": finished.accepted,
        "trimmed": finished.trimmed,
        "acceptance_rate": finished.acceptance_rate,
        "tokens_per_pass": finished.tokens_per_pass,
        "accepted_by_position": finished.accepted_by_position,
        "by_proposer": {name: asdict(tally) for name, tally in finished.by_proposer.items()},
        "k_history": finished.k_history,
        "prefill_s": finished.prefill_seconds,
        "decode_s": finished.decode_seconds,
        "tokens_per_s": finished.tokens_per_second,
        "plain_tokens_per_s": 1 / plain if plain else None,
        "speedup": finished.speedup,
        "host_us_per_pass": host * 1e6 if host is not None else None,
        "model": str(model),
        "draft": str(draft) if draft else None,
        "exact": exact,
    }
