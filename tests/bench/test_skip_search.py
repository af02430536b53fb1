"""The search for layers to skip: wrong, it would make `--proposer skip` slower, or fill the disk."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from app.bench import skip_search
from app.bench.layer_choice import Layers, expected, greedy_search, overlap, survival
from app.bench.prompts import Prompt
from app.bench.skip_search import main
from app.errors import SpecchatError, UsageError
from app.llama.context import Context, Interrupted
from app.models.gguf import Header, read_header
from app.models.skip import content_digest, load_choice, save_choice, write_skip
from proposers.base import Distribution
from tests.tiny import write_tiny


def subsets(layers: Iterable[int], most: int) -> list[Layers]:
    layers = list(layers)
    return [chosen for size in range(1, most + 1) for chosen in combinations(layers, size)]


@pytest.mark.parametrize("seed", range(20))
def test_additive_score_is_maximised(seed: int) -> None:
    """Else: layers that cost nothing would be kept, or such as matter left out."""
    rng = np.random.default_rng(seed)
    gains = rng.normal(0.3, 1.0, 7)
    most = int(rng.integers(1, 7))

    def score(chosen: Layers) -> float:
        return float(gains[list(chosen)].sum())

    found = greedy_search(range(7), most, lambda sets: [score(chosen) for chosen in sets], handful=2)
    assert score(found) == max(score(chosen) for chosen in subsets(range(7), most))


def test_neighbours_that_hurt_together_are_found_out() -> None:
    """The second-best layer alone need not be the best beside the first."""

    def score(chosen: Layers) -> float:
        return sum((4.0, 3.0, 2.0, 1.0)[layer] for layer in chosen) - 5.0 * ({0, 1} <= set(chosen))

    found = greedy_search(range(4), 2, lambda sets: [score(chosen) for chosen in sets])
    assert found == (0, 2)


def test_ties_go_to_fewer_and_earlier_layers() -> None:
    """Else: the same measurements would give another choice next time."""
    rated: list[Sequence[Layers]] = []

    def rate(sets: Sequence[Layers]) -> list[float]:
        rated.append(sets)
        return [1.0] * len(sets)

    assert greedy_search((3, 4, 5, 6), 3, rate, handful=2) == (3,)
    assert rated == [[(3,), (4,), (5,), (6,)], [(3, 4), (3, 5)], [(3, 4, 5), (3, 4, 6)]]


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.8, 1.0])
@pytest.mark.parametrize("step", [0.0, 0.4, 2.0])
def test_expected_speedup_is_the_best_of_all_lengths(alpha: float, step: float) -> None:
    costs = {width: 1.0 + 0.3 * (width - 1) ** 1.2 for width in range(1, 10)}
    costs[5] = 1.5  # a cheap width after dear ones
    rates = {k: sum(alpha**j for j in range(k + 1)) / (costs[k + 1] + k * step) for k in range(1, 9)}
    found = expected([alpha**j for j in range(1, 17)], costs, step)
    assert found.speedup == pytest.approx(costs[1] * max(rates.values()))
    assert rates[found.k] == pytest.approx(max(rates.values()))


def test_costs_between_measured_widths_are_linear() -> None:
    assert expected([1.0, 1.0], {1: 1.0, 4: 4.0}, 0.0).speedup == pytest.approx(1.0)
    assert expected([1.0, 1.0], {1: 1.0, 2: 4.0}, 0.0).k == 1


@pytest.mark.parametrize("seed", range(10))
def test_survival_counts_every_start(seed: int) -> None:
    """Hazards by enumeration: of the starts whose first j - 1 tokens are right, how many go on."""
    rng = np.random.default_rng(seed)
    agreed = [rng.random(length) < 0.7 for length in (1, 5, 12)]
    chance, chances = 1.0, []
    for j in range(1, 7):
        runs = [reply[at : at + j] for reply in agreed for at in range(len(reply) - j + 1)]
        alive = [run for run in runs if run[:-1].all()]
        if not alive:
            break
        chance *= sum(bool(run[-1]) for run in alive) / len(alive)
        chances.append(chance)
    assert survival(agreed, 6) == pytest.approx(tuple(chances))


def test_overlap_is_the_acceptance_of_a_sampled_token() -> None:
    p = Distribution(np.array([7, 3, 9]), np.array([0.5, 0.3, 0.2]))
    q = Distribution(np.array([3, 7]), np.array([0.9, 0.1]))
    assert overlap(p, q) == pytest.approx(0.4)


class InterruptedContext:
    """A context that Ctrl+C meets in the midst of a forward."""

    def rollback(self, length: int) -> None:
        pass

    def forward(self, tokens: Sequence[int], rows: int) -> None:
        signal.raise_signal(signal.SIGINT)
        assert self.stop()
        raise Interrupted

    def stop(self) -> bool:
        raise AssertionError("never set")


def test_interrupt_inside_a_forward_stops_it() -> None:
    """Raised inside llama.cpp's callback it would be printed, lost, and the search would go on."""
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        skip_search.forward(cast(Context, InterruptedContext()), [1, 2], 1)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model of eight layers, with a cache folder of its own and prompts that are short."""
    monkeypatch.setattr(skip_search, "cache_folder", lambda: tmp_path / "cache")
    prompts = tuple(Prompt(f"{n}", "chat", f"Tell the an{n}") for n in range(5))
    monkeypatch.setattr(skip_search, "load_prompts", lambda: prompts)
    # Two threads wait for each other at every layer, for long on a busy machine.
    monkeypatch.setattr("app.llama.context.performance_cores", lambda: 1)
    return write_tiny(tmp_path / "tiny.gguf", layers=8, end_scale=0.5)


def choice(model: Path, folder: Path) -> Layers | None:
    """The choice that is kept; nothing else may be left in the folder."""
    digest = content_digest(read_header(model))
    assert [path.name for path in folder.iterdir()] == [f"skip-{digest}.json"]
    return load_choice(folder, digest)


@pytest.mark.parametrize("given", [False, True])
def test_whole_search_keeps_a_choice_and_no_copy(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], given: bool
) -> None:
    """Else: the search was for nothing, or the disk is full of copies that nobody uses."""
    text = tmp_path / "text.md"
    text.write_text("the thin hat and an oath in the rain\n" * 30)
    arguments = [str(tiny), "--most", "2", *(["--calibration", str(text)] if given else [])]
    assert main(arguments) == 0
    chosen = choice(tiny, tmp_path / "cache")
    assert chosen is not None
    assert 1 <= len(chosen) <= 2
    assert set(chosen) <= set(range(1, 7))
    said = capsys.readouterr()
    # The default, six single layers and four pairs; sets that are met again are not measured again.
    assert sum("agreement" in line for line in said.err.splitlines()) in (10, 11)
    assert "*" in said.out
    assert "the default" in said.out


def test_interrupted_search_keeps_the_best_so_far(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Hours of measuring a large model must not be lost, nor an earlier choice for a worse one."""
    folder = tmp_path / "cache"
    save_choice(folder, content_digest(read_header(tiny)), (5, 6))
    asked: list[Layers] = []

    def write(header: Header, layers: Layers, directory: Path) -> Path:
        asked.append(layers)
        if len(asked) == 4:
            raise KeyboardInterrupt
        return write_skip(header, layers, directory)

    monkeypatch.setattr("app.models.skip.write_skip", write)
    assert main([str(tiny)]) == 130
    assert asked == [(3,), (5, 6), (1,), (2,)]
    assert choice(tiny, folder) in asked[:3]
    assert "chosen before" in capsys.readouterr().out


def test_interrupt_before_anything_is_measured_keeps_nothing(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(skip_search.LayerSearch, "_measure", lambda *_: signal.raise_signal(signal.SIGINT))
    assert main([str(tiny)]) == 130
    assert not any((tmp_path / "cache").iterdir())


def test_large_copies_areasked_for(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's disk fills up unasked."""
    monkeypatch.setattr(skip_search, "ASK_ABOVE_BYTES", 0)
    monkeypatch.setattr(skip_search, "ask", lambda question: False)
    with pytest.raises(UsageError):
        main([str(tiny)])
    assert not (tmp_path / "cache").exists()
    assert main([str(tiny), "--most", "1", "--yes"]) == 0


def test_what_cannot_be_searched_is_said(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(SpecchatError, match="too few layers"):
        main([str(write_tiny(tmp_path / "two.gguf", layers=2))])
    with pytest.raises(SpecchatError, match="too short to measure in"):
        main([str(write_tiny(tmp_path / "narrow.gguf", layers=4, context=64))])
    text = tmp_path / "short.txt"
    text.write_text("the")
    with pytest.raises(UsageError, match="too short"):
        main([str(tiny), "--calibration", str(text)])
    with pytest.raises(UsageError):
        main([str(tiny), "--most", "0"])
