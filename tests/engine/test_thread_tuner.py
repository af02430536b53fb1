"""Following a machine that others use too, on simulated machines whose best choice is known."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

import pytest

from app.engine.thread_tuner import LONGEST_WAIT, ThreadTuner
from app.llama.threads import Threads

# Speeds by number of threads, over that of one thread.
TWO_CORES = {1: 1.0, 2: 1.75}
EIGHT_CORES = {4: 3.4, 7: 5.1, 8: 5.6, 16: 5.3}
PLAIN_SECONDS = 0.01
NARROW, WIDE, MIXED = (1,), (2, 5, 9, 17, 33), (1, 1, 1, 1, 5, 9)


@dataclass(frozen=True)
class Machine:
    """busy: cores that others keep busy, by time. slow: how many times as long a pass takes, at least and at
    most, that has more threads than cores are free. noise: deviation of a pass, relative. hiccups: stops of
    100 ms a second."""

    speeds: Mapping[int, float]
    cores: int
    busy: Callable[[float], int] = lambda now: 0
    slow: tuple[float, float] = (2.0, 6.0)
    noise: float = 0.2
    hiccups: float = 0.0

    def usual(self, threads: int, width: int, busy: int) -> float:
        """Expected seconds of a pass without a hiccup."""
        seconds = PLAIN_SECONDS * (1 + 0.35 * (width - 1)) / self.speeds[threads]
        crowded = busy > 0 and threads > max(1, self.cores - busy)
        return seconds * (mean(self.slow) if crowded else 1.0)

    def seconds(self, threads: int, width: int, busy: int, rng: random.Random) -> float:
        crowded = busy > 0 and threads > max(1, self.cores - busy)
        factor = rng.uniform(*self.slow) / mean(self.slow) if crowded else 1.0
        return self.usual(threads, width, busy) * factor * max(0.3, rng.gauss(1.0, self.noise))


@dataclass(frozen=True)
class Run:
    """lost: share of the time that the best choice at each moment would have taken. used: when each pass
    ended, and its threads."""

    lost: float
    used: tuple[tuple[float, int], ...]

    def share(self, threads: int, begin: float, end: float) -> float:
        """The share of the passes in that time with this many threads."""
        within = [used for now, used in self.used if begin <= now < end]
        return within.count(threads) / len(within)


def run(
    machine: Machine,
    widths: Sequence[int] = NARROW,
    first: int | None = None,
    end: float = 30.0,
    seed: int = 0,
) -> Run:
    rng = random.Random(seed)
    start = first or max(machine.speeds, key=machine.speeds.__getitem__)
    threads = Threads(start, start)
    choice = ThreadTuner(sorted(machine.speeds), threads)
    now = taken = best = 0.0
    used = []
    while now < end:
        width, busy = rng.choice(widths), machine.busy(now)
        number = threads.narrow if width == 1 else threads.wide
        seconds = machine.seconds(number, width, busy, rng)
        hiccup = 0.1 if rng.random() < machine.hiccups * seconds else 0.0
        now += seconds + hiccup
        taken += seconds + hiccup
        best += min(machine.usual(each, width, busy) for each in machine.speeds) + hiccup
        used.append((now, number))
        threads = choice.observe(width, seconds + hiccup, now)
    return Run(taken / best - 1.0, tuple(used))


def runs(machine: Machine, widths: Sequence[int] = NARROW, first: int | None = None) -> list[Run]:
    return [run(machine, widths, first, seed=seed) for seed in range(3)]


def lost(found: Sequence[Run]) -> float:
    return mean(each.lost for each in found)


def in_turn(now: float) -> int:
    """Quiet for ten seconds, one core taken for ten, and so on."""
    return int(now / 10.0) % 2


@pytest.mark.parametrize("widths", [NARROW, WIDE, MIXED])
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_a_quiet_machine_loses_next_to_nothing(widths: tuple[int, ...], noise: float) -> None:
    """Lost otherwise: speed on every machine, for the sake of the busy ones."""
    assert lost(runs(Machine(TWO_CORES, 2, noise=noise), widths)) < 0.01


@pytest.mark.parametrize("widths", [NARROW, WIDE, MIXED])
def test_noise_and_hiccups_do_not_make_it_flap(widths: tuple[int, ...]) -> None:
    """Lost otherwise: a machine of two cores that decodes on one because a file was saved."""
    found = runs(Machine(TWO_CORES, 2, hiccups=0.5), widths)
    assert lost(found) < 0.02
    assert all(each.share(2, 0.0, 30.0) > 0.95 for each in found)


def test_a_reply_on_a_machine_that_is_quiet_again_soon_has_all_threads() -> None:
    """Lost otherwise: the whole of a short reply, on half the machine, as a build ran during the last one."""
    choice = ThreadTuner((1, 2), Threads(2, 2))
    now, threads = 0.0, Threads(2, 2)
    for quiet in (False, True):
        choice.begin(now)
        used = []
        for _ in range(1000 if not quiet else 60):
            seconds = 0.010 if threads.narrow == 1 else 0.006 if quiet else 0.040
            now += seconds
            used.append(threads.narrow)
            threads = choice.observe(1, seconds, now)
        assert used.count(2 if quiet else 1) > 0.8 * len(used)


@pytest.mark.parametrize("place", range(1, 40))
def test_one_hiccup_changes_nothing(place: int) -> None:
    """Lost otherwise: a pass with half the threads after each hiccup."""
    choice = ThreadTuner((1, 2), Threads(2, 2))
    for number in range(1, 60):
        seconds = 0.1 if number == place else 0.004
        assert choice.observe(1, seconds, 0.004 * number) == (2, 2)


@pytest.mark.parametrize("slow", [(2.0, 6.0), (20.0, 100.0)])
def test_a_core_that_is_taken_is_given_up_within_a_few_passes(slow: tuple[float, float]) -> None:
    """Lost otherwise: two thirds of the speed, or nearly all of it, while something else runs."""
    found = [
        run(Machine(TWO_CORES, 2, lambda now: int(now > 1.0), slow), end=6.0, seed=seed) for seed in range(5)
    ]
    for each in found:
        begun = [used for now, used in each.used if now > 1.0][:30]
        assert begun[-1] == 1


@pytest.mark.parametrize(("slow", "allowed"), [((2.0, 6.0), 0.06), ((1.9, 2.6), 0.09), ((20.0, 100.0), 0.3)])
def test_a_machine_that_becomes_busy_and_quiet_again_is_followed(
    slow: tuple[float, float], allowed: float
) -> None:
    """Lost otherwise: half the speed for the rest of the chat after each compilation."""
    found = runs(Machine(TWO_CORES, 2, in_turn, slow))
    assert lost(found) < allowed
    for each in found:
        assert each.share(1, 11.0, 20.0) > 0.95
        assert slow[1] > 6.0 or each.share(2, 25.0, 30.0) > 0.95


@pytest.mark.parametrize("widths", [WIDE, MIXED])
def test_wide_passes_are_followed_too(widths: tuple[int, ...]) -> None:
    """Lost otherwise: the gain of every draft, on a busy machine."""
    assert lost(runs(Machine(TWO_CORES, 2, in_turn, hiccups=0.2), widths)) < 0.15


@pytest.mark.parametrize("slow", [(2.0, 6.0), (20.0, 100.0)])
def test_what_looking_for_more_threads_costs_a_busy_machine_is_bounded(slow: tuple[float, float]) -> None:
    """Lost otherwise: a machine that stays busy, to the question whether it still is."""
    assert lost(runs(Machine(TWO_CORES, 2, lambda now: 1, slow), first=1)) < 0.025


def test_a_load_that_was_there_from_the_start_is_noticed() -> None:
    """Lost otherwise: two thirds of the speed, where a remembered number is believed."""
    found = runs(Machine(TWO_CORES, 2, lambda now: 1))
    assert lost(found) < 0.05
    assert all(each.share(1, 2.0, 30.0) > 0.95 for each in found)


def test_a_pause_makes_it_look_again_at_once() -> None:
    """Lost otherwise: half the speed in the reply after a pause, though what was busy has long ended."""
    choice = ThreadTuner((1, 2), Threads(1, 1))
    now, threads = 0.0, choice.first
    while now < 30.0:
        seconds = 0.02 if threads.narrow == 2 else 0.007
        now += seconds
        threads = choice.observe(1, seconds, now)
    assert choice.observe(1, 0.007, now + LONGEST_WAIT).narrow == 2


def test_more_cores_give_up_as_many_threads_as_are_taken() -> None:
    """Lost otherwise: half of a large machine, to one busy process."""
    one = run(Machine(EIGHT_CORES, 8, lambda now: int(now > 5.0)))
    assert one.lost < 0.03 and one.share(7, 7.0, 30.0) > 0.9
    assert run(Machine(EIGHT_CORES, 8, lambda now: 4 * in_turn(now))).lost < 0.08


def test_the_same_passes_give_the_same_choices() -> None:
    """Lost otherwise: a fault that nobody can show twice."""
    machine = Machine(TWO_CORES, 2, in_turn, hiccups=0.5)
    assert run(machine, MIXED) == run(machine, MIXED)
