"""Decoding beside other busy processes: specchat, and the same with llama.cpp's defaults, in turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from statistics import median

from app.arguments import Parser, whole
from app.bench.progress import with_progress
from app.children import python_command
from app.errors import SpecchatError
from app.llama.threads import performance_cores
from app.models.locate import find_model

SPECCHAT, DEFAULTS = "specchat", "defaults"
MODES = {"plain": "off", "auto": "auto"}
LOADS = (0, 1, 2)
# Says that it runs; it also ends when this process is no longer there to end it.
_SPIN = """
import os, sys
print(flush=True)
parent = int(sys.argv[1])
while os.getppid() == parent:
    for _ in range(1_000_000):
        pass
"""
# How long libgomp spins where nobody says: app.llama would say something else.
_LIBGOMP = {"GOMP_SPINCOUNT": "300000"}


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply. busy: processes beside it."""

    round: int
    side: str
    mode: str
    busy: int
    tokens_per_second: float


@dataclass(frozen=True, slots=True)
class Row:
    """Medians over the rounds. of_idle: over the same side's speed on the idle machine, in the same round;
    of_defaults: over that of llama.cpp's defaults beside as many busy processes."""

    side: str
    mode: str
    busy: int
    tokens_per_second: float
    of_idle: float
    of_defaults: float


@contextmanager
def busy(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """So many busy processes, each in a session of its own: Linux shares its processors out by session."""
    with ExitStack() as stack:
        processes = []
        for _ in range(count):
            process = subprocess.Popen(
                [sys.executable, "-c", _SPIN, str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
            processes.append(process)
            stack.enter_context(process)
            stack.callback(process.kill)
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        yield processes


class TimedEngine:
    """An engine in a process of its own. Use it as a context."""

    def __init__(self, side: str, model: str, tokens: int) -> None:
        threads = performance_cores() if side == DEFAULTS else 0
        self._process = subprocess.Popen(
            [*python_command("app.bench.busy_engine"), model, str(threads), str(tokens)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(side),
        )

    def __enter__(self) -> TimedEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def speed(self, proposer: str) -> float:
        """Tokens a second of a reply. Raises SpecchatError where the process ended instead."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            print(proposer, file=self._process.stdin, flush=True)
            tokens, seconds = json.loads(self._process.stdout.readline())
        except (OSError, ValueError) as error:
            raise SpecchatError("The engine ended: its last words are above.") from error
        return float(tokens) / float(seconds)


def environment(side: str) -> dict[str, str]:
    """What a side's process is started with: nothing that a person has set about OpenMP."""
    kept = {
        name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    }
    return {**kept, **_LIBGOMP} if side == DEFAULTS else kept


def replies(model: str, rounds: int, tokens: int) -> Iterator[Reply]:
    """All replies, the two sides in turn; one of each side and mode is made beforehand."""
    with ExitStack() as stack:
        engines = {
            side: stack.enter_context(TimedEngine(side, model, tokens)) for side in (SPECCHAT, DEFAULTS)
        }
        for number in range(-1, rounds):
            for load in LOADS if number >= 0 else (0,):
                with busy(load):
                    for mode, proposer in MODES.items():
                        for side in sorted(engines, reverse=number % 2 == 1):
                            speed = engines[side].speed(proposer)
                            if number >= 0:
                                yield Reply(number, side, mode, load, speed)


def summarised(made: Sequence[Reply]) -> list[Row]:
    """Medians of the rounds, and of the ratios within each."""
    speeds = {(each.round, each.side, each.mode, each.busy): each.tokens_per_second for each in made}
    rounds = sorted({each.round for each in made})
    rows = []
    for side, mode, load in dict.fromkeys((each.side, each.mode, each.busy) for each in made):
        own = [speeds[number, side, mode, load] for number in rounds]
        idle = [speeds[number, side, mode, 0] for number in rounds]
        defaults = [speeds[number, DEFAULTS, mode, load] for number in rounds]
        rows.append(
            Row(side, mode, load, median(own), _median_ratio(own, idle), _median_ratio(own, defaults))
        )
    return sorted(rows, key=lambda row: (row.side != SPECCHAT, row.mode != "plain", row.busy))


def _median_ratio(ones: Sequence[float], others: Sequence[float]) -> float:
    return median(one / other for one, other in zip(ones, others, strict=True))


def main(arguments: Sequence[str]) -> int:
    """Print the table, or with --json a list of rows."""
    parser = Parser(prog="specchat bench busy", description=__doc__)
    parser.add_argument("--model", help="a .gguf (default: the bundled model)")
    parser.add_argument("--rounds", type=whole(1), default=3, help="default: 3")
    parser.add_argument("--tokens", type=whole(2), default=256, help="of each reply (default: 256)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    made = replies(str(find_model(options.model)), options.rounds, options.tokens)
    expected = options.rounds * len(LOADS) * len(MODES) * 2
    rows = summarised(list(with_progress(made, expected, "replies")))
    if options.json:
        print(json.dumps([asdict(row) for row in rows]))
        return 0
    print(f"{'':<18}{'busy beside it':>15}{'tokens/s':>10}{'of idle':>9}{'of defaults':>13}")
    for row in rows:
        print(
            f"{row.side:<10}{row.mode:<8}{row.busy:>15}{row.tokens_per_second:>10.1f}"
            f"{row.of_idle:>9.3f}{row.of_defaults:>13.3f}"
        )
    return 0
