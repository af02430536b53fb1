"""The chat on a pseudo-terminal: its speed beside `specchat -p`, its first frame, its keys, its pastes."""

from __future__ import annotations

import json
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
from app.errors import SpecchatError
from app.models.locate import find_model

PROMPT = "Write a long story about a lighthouse, its keeper, and the ships that pass it at night."
COMMAND = (sys.executable, "-c", "import sys; from app.start import main; sys.exit(main())")
SIZE = (120, 36)
_PASTE = 1_000_000
_REPLY_SECONDS = 180.0
# What the empty prompt says; the cursor stands on its first letter.
_READY = b"sk, paste, @file"


@dataclass(frozen=True, slots=True)
class TuiSpeeds:
    """Seconds, but for the rates; ratio: the median of app over one-shot, pair by pair, both by the figure
    that they show; received: the app's tokens over the time from its first batch of them to the end."""

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
def chat(model: Path, *arguments: str) -> Iterator[PseudoTerminal]:
    """`specchat` on a terminal, with folders of its own; it is there once its prompt can be seen."""
    with tempfile.TemporaryDirectory() as folder:
        places = {name: folder for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "HOME")}
        command = (*COMMAND, "--model", str(model), *arguments)
        with PseudoTerminal(command, SIZE, places) as terminal:
            terminal.time_of(_READY)
            yield terminal


def app_rates(model: Path, proposer: str, tokens: int) -> tuple[float, float]:
    """Tokens per second of a reply in the app: as it shows them, and as it received them."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = (str(model), proposer, str(tokens), PROMPT, folder)
        with PseudoTerminal((sys.executable, "-m", "app.bench.timed_chat", *arguments), SIZE) as terminal:
            terminal.end(_REPLY_SECONDS)
        result = Path(folder) / "result.json"
        if not result.exists():
            raise SpecchatError(f"The chat ended without a reply: {_last(terminal)}")
        figures = json.loads(result.read_text(encoding="utf-8"))
    return float(figures["shown"]), float(figures["received"])


def oneshot_rate(model: Path, proposer: str, tokens: int) -> float:
    """Tokens per second of `specchat -p` on the same prompt, by its own summary's figures."""
    options = ("--temp", "0", "--seed", "1", "--max-tokens", str(tokens), "--proposer", proposer)
    with PseudoTerminal((*COMMAND, "-p", PROMPT, "--model", str(model), *options), SIZE) as terminal:
        terminal.end(_REPLY_SECONDS)
    found = re.search(rb"([\d.]+) tok/s", terminal.output)
    if found is None:
        raise SpecchatError(f"specchat -p printed no figures: {_last(terminal)}")
    return float(found[1])


def _last(terminal: PseudoTerminal) -> str:
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
        terminal.time_of(b"writing")
        for number in range(count):
            # Letters that no reply to this holds.
            character = "ЖЩЫЭЮЯ"[number % 6].encode()
            before, sent = len(terminal.output), time.monotonic()
            terminal.write(character)
            times.append(terminal.time_of(character, before, 5) - sent)
            terminal.read_for(0.03)
    return times


def paste(model: Path, text: str) -> float:
    """Seconds from the start of a paste to its chip on the screen."""
    with chat(model) as terminal:
        terminal.read_for(2)  # the model is loaded by then, and the machine quiet
        before, sent = len(terminal.output), time.monotonic()
        terminal.write(b"\x1b[200~" + text.encode() + b"\x1b[201~")
        return terminal.time_of(b"pasted", before, 30) - sent


def run(model: Path, pairs: int, tokens: int, proposer: str) -> TuiSpeeds:
    """All of it, app and one-shot taking turns."""
    rates = [
        (*app_rates(model, proposer, tokens), oneshot_rate(model, proposer, tokens))
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
