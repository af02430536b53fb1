"""What specchat does on this machine's GPU, check by check, for any build that has one.

Each check prints a line: its name, what it found, seconds. Kernels of two devices, or for passes of two
widths, round differently, so greedy replies may differ where two tokens nearly tie. The line then says how
far apart their logits are, and more than a near tie fails.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from app.assembly.assembly import Assembly
from app.assembly.machine import machine_memory
from app.bench.workbench import bench_parser, finish, greedy_request, open_assembly
from app.config.values import LoadSettings
from app.engine.control import Controller
from app.engine.events import Finished, Request
from app.engine.loop import Engine
from app.engine.sampling import Sampler
from app.engine.settings import Sampling
from app.errors import SpecchatError
from app.llama.candidates import CANDIDATES
from app.llama.context import Context
from app.llama.devices import devices
from app.llama.facts import Device
from app.llama.placement import buffers, bytes_on_device, clear_buffers
from app.llama.quantise import requantise
from app.llama.settings import ContextSettings
from app.models.fit import Memory
from app.models.locate import find_model
from app.process.comparison import divergence
from proposers.base import Distribution, Proposer
from proposers.lookup import Lookup
from proposers.off import Off

# A short one, without a chat template: a device that is a program of the CPU reads two tokens a second.
_PROMPT = "red green blue, red green blue, red green"
_LENGTH = 512
_K = 3
# Logits that rounding may swap: half precision and weights of four bits move them by so much.
_NEAR = 0.5
_SAME_CHANCE = 1e-5
_CALIBRATION_SECONDS = 1.0
# Passes that a calibration makes however little time it has: two plain ones, and one of width 2.
_LEAST_PASSES = 4


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Whether a check passed, and what it found."""

    passed: bool
    finding: str


