"""The chat on a pseudo-terminal: its speed beside `specchat -p`, its first frame, its keys, its pastes."""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from app.arguments import whole
from app.bench.terminal import PseudoTerminal
from app.bench.workbench import bench_parser, print_record, with_progress
from app.chat.store import Store
from app.errors import SpecchatError
from app.models.locate import find_model

PROMPT = "Write a long story about a lighthouse, its keeper, and the ships that pass it at night."
COMMAND = (sys.executable, "-c", "import sys; from app.start import main; sys.exit(main())")
SIZE = (120, 36)
_PASTE = 1_000_000
_REPLY_SECONDS = 180.0
# What the empty prompt says, without its first letter, on which the cursor is.
_READY = rb"sk, paste, @file"
_WRITING = rb"writing"
# The sentence under a reply.
_ENDED = rb"wrote [\d,]+ |No guess was|plain speed"


@dataclass(frozen=True, slots=True)
class TuiSpeeds:
    """Medians, in seconds and tokens per second. app, oneshot: by the figures that they show; ratio: of them,
    pair by pair. received: the app's tokens over the time from the first to the reply's end on the screen."""

    app_tokens_per_second: float
    received_tokens_per_second: float
    oneshot_tokens_per_second: float
    ratio: float
    pairs: int
    first_frame: float
    key_median: float
    key_99th: float
    paste_lines: float
    paste_line: float


@contextmanager
def chat(model: Path, *options: str, folder: str | None = None) -> Iterator[PseudoTerminal]:
    """`specchat` on a terminal, its prompt on the screen. folder: for settings and chats, else a new one."""
    with tempfile.TemporaryDirectory() as own:
        places = {name: folder or own for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "HOME")}
        command = (*COMMAND, "--model", str(model), *options)
        with PseudoTerminal(command, SIZE, places) as terminal:
            terminal.time_of(_READY)
            yield terminal


def app_rates(model: Path, *options: str) -> tuple[float, float]:
    """Tokens per second of a reply in the app: by its own figure, and by what the screen shows when."""
    with tempfile.TemporaryDirectory() as folder:
        with chat(model, *options, folder=folder) as terminal:
            terminal.write(PROMPT.encode() + b"\r")
            began = terminal.time_of(_WRITING)
            seconds = terminal.time_of(_ENDED, seconds=_REPLY_SECONDS) - began
            terminal.write(b"\x11")  # Ctrl+Q, which saves the chat
            terminal.end()
        store = Store(next(Path(folder).rglob("sessions.db")))
        saved = store.latest()
        store.close()
    last = saved.conversation.last if saved else None
    figures = last.answer.figures if last and last.answer else None
    if figures is None or figures.tokens_per_second is None:
        raise SpecchatError(f"The chat ended without a reply: {_end_of(terminal)}")
    return figures.tokens_per_second, figures.tokens / seconds


def oneshot_rate(model: Path, *options: str) -> float:
    """Tokens per second of `specchat -p` on the same prompt, by its own summary's figures."""
    with PseudoTerminal((*COMMAND, "-p", PROMPT, "--model", str(model), *options), SIZE) as terminal:
        terminal.end(_REPLY_SECONDS)
    found = re.search(rb"([\d.]+) tok/s", terminal.output)
    if found is None:
        raise SpecchatError(f"specchat -p printed no figures: {_end_of(terminal)}")
    return float(found[1])


def _end_of(terminal: PseudoTerminal) -> str:
    return terminal.output[-300:].decode(errors="replace")


def first_frame(model: Path) -> float:
    """Seconds from the command to its prompt on the screen."""
    with chat(model) as terminal:
        return time.monotonic() - terminal.started


def keys(model: Path, count: int) -> list[float]:
    """Seconds from a key to its character on the screen, while a reply streams."""
    times = []
    with chat(model, "--temp", "0", "--proposer", "off") as terminal:
        terminal.write(PROMPT.encode() + b"\r")
        terminal.time_of(_WRITING)
        for number in range(count):
            # Letters that no reply to this holds.
            character = "ЖЩЫЭЮЯ"[number % 6].encode()
            before, sent = len(terminal.output), time.monotonic()
            terminal.write(character)
            times.append(terminal.time_of(re.escape(character), before, 5) - sent)
            terminal.read_for(0.03)
    return times


def paste(model: Path, text: str) -> float:
    """Seconds from the start of a paste to its chip on the screen."""
    with chat(model) as terminal:
        terminal.read_for(2)  # the model is loaded by then, and the machine quiet
        before, sent = len(terminal.output), time.monotonic()
        terminal.write(b"\x1b[200~" + text.encode() + b"\x1b[201~")
        return terminal.time_of(rb"pasted", before, 30) - sent


def run(model: Path, pairs: int, tokens: int, proposer: str) -> TuiSpeeds:
    """All of it, app and one-shot taking turns."""
    options = ("--temp", "0", "--seed", "1", "--max-tokens", str(tokens), "--proposer", proposer)
    rates = [
        (*app_rates(model, *options), oneshot_rate(model, *options))
        for _ in with_progress(range(pairs), pairs, "pairs")
    ]
    app, received, oneshot = zip(*rates, strict=True)
    latencies = keys(model, 120)
    lines = "\n".join(f"line {number} of a long document" for number in range(_PASTE // 32))
    return TuiSpeeds(
        median(app),
        median(received),
        median(oneshot),
        median(one / other for one, other in zip(app, oneshot, strict=True)),
        pairs,
        median(first_frame(model) for _ in range(5)),
        median(latencies),
        quantiles(latencies, n=100)[98],
        median(paste(model, lines) for _ in range(3)),
        median(paste(model, "word " * (_PASTE // 5)) for _ in range(3)),
    )


def main(arguments: Sequence[str]) -> int:
    """Print the figures, or with --json an object."""
    parser = bench_parser("tui", __doc__, tokens=256)
    parser.add_argument("--pairs", type=whole(1), default=7, help="default: 7")
    parser.add_argument("--proposer", default="off", help="default: off")
    options = parser.parse_args(arguments)
    result = run(find_model(options.model), options.pairs, options.tokens, options.proposer)
    if not options.json:
        print("Seconds and tokens per second, medians; ratio: of the pairs, app over specchat -p")
    return print_record(result, options.json)
