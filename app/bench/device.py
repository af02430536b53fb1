"""What specchat does on this machine's GPU, check by check, for any build that has one.

Each check is a line: what, what came of it, seconds. Kernels of two devices, or for passes of two widths,
round differently, so greedy replies may part where two tokens nearly tie. How far apart the logits of the two
are is shown then, and more than a near tie fails.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from app.arguments import Parser, whole
from app.assembly import Assembly, Setup
from app.engine.control import Controller
from app.engine.events import Finished, Request
from app.engine.loop import Engine
from app.engine.sampling import Sampler
from app.engine.settings import Sampling
from app.errors import SpecchatError
from app.llama.candidates import CANDIDATES
from app.llama.context import Context
from app.llama.devices import Device, devices
from app.llama.placement import buffers, bytes_on_device, clear_buffers
from app.llama.quantise import requantise
from app.llama.settings import ContextSettings, ModelSettings
from app.loading import machine_memory
from app.models.fit import Memory
from app.models.locate import find_model
from app.process.comparison import divergence
from proposers.base import Distribution, Proposer
from proposers.lookup import Lookup
from proposers.off import Off

NAMES = (
    "layers on the device",
    "memory, against the estimate",
    "reading, timed by itself",
    "plain reply",
    "lookup: the same tokens",
    "draft: the same tokens",
    "the CPU: the same tokens",
    "half of the layers",
    "sampling on the device",
    "calibration, within its time",
)
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
class Outcome:
    """What came of a check."""

    passed: bool
    told: str


class DeviceBench:
    """The model on the GPU and on the CPU. Use it as a context."""

    def __init__(self, path: Path, draft: Path | None, tokens: int) -> None:
        """draft: None for a copy of the model in four bits. tokens: of each reply."""
        self._stack = ExitStack()
        self._path = path
        self._tokens = tokens
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
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

    def __enter__(self) -> DeviceBench:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def checks(self) -> dict[str, Callable[[], Outcome]]:
        """Each by its name. The first replies are what later ones are compared with."""
        made = (
            self._layers,
            self._memory,
            self._reading,
            self._plain,
            partial(self._proposer, "lookup"),
            partial(self._proposer, "draft"),
            self._cpu,
            self._half,
            self._sampling,
            self._calibration,
        )
        return dict(zip(NAMES, made, strict=True))

    def _opened(self, gpu_layers: int = -1, settings: ContextSettings | None = None) -> Assembly:
        setup = Setup(
            model=str(self._path),
            context_length=_LENGTH,
            model_settings=ModelSettings(gpu_layers=gpu_layers),
            context_settings=settings or ContextSettings(),
        )
        return self._stack.enter_context(
            Assembly(setup, stop=lambda: False, say=lambda line: print(line, file=sys.stderr))
        )

    def _on_gpus(self, kind: str | None = None) -> int:
        return sum(bytes_on_device(self._buffers, gpu.name, kind) for gpu in self.gpus)

    def _layers(self) -> Outcome:
        held, whole_model = self._on_gpus("model"), self._assembly.target.bytes_of_weights
        fits = self._assembly.fitted.gpu_layers < 0
        told = f"{_size(held)} of {_size(whole_model)} of weights"
        # A table that is only looked up stays with the CPU.
        return Outcome(held > (0.5 * whole_model if fits else 0), told)

    def _memory(self) -> Outcome:
        needed = self._assembly.fitted.gpu
        fell = _free(self._before) - _free(self._free)
        taken, source = (fell, "free memory fell by") if fell else (self._on_gpus(), "llama.cpp allocated")
        spare = sum(self._before.gpus) - self._before.gpu_usable
        return Outcome(taken <= needed + spare, f"{source} {_size(taken)}, estimated {_size(needed)}")

    def _reading(self) -> Outcome:
        """A pass that takes what the prompt before it should have taken spoils every figure."""
        target = self._engine.target
        self._plain_pass(target)
        reading = _seconds(partial(target.forward, self._prompt, rows=0))
        first, second = (_seconds(partial(self._plain_pass, target)) for _ in range(2))
        target.rollback(0)
        told = f"{len(self._prompt)} tokens in {reading:.2f} s, the pass behind them in {first:.2f} s"
        return Outcome(first < max(reading, 3 * second), f"{told}, the next in {second:.2f} s")

    def _reply(self, engine: Engine, proposer: Proposer, k: int | None = None) -> Finished:
        engine.sequence.proposers = (proposer,)
        return _finished(engine, Request(self._prompt, Sampling(temperature=0.0), 0, self._tokens, k=k))

    def _compared(self, finished: Finished) -> Outcome:
        """Against the first reply."""
        assert self._first is not None
        parted = divergence(self._engine, self._prompt, self._first, finished)
        tokens = f"{len(finished.token_ids)} tokens"
        if parted is None:
            return Outcome(True, f"{tokens}, all the same")
        where = f"parts at token {parted.position + 1} of {len(finished.token_ids)}"
        if parted.gap is None:
            return Outcome(False, f"{where}, where one ends")
        return Outcome(abs(parted.gap) < _NEAR, f"{where}, where the two logits are {parted.gap:.3f} apart")

    def _plain(self) -> Outcome:
        finished = self._reply(self._engine, Off())
        self._first = finished
        rate = finished.tokens_per_second
        speed = f", {rate:.1f} a second" if rate else ""
        return Outcome(bool(finished.token_ids), f"{len(finished.token_ids)} tokens{speed}")

    def _proposer(self, name: str) -> Outcome:
        if name == "draft":
            self._assembly.set_draft(str(self._draft))
        proposer = self._assembly.proposer(name, _LENGTH)
        finished = self._reply(self._engine, proposer, _K)
        compared = self._compared(finished)
        return replace(compared, told=f"{compared.told}; {finished.accepted} of {finished.drafted} accepted")

    def _cpu(self) -> Outcome:
        # In exact mode no pass is handed to the GPU.
        assembly = self._opened(gpu_layers=0, settings=ContextSettings(exact=True))
        return self._compared(self._reply(assembly.engine("off"), Off()))

    def _half(self) -> Outcome:
        half = max(1, self._assembly.target.layers // 2)
        clear_buffers()
        assembly = self._opened(gpu_layers=half)
        engine = assembly.engine("off")
        held = sum(bytes_on_device(buffers(), gpu.name, "model") for gpu in self.gpus)
        compared = self._compared(self._reply(engine, Off()))
        told = f"{half} layers, {_size(held)}: {compared.told}"
        return Outcome(compared.passed and 0 < held < self._assembly.target.bytes_of_weights, told)

    def _sampling(self) -> Outcome:
        """The largest logits, found on the device, against whole rows."""
        if self._engine.target.candidates == 0:
            return Outcome(True, "not used: the device has no memory of its own, or not all layers")
        settings = self._assembly.setup.context_settings
        with (
            self._context(replace(settings, candidates=CANDIDATES)) as few,
            self._context(settings) as whole_rows,
        ):
            head, tail = self._prompt[: -_K - 1], self._prompt[-_K - 1 :]
            for context in (few, whole_rows):
                context.forward(head, rows=0)
            found = few.forward_candidates(tail)
            if found is None:
                return Outcome(True, "the device has no top-k: whole rows are used")
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
        told = f"chances differ by {gap:.1e} at most; a seed's tokens are {'the same' if same else 'others'}"
        return Outcome(gap <= _SAME_CHANCE and same, told)

    def _context(self, settings: ContextSettings) -> Context:
        return Context(self._assembly.target, _LENGTH, settings)

    def _sampled(self, context: Context) -> tuple[int, ...]:
        engine = Engine(context, (Lookup(),), Controller())
        return _finished(engine, Request(self._prompt, Sampling(), 5, self._tokens, k=_K)).token_ids

    def _calibration(self) -> Outcome:
        target = self._engine.target
        engine = Engine(target, (Off(),), Controller())
        target.rollback(0)
        plain = _seconds(partial(self._plain_pass, target))
        seconds = _seconds(partial(engine.calibrate, self._prompt[:1], _CALIBRATION_SECONDS))
        (measured,) = engine.controller.costs.measured
        # Beside other programs passes take longer than expected; a fault in it took ten times as long.
        most = 2 * max(_CALIBRATION_SECONDS, _LEAST_PASSES * plain)
        widths = ", ".join(f"{width} in {1000 * each:.1f} ms" for width, each in measured.seconds.items())
        return Outcome(seconds <= most, f"{seconds:.2f} s of {most:.2f} s; passes of width {widths}")

    def _plain_pass(self, target: Context) -> None:
        length = target.length
        target.forward(self._prompt[:1], rows=1)
        target.rollback(length)


def gpus() -> tuple[Device, ...]:
    """The GPUs of this machine that llama.cpp finds."""
    return tuple(each for each in devices() if each.kind in ("gpu", "integrated") and each.backend != "RPC")


def _finished(engine: Engine, request: Request) -> Finished:
    for event in engine.generate(request):
        if isinstance(event, Finished):
            return event
    raise AssertionError("a reply ends with Finished")


def _distance(one: Distribution, other: Distribution, size: int) -> float:
    """The largest difference of a chance."""
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


def run(bench: DeviceBench) -> Iterator[bool]:
    """Make every check, and print its line."""
    for name, check in bench.checks().items():
        started = time.perf_counter()
        try:
            outcome = check()
        except SpecchatError as error:
            outcome = Outcome(False, str(error))
        seconds = time.perf_counter() - started
        result = "ok" if outcome.passed else "FAILED"
        print(f"{result:<8}{name:<32}{outcome.told} ({seconds:.1f} s)", flush=True)
        yield outcome.passed


def main(arguments: Sequence[str]) -> int:
    """Print a line for each check; exit code 1 where one fails."""
    parser = Parser(prog="specchat bench device", description=__doc__)
    parser.add_argument("--model", help="a .gguf (default: the bundled model)")
    parser.add_argument("--draft", help="a .gguf (default: a copy of the model in four bits)")
    parser.add_argument("--tokens", type=whole(2), default=8, help="of each reply (default: 8)")
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
        return 0 if all(list(run(bench))) else 1
