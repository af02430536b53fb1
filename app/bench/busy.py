"""Decoding beside other busy processes: specchat, and the same with llama.cpp's defaults, in turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median

from app.bench.workbench import bench_parser, print_rows, with_progress
from app.children import python_command
from app.errors import SpecchatError
from app.llama.threads import performance_cores
from app.models.locate import find_model

SPECCHAT, DEFAULTS = "specchat", "defaults"
MODES = {"plain": "off", "auto": "auto"}
LOADS = (0, 1, 2)
# Says that it runs, and ends with this process.
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
class BusyReply:
    """The speed of one reply. busy: processes beside it."""

    side: str
    mode: str
    busy: int
    tokens_per_second: float


@dataclass(frozen=True, slots=True)
class BusySpeed:
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
    """So many busy processes, each in a session of its own, as Linux shares processors among sessions."""
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
    """An engine in a process of its own, to be used in a `with`."""

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
    """The environment of a side's process, without what is set for OpenMP."""
    kept = {
        name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    }
    return {**kept, **_LIBGOMP} if side == DEFAULTS else kept


def replies(model: str, rounds: int, tokens: int) -> Iterator[BusyReply]:
    """All replies, the two sides in turn. A first round on the idle machine warms up and is left out."""
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
                                yield BusyReply(side, mode, load, speed)


def medians(made: Sequence[BusyReply]) -> list[BusySpeed]:
    """Medians of the rounds, and of the ratios within each. made: round after round."""
    # Of each side, mode and load, round by round.
    speeds: dict[tuple[str, str, int], list[float]] = {}
    for each in made:
        speeds.setdefault((each.side, each.mode, each.busy), []).append(each.tokens_per_second)

    def ratio(own: Sequence[float], side: str, mode: str, load: int) -> float:
        return median(one / other for one, other in zip(own, speeds[side, mode, load], strict=True))

    found = [
        BusySpeed(side, mode, load, median(own), ratio(own, side, mode, 0), ratio(own, DEFAULTS, mode, load))
        for (side, mode, load), own in speeds.items()
    ]
    return sorted(found, key=lambda each: (each.side != SPECCHAT, each.mode != "plain", each.busy))


def main(arguments: Sequence[str]) -> int:
    """Print the table, or with --json a list of rows."""
    options = bench_parser("busy", __doc__, rounds=3, tokens=256).parse_args(arguments)
    made = replies(str(find_model(options.model)), options.rounds, options.tokens)
    expected = options.rounds * len(LOADS) * len(MODES) * 2
    speeds = medians(list(with_progress(made, expected, "replies")))
    return print_rows(speeds, options.json)
