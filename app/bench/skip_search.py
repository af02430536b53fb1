"""Which layers the proposer `skip` leaves out, chosen by measurement: `specchat skip-search`.

Greedy removal: leave out each single layer, then grow the set from the best, with a few of the most promising
layers tried at each step. What a set is worth is computed in `layer_choice`.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from app.arguments import Parser, ask, whole
from app.assembly.proposers import ASK_ABOVE_BYTES
from app.bench.layer_choice import HANDFUL, Expected, Layers, expected, greedy_search, overlap, survival
from app.bench.prompts import load_prompts
from app.bench.workbench import chat_tokens
from app.chat.documents import read_document
from app.commands.table import TableColumn, figure, table
from app.engine.calibration import calibrate
from app.engine.costs import WIDTHS
from app.engine.sampling import Sampler
from app.engine.settings import LONGEST_DRAFT, Sampling
from app.errors import SpecchatError, UsageError
from app.llama.context import Context, Interrupted
from app.llama.model import Model
from app.llama.parameters import MAX_ROWS
from app.llama.settings import ModelSettings
from app.measurements import cache_folder
from app.models import skip
from app.models.gguf import Header
from app.models.locate import check_file, find_model, open_model
from proposers.base import Distribution

# Replies to measure on, tokens of each (one forward returns all its rows), and how many tokens of a given
# text come before a stretch that is measured.
_REPLIES, _REPLY, _BEFORE = 4, MAX_ROWS, 128
# How often the cost curve and a draft's step are timed.
_ROUNDS, _STEPS = 5, 15
_STALE_SECONDS = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Sample:
    """Tokens of a prompt with its reply, and the target's choices (n,) and p at the reply's positions."""

    tokens: tuple[int, ...]
    choices: NDArray[np.int64]
    p: list[Distribution]


@dataclass(frozen=True, slots=True)
class DraftQuality:
    """Shares of equal choices (agreement) and of sampled tokens accepted (overlap, Σ min(p, q)); S_j."""

    agreement: float
    overlap: float
    survival: tuple[float, ...]


def forward(context: Context, tokens: Sequence[int], rows: int) -> NDArray[np.float32]:
    """`Context.forward` into an emptied cache. Ctrl+C stops it and is raised afterwards: in the callback that
    llama.cpp asks whether to stop, an exception would be lost."""
    asked = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: asked.set())
    context.stop = asked.is_set
    try:
        context.rollback(0)
        with suppress(Interrupted):
            logits = context.forward(tokens, rows)
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)
    if asked.is_set():
        raise KeyboardInterrupt
    return logits


def step_seconds(context: Context) -> float:
    """Seconds of a pass of one token after what the cache holds; the pass is taken back."""
    context.checkpoint()
    length, before = context.length, context.seconds
    context.forward([0])
    seconds = context.seconds - before
    context.rollback(length)
    return seconds


class LayerSearch:
    """Measures sets of layers of an open target, each with a copy that is deleted at once."""

    def __init__(
        self, header: Header, target: Context, samples: Sequence[Sample], folder: Path, planned: int
    ) -> None:
        """Time the target's passes. folder: for the copies; planned: how many sets will be rated."""
        self.results: dict[Layers, DraftQuality] = {}
        self._header, self._target, self._samples, self._folder = header, target, samples, folder
        self._planned, self._began = planned, time.monotonic()
        # A draft's step over a plain pass beside it, by number of layers left out: a machine's speed drifts
        # within minutes, and timings are too noisy to distinguish sets of one size.
        self._shares: dict[int, list[float]] = {}
        forward(target, samples[-1].tokens[:-1], 1)
        self.costs = calibrate(target, samples[-1].tokens, WIDTHS, math.inf, _ROUNDS).seconds

    def rate(self, sets: Sequence[Layers]) -> list[float]:
        """Expected speedups. Each set that is new is measured, with a line about it."""
        for layers in sets:
            if layers not in self.results:
                path = skip.write_skip(self._header, layers, self._folder)
                try:
                    with Model(path) as model, Context(model, self._target.capacity) as draft:
                        self.results[layers] = self._measure(draft, len(layers))
                finally:
                    path.unlink(missing_ok=True)
                self._report(layers)
        return [self.expected(layers).speedup for layers in sets]

    def expected(self, layers: Layers) -> Expected:
        """What a measured set is worth."""
        return expected(self.results[layers].survival, self.costs, self._step(len(layers)))

    def _step(self, skipped: int) -> float:
        """Seconds of a draft's step: the median of all sets of that size."""
        return median(self._shares[skipped]) * self.costs[1]

    def best(self, size: int | None = None) -> Layers:
        """The best set measured, of a size or of all."""
        sets = [layers for layers in self.results if size in (None, len(layers))]
        return max(sets, key=lambda layers: self.expected(layers).speedup)

    def _measure(self, draft: Context, skipped: int) -> DraftQuality:
        agreed, overlaps = [], list[float]()
        for sample in self._samples:
            rows = forward(draft, sample.tokens[:-1], len(sample.choices))
            agreed.append(rows.argmax(axis=1) == sample.choices)
            overlaps += map(overlap, sample.p, Sampler(Sampling()).distributions(rows, (), ()))
        steps, plain = list[float](), list[float]()
        for _ in range(_STEPS):
            steps.append(step_seconds(draft))
            plain.append(step_seconds(self._target))
        self._shares.setdefault(skipped, []).append(median(steps) / median(plain))
        agreement = float(np.concatenate(agreed).mean())
        return DraftQuality(agreement, float(np.mean(overlaps)), survival(agreed, LONGEST_DRAFT))

    def _report(self, layers: Layers) -> None:
        done, measured, worth = len(self.results), self.results[layers], self.expected(layers)
        left = (time.monotonic() - self._began) / done * max(self._planned - done, 0)
        print(
            f"{done}/{self._planned} · without {_named(layers)} · agreement {measured.agreement:.1%} · draft "
            f"step {self._step(len(layers)) * 1e3:.2f} ms · speedup {worth.speedup:.2f}× at k = {worth.k} · "
            f"{f'{left / 60:.0f} min' if left >= 90 else f'{left:.0f} s'} left",
            file=sys.stderr,
            flush=True,
        )

    def print_results(self, known: Mapping[Layers, str]) -> None:
        """The best set of each size and the known ones, and what follows from the best of all."""
        chosen = self.best()
        shown = {layers for layers in known if layers in self.results}
        shown |= {self.best(size) for size in {len(layers) for layers in self.results}}
        columns: list[TableColumn[Layers]] = [
            TableColumn("", lambda layers: "*" if layers == chosen else ""),
            TableColumn("left out", _named),
            figure("agreement", lambda layers: f"{self.results[layers].agreement:.1%}"),
            figure("Σ min(p, q)", lambda layers: f"{self.results[layers].overlap:.1%}"),
            figure("draft step", lambda layers: f"{self._step(len(layers)) * 1e3:.2f} ms"),
            figure("speedup", lambda layers: f"{self.expected(layers).speedup:.2f}×"),
            figure("k", lambda layers: str(self.expected(layers).k)),
            TableColumn("", lambda layers: known.get(layers, "")),
        ]
        rows = sorted(shown, key=lambda layers: (len(layers), layers))
        print("\n".join(table(rows, columns)))
        speedup = self.expected(chosen).speedup
        print(f"\nFrom now on --proposer skip leaves out these layers of the model: {_named(chosen)}.")
        if speedup < 1.0:
            print(
                f"It will not pay on this machine: this set is expected to reach {speedup:.2f} times the "
                "speed of plain decoding. Use --proposer lookup, or draft with a smaller model."
            )