class DeviceBench(ExitStack):
    """The model on the GPU and on the CPU, to be used in a `with`. The first replies are what later ones are
    compared with, so the checks are made in the order of CHECKS."""

    def __init__(self, path: Path, draft: Path | None, tokens: int) -> None:
        """draft: None for a copy of the model in four bits. tokens: of each reply."""
        super().__init__()
        self._path = path
        self._tokens = tokens
        folder = Path(self.enter_context(tempfile.TemporaryDirectory()))
        self._draft = draft or requantise(path, folder / "draft.gguf", "Q4_0")
        self._before = machine_memory()
        self.gpus = gpus()
        clear_buffers()
        self._assembly = self._opened()
        self._engine = self._assembly.engine("off")
        self._buffers = buffers()
        self._free = machine_memory()
        target = self._assembly.target
        self._prompt = (*([target.bos] if target.add_bos else []), *target.tokenise(_PROMPT))
        self._first: Finished | None = None

    def _opened(self, gpu_layers: int = -1, exact: bool = False) -> Assembly:
        settings = LoadSettings(str(self._path), context_length=_LENGTH, gpu_layers=gpu_layers, exact=exact)
        return self.enter_context(open_assembly(settings))

    def _on_gpus(self, kind: str | None = None) -> int:
        return sum(bytes_on_device(self._buffers, gpu.name, kind) for gpu in self.gpus)

    def layers(self) -> CheckResult:
        held, whole_model = self._on_gpus("model"), self._assembly.target.bytes_of_weights
        fits = self._assembly.loader.fitted.gpu_layers < 0
        finding = f"{_size(held)} of {_size(whole_model)} of weights"
        # A table that is only looked up stays with the CPU.
        return CheckResult(held > (0.5 * whole_model if fits else 0), finding)

    def memory(self) -> CheckResult:
        needed = self._assembly.loader.fitted.gpu
        fell = _free(self._before) - _free(self._free)
        taken, source = (fell, "free memory fell by") if fell else (self._on_gpus(), "llama.cpp allocated")
        spare = sum(self._before.gpus) - self._before.gpu_usable
        return CheckResult(taken <= needed + spare, f"{source} {_size(taken)}, estimated {_size(needed)}")

    def reading(self) -> CheckResult:
        """The time of a prompt must not be counted in the pass after it."""
        target = self._engine.target
        self._plain_pass(target)
        reading = _seconds(partial(target.forward, self._prompt, rows=0))
        first, second = (_seconds(partial(self._plain_pass, target)) for _ in range(2))
        target.rollback(0)
        finding = f"{len(self._prompt)} tokens in {reading:.2f} s, the next pass in {first:.2f} s"
        return CheckResult(first < max(reading, 3 * second), f"{finding}; the one after it in {second:.2f} s")

    def _reply(self, engine: Engine, proposer: Proposer, k: int | None = None) -> Finished:
        engine.sequence.proposers = (proposer,)
        return finish(engine.generate(greedy_request(self._prompt, self._tokens, k)))

    def _compared(self, finished: Finished) -> CheckResult:
        """Against the first reply."""
        assert self._first is not None
        parted = divergence(self._engine, self._prompt, self._first, finished)
        tokens = f"{len(finished.token_ids)} tokens"
        if parted is None:
            return CheckResult(True, f"{tokens}, all the same")
        where = f"parts at token {parted.position + 1} of {len(finished.token_ids)}"
        if parted.gap is None:
            return CheckResult(False, f"{where}, where one ends")
        return CheckResult(
            abs(parted.gap) < _NEAR, f"{where}, where the two logits are {parted.gap:.3f} apart"
        )

    def plain(self) -> CheckResult:
        finished = self._reply(self._engine, Off())
        self._first = finished
        rate = finished.tokens_per_second
        speed = f", {rate:.1f} a second" if rate else ""
        return CheckResult(bool(finished.token_ids), f"{len(finished.token_ids)} tokens{speed}")

    def proposer(self, name: str) -> CheckResult:
        if name == "draft":
            self._assembly.proposers.set_draft(str(self._draft))
        (proposer,) = self._assembly.proposers.choose(name)
        finished = self._reply(self._engine, proposer, _K)
        compared = self._compared(finished)
        return replace(
            compared, finding=f"{compared.finding}; {finished.accepted} of {finished.drafted} accepted"
        )

    def cpu(self) -> CheckResult:
        # In exact mode no pass is handed to the GPU.
        assembly = self._opened(gpu_layers=0, exact=True)
        return self._compared(self._reply(assembly.engine("off"), Off()))

    def half(self) -> CheckResult:
        half = max(1, self._assembly.target.layers // 2)
        clear_buffers()
        assembly = self._opened(gpu_layers=half)
        engine = assembly.engine("off")
        held = sum(bytes_on_device(buffers(), gpu.name, "model") for gpu in self.gpus)
        compared = self._compared(self._reply(engine, Off()))
        finding = f"{half} layers, {_size(held)}: {compared.finding}"
        return CheckResult(compared.passed and 0 < held < self._assembly.target.bytes_of_weights, finding)

    def sampling(self) -> CheckResult:
        """The largest logits, found on the device, against whole rows."""
        if self._engine.target.candidates == 0:
            return CheckResult(True, "not used: the device has no memory of its own, or not all layers")
        settings = self._assembly.loader.context_settings
        with (
            self._context(replace(settings, candidates=CANDIDATES)) as few,
            self._context(settings) as whole_rows,
        ):
            head, tail = self._prompt[: -_K - 1], self._prompt[-_K - 1 :]
            for context in (few, whole_rows):
                context.forward(head, rows=0)
            found = few.forward_candidates(tail)
            if found is None:
                return CheckResult(True, "the device has no top-k: whole rows are used")
            rows = whole_rows.forward(tail, rows=len(tail))
            gap = 0.0
            for sampling in (Sampling(), Sampling(temperature=0.0), Sampling(repeat_penalty=1.2)):
                sampler = Sampler(sampling)
                among = sampler.from_candidates(found, self._prompt[:-_K], tail[1:])
                if among is None:
                    continue
                expected = sampler.distributions(rows, self._prompt[:-_K], tail[1:])
                for one, other in zip(among, expected, strict=True):
                    gap = max(gap, _distance(one, other, rows.shape[1]))
            replies = [self._sampled(context) for context in (few, whole_rows)]
        same = replies[0] == replies[1]
        finding = (
            f"chances differ by {gap:.1e} at most; a seed's tokens are {'the same' if same else 'others'}"
        )
        return CheckResult(gap <= _SAME_CHANCE and same, finding)

    def _context(self, settings: ContextSettings) -> Context:
        return Context(self._assembly.target, _LENGTH, settings)

    def _sampled(self, context: Context) -> tuple[int, ...]:
        engine = Engine(context, (Lookup(),), Controller())
        request = Request(self._prompt, Sampling(), 5, self._tokens, k=_K)
        return finish(engine.generate(request)).token_ids

    def calibration(self) -> CheckResult:
        target = self._engine.target
        engine = Engine(target, (Off(),), Controller())
        target.rollback(0)
        plain = _seconds(partial(self._plain_pass, target))
        seconds = _seconds(partial(engine.calibrate, self._prompt[:1], _CALIBRATION_SECONDS))
        (measured,) = engine.controller.costs.measured
        # Beside other programs passes take longer than expected; a fault in it took ten times as long.
        most = 2 * max(_CALIBRATION_SECONDS, _LEAST_PASSES * plain)
        widths = ", ".join(f"{width} in {1000 * each:.1f} ms" for width, each in measured.seconds.items())
        return CheckResult(seconds <= most, f"{seconds:.2f} s of {most:.2f} s; passes of width {widths}")

    def _plain_pass(self, target: Context) -> None:
        length = target.length
        target.forward(self._prompt[:1], rows=1)
        target.rollback(length)


def gpus() -> tuple[Device, ...]:
    """The GPUs of this machine that llama.cpp finds."""
    return tuple(each for each in devices() if each.kind in ("gpu", "integrated") and each.backend != "RPC")


def _distance(one: Distribution, other: Distribution, size: int) -> float:
    """The largest difference between two probabilities."""
    dense = np.zeros((2, size))
    for row, each in zip(dense, (one, other), strict=True):
        row[each.tokens] = each.probabilities
    return float(abs(dense[0] - dense[1]).max())


def _seconds(done: Callable[[], object]) -> float:
    started = time.perf_counter()
    done()
    return time.perf_counter() - started


def _free(memory: Memory) -> int:
    return sum(memory.gpus)


def _size(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"


CHECKS: dict[str, Callable[[DeviceBench], CheckResult]] = {
    "layers on the device": DeviceBench.layers,
    "memory, against the estimate": DeviceBench.memory,
    "reading, timed by itself": DeviceBench.reading,
    "plain reply": DeviceBench.plain,
    "lookup: the same tokens": lambda bench: bench.proposer("lookup"),
    "draft: the same tokens": lambda bench: bench.proposer("draft"),
    "the CPU: the same tokens": DeviceBench.cpu,
    "half of the layers": DeviceBench.half,
    "sampling on the device": DeviceBench.sampling,
    "calibration, within its time": DeviceBench.calibration,
}


def run(bench: DeviceBench) -> bool:
    """Make every check and print its line; whether all passed."""
    passed = True
    for name, check in CHECKS.items():
        started = time.perf_counter()
        try:
            result = check(bench)
        except SpecchatError as error:
            result = CheckResult(False, str(error))
        seconds = time.perf_counter() - started
        verdict = "ok" if result.passed else "FAILED"
        print(f"{verdict:<8}{name:<32}{result.finding} ({seconds:.1f} s)", flush=True)
        passed = passed and result.passed
    return passed


def main(arguments: Sequence[str]) -> int:
    """Print a line for each check; exit code 1 where one fails."""
    parser = bench_parser("device", __doc__, tokens=8, json=False)
    parser.add_argument("--draft", help="a .gguf (default: a copy of the model in four bits)")
    options = parser.parse_args(arguments)
    found = gpus()
    if not found:
        raise SpecchatError("llama.cpp finds no GPU here to check: `specchat doctor` says what it needs.")
    for gpu in found:
        print(f"{gpu.name}: {gpu.description}, {_size(gpu.free)} free of {_size(gpu.total)}", flush=True)
    draft = find_model(options.draft) if options.draft else None
    started = time.perf_counter()
    with DeviceBench(find_model(options.model), draft, options.tokens) as bench:
        print(f"loaded in {time.perf_counter() - started:.1f} s", flush=True)
        return 0 if run(bench) else 1
