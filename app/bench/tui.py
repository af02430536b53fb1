"""The chat on a pseudo-terminal: its speed beside `specchat -p`, its first frame, its keys, its pastes."""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles

from app.arguments import Parser
from app.bench.terminal import Terminal
from app.errors import SpecchatError
from app.models.locate import find_model

PROMPT = "Write a long story about a lighthouse, its keeper, and the ships that pass it at night."
COMMAND = (sys.executable, "-c", "import sys; from app.start import main; sys.exit(main())")
SIZE = (120, 36)
_PASTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Result:
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
def chat(model: Path, *arguments: str) -> Iterator[Terminal]:
    """`specchat` with folders of its own, on a terminal."""
    with tempfile.TemporaryDirectory() as folder:
        places = {name: folder for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "HOME")}
        command = (*COMMAND, "--model", str(model), *arguments)
        with Terminal(command, *SIZE, environment=places) as terminal:
            yield terminal


def app_rates(model: Path, proposer: str, tokens: int) -> tuple[float, float]:
    """Tokens per second of a reply in the app: as it shows them, and as it received them."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = (str(model), proposer, str(tokens), PROMPT, folder)
        with Terminal((sys.executable, "-m", "app.bench.timed_chat", *arguments), *SIZE) as terminal:
            written = terminal.end(180)
        result = Path(folder) / "result.json"
        if not result.exists():
            raise SpecchatError(f"The chat ended without a reply: {written[-300:].decode(errors='replace')}")
        figures = json.loads(result.read_text(encoding="utf-8"))
    return float(figures["shown"]), float(figures["received"])


def oneshot_rate(model: Path, proposer: str, tokens: int) -> float:
    """Tokens per second of `specchat -p` on the same prompt, by its own summary's figures."""
    options = ("--temp", "0", "--seed", "1", "--max-tokens", str(tokens), "--proposer", proposer)
    command = (*COMMAND, "-p", PROMPT, "--model", str(model), *options)
    with Terminal(command, *SIZE) as terminal:
        written = terminal.end(180).decode("utf-8", "replace")
    found = re.search(r"([\d.]+) tok/s", written)
    if found is None:
        raise SpecchatError(f"specchat -p printed no figures: {written[-300:]}")
    return float(found[1])


def first_frame(model: Path) -> float:
    """From the command to the first frame: its prompt can be seen."""
    with chat(model) as terminal:
        return terminal.wait_for(b"sk, paste, @file") - terminal.started


def keys(model: Path, count: int) -> list[float]:
    """Seconds from a key to its character on the screen, while a reply streams."""
    times = []
    with chat(model, "--temp", "0", "--proposer", "off") as terminal:
        terminal.wait_for(b"sk, paste, @file")
        terminal.write(PROMPT.encode() + b"\r")
        terminal.wait_for(b"writing")
        for number in range(count):
            # Letters that no reply to this holds.
            character = "ЖЩЫЭЮЯ"[number % 6].encode()
            mark, sent = terminal.mark, time.monotonic()
            terminal.write(character)
            times.append(terminal.wait_for(character, mark, 5) - sent)
            time.sleep(0.03)
    return times


def paste(model: Path, text: str) -> float:
    """Seconds from the start of a paste to its chip on the screen."""
    with chat(model) as terminal:
        terminal.wait_for(b"sk, paste, @file")
        time.sleep(2)  # the model is loaded by then, and the machine quiet
        mark, sent = terminal.mark, time.monotonic()
        terminal.write(b"\x1b[200~" + text.encode() + b"\x1b[201~")
        return terminal.wait_for(b"pasted", mark, 30) - sent


def run(model: Path, pairs: int, tokens: int, proposer: str) -> Result:
    """All of it, app and one-shot taking turns."""
    app, received, oneshot = [], [], []
    for number in range(pairs):
        print(f"\rpair {number + 1} of {pairs}", end="", file=sys.stderr, flush=True)
        shown, arrived = app_rates(model, proposer, tokens)
        app.append(shown)
        received.append(arrived)
        oneshot.append(oneshot_rate(model, proposer, tokens))
    print(file=sys.stderr)
    latencies = keys(model, 120)
    lines = "\n".join(f"line {number} of a long document" for number in range(_PASTE // 32))
    return Result(
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
    parser = Parser(prog="specchat bench tui", description=__doc__)
    parser.add_argument("--model", help="a .gguf (default: the bundled model)")
    parser.add_argument("--pairs", type=int, default=7, help="default: 7")
    parser.add_argument("--tokens", type=int, default=256, help="tokens of each reply (default: 256)")
    parser.add_argument("--proposer", default="off", help="default: off")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    result = run(find_model(options.model), options.pairs, options.tokens, options.proposer)
    if options.json:
        print(json.dumps(asdict(result)))
        return 0
    print(f"app          {result.app_tokens_per_second:8.1f} tok/s (median of {result.pairs}, in turn)")
    print(f"  received   {result.received_tokens_per_second:8.1f} tok/s")
    print(f"specchat -p  {result.oneshot_tokens_per_second:8.1f} tok/s")
    print(f"ratio        {result.ratio:8.3f}       (median of the pairs)")
    print(f"first frame  {result.first_frame:8.2f} s     from the command, median of 5")
    print(f"a key        {result.key_median * 1e3:8.0f} ms    median while a reply streams")
    print(f"             {result.key_99th * 1e3:8.0f} ms    99th percentile")
    print(f"1 MB pasted  {result.paste_lines:8.2f} s     in lines, median of 3")
    print(f"             {result.paste_line:8.2f} s     in one line, median of 3")
    return 0