def _named(layers: Layers) -> str:
    return " ".join(map(str, layers))


def _excerpts(target: Model, text: Path) -> list[list[int]]:
    """Parts of a text, spread evenly over it."""
    tokens = target.tokenise(read_document(text).text, special=False)
    if len(tokens) < 2 * LONGEST_DRAFT:
        raise UsageError(f"{text} is too short to measure on: give a text of a hundred words or more.")
    bos = [target.bos] if target.add_bos else []
    length = _BEFORE + _REPLY
    last = max(len(tokens) - length, 0)
    places = sorted({last * number // (_REPLIES - 1) for number in range(_REPLIES)})
    return [bos + tokens[place : place + length] for place in places]


def _prompts(target: Model) -> list[list[int]]:
    """A few of the project's prompts, of different kinds."""
    template = None if target.chat_template else "chatml"
    prompts = load_prompts()
    chosen = prompts[:: max(len(prompts) // _REPLIES, 1)][:_REPLIES]
    return [list(chat_tokens(target, prompt.prompt, template)) for prompt in chosen]


def _sample(context: Context, tokens: list[int], answer: bool) -> Sample:
    """A text, or a prompt with its greedy answer (and the token that ends it)."""
    count = min(_REPLY, len(tokens) // 2)
    if answer:
        reply = [int(forward(context, tokens, 1)[0].argmax())]
        while len(reply) < _REPLY and reply[-1] not in context.model.end_tokens:
            reply.append(int(context.forward(reply[-1:])[0].argmax()))
        tokens, count = tokens + reply, len(reply)
    rows = forward(context, tokens[:-1], count)
    return Sample(tuple(tokens), rows.argmax(axis=1), Sampler(Sampling()).distributions(rows, (), ()))


def _search(header: Header, target: Context, samples: list[Sample], layers: range, most: int) -> int:
    """Search, keep the best set of those that were measured, and print the table."""
    folder, digest = cache_folder(), skip.content_digest(header)
    # What is in use is measured first, so that a search that is cut short never ends with a worse choice.
    known = {skip.skipped_layers_default(target.model.layers): "the default"}
    known[skip.load_choice(folder, digest) or ()] = "chosen before"
    known = {chosen: what for chosen, what in known.items() if chosen and set(chosen) <= set(layers)}
    planned = len(known) + len(layers) + sum(min(HANDFUL, len(layers) - size) for size in range(1, most))
    copies = folder / f"skip-search-{os.getpid()}"
    search = LayerSearch(header, target, samples, copies, planned)
    code = 0
    try:
        search.rate(list(known))
        greedy_search(layers, most, search.rate)
    except KeyboardInterrupt:
        print("Interrupted: the best set so far is kept, if there is one.", file=sys.stderr)
        code = 130
    finally:
        shutil.rmtree(copies, ignore_errors=True)
        if search.results:
            skip.save_choice(folder, digest, search.best())
            search.print_results(known)
    return code


def main(arguments: Sequence[str]) -> int:
    """Choose the layers that `--proposer skip` leaves out. Returns the exit code."""
    parser = Parser(prog="specchat skip-search", description="Choose the layers that skip leaves out.")
    add = parser.add_argument
    add("model", nargs="?", metavar="MODEL", help="path of a .gguf or a name (default: the bundled one)")
    add("--calibration", type=Path, metavar="FILE", help="a text to measure on (default: replies of MODEL)")
    add("--most", type=whole(1), metavar="N", help="layers to leave out at most (default: a fifth)")
    add("--yes", action="store_true", help="write copies above 1 GB without asking")
    options = parser.parse_args(arguments)
    header = check_file(find_model(options.model))
    if problem := skip.skip_problem(header):
        raise SpecchatError(problem)
    blocks = header.block_count or 0
    # What the first and the last layer do, no other does: they are not worth a try.
    layers = range(1, blocks - 1)
    if not layers:
        raise SpecchatError(f"{header.path.name} has too few layers to leave one out: use another proposer.")
    size, folder = max(skip.skip_size(header, (layer,)) for layer in layers), cache_folder()
    print(f"Copies of {size / 1e6:,.0f} MB are written to {folder}, one at a time.", file=sys.stderr)
    if size > ASK_ABOVE_BYTES and not options.yes and not ask("Write them?"):
        raise UsageError("Nothing was measured, as no copy may be written: agree, or give --yes.")
    for left in folder.glob("skip-search-*"):
        # A search that was killed left it; one that runs writes into its own all the time.
        if left.stat().st_mtime < time.time() - _STALE_SECONDS:
            shutil.rmtree(left, ignore_errors=True)
    with open_model(header.path, ModelSettings()) as target:
        starts = _excerpts(target, options.calibration) if options.calibration else _prompts(target)
        spare = _REPLY + max(WIDTHS)
        starts = [tokens for tokens in starts if len(tokens) + spare <= target.context_trained]
        if not starts:
            raise SpecchatError(f"The context of {header.path.name} is too short to measure in.")
        with Context(target, max(map(len, starts)) + spare) as context:
            samples = [_sample(context, tokens, options.calibration is None) for tokens in starts]
            most = min(options.most or max(blocks // 5, 1), len(layers))
            return _search(header, context, samples, layers, most)
