"""How many threads the next pass gets, on a machine that other processes use too.

All threads of a pass wait for each other at every layer. If another process takes one of two cores, a pass
with two threads takes 3 to 100 times as long, while one with a single thread takes as long as ever. So the
numbers chosen at loading are reconsidered between passes:

    slowness   seconds of a pass over the usual time of its width
    level      the current slowness: the mean of the last few passes without the HICCUPS longest
    trial      passes with another number: aborted as soon as they are slower than the level, adopted after
               LENGTH passes that were faster by LEAST_GAIN

Fewer threads are tried at once when the level rises by SLOWER, as it does on a busy machine. Other numbers
are tried from time to time, to notice that the machine is quiet again. Each failure doubles the wait for the
next trial, and costs at most SHARE of the time that follows without one. A new reply does not wait, since
much may have changed since the last one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from statistics import fmean

from app.llama.threads import Threads

# Passes that make up the level, and how many of them may have been delayed by something else.
WINDOW, HICCUPS = 7, 2
# Passes in a complete trial.
LENGTH = 10
# Noise of 20 % in a pass leaves 6 % in the mean of a trial; and the level is less than a mean.
LEAST_GAIN = 0.05
# A trial may lose this much of a pass at first: its first pass starts threads.
HEAD_START = 0.6
SLOWER = 1.3
SHARE = 0.01
# Seconds until the first trial of a number, and at most. Fewer threads are tried when needed anyway.
FIRST_WAIT, LONGEST_WAIT, LONGEST_WAIT_FEWER = 1.0, 4.0, 64.0
# How far a pass moves the usual time of its width, and the usual level.
_WIDTH_STEP, _BASE_STEP = 0.05, 0.02


class ThreadTuner:
    """Tunes the numbers of threads for narrow and for wide passes, independently of each other."""

    def __init__(self, candidates: Sequence[int], first: Threads) -> None:
        """candidates: the numbers to choose from. first: those that the engine begins with."""
        self.first = first
        self._narrow = _NumberTuner(candidates, first.narrow)
        self._wide = _NumberTuner(candidates, first.wide)
        # No trial is made before this time unless it is needed.
        self._quiet_until = 0.0

    def begin(self, now: float) -> None:
        """A new reply begins: more threads may be tried at once."""
        self._quiet_until = now
        self._narrow.begin(now)
        self._wide.begin(now)

    def observe(self, width: int, seconds: float, now: float) -> Threads:
        """A pass of this width ended at `now` (seconds). Returns the numbers of threads for the next one."""
        follower = self._narrow if width == 1 else self._wide
        lost = follower.observe(width, seconds, now, now >= self._quiet_until)
        if lost > 0.0:
            self._quiet_until = now + lost / SHARE
        return Threads(self._narrow.threads, self._wide.threads)


class _NumberTuner:
    """Tunes one of the two numbers."""

    def __init__(self, candidates: Sequence[int], chosen: int) -> None:
        self._candidates = candidates
        self._chosen = chosen
        self._others: list[int] = []
        # Seconds by width, at a level of 1.
        self._usual: dict[int, float] = {}
        self._window: deque[float] = deque(maxlen=WINDOW)
        self._level = 1.0
        self._base: float | None = None
        # How often in a row the level was too high.
        self._alarms = 0
        # Numbers to try as soon as possible.
        self._urgent: list[int] = []
        # By number of threads: seconds from one trial to the next, and the time of the next.
        self._waits: dict[int, float] = {}
        self._due: dict[int, float] = {}
        self._trial: _Trial | None = None

    @property
    def threads(self) -> int:
        return self._trial.threads if self._trial else self._chosen

    def begin(self, now: float) -> None:
        for threads in self._others:
            if threads > self._chosen:
                self._waits[threads] = FIRST_WAIT
                self._due[threads] = now

    def observe(self, width: int, seconds: float, now: float, may_try: bool) -> float:
        """Record a pass. Returns the seconds lost by a trial that failed with it. may_try: whether to start a
        trial that is not needed."""
        trial = self._trial
        if trial is None:
            self._follow(width, seconds, now)
            self._trial = self._next_trial(now, may_try)
        elif width in self._usual:
            usual = self._usual[width]
            trial.take(seconds / usual, seconds - self._level * usual)
            if trial.failed(self._level):
                self._give_up(trial, now)
                return trial.lost
            if len(trial.slowness) == LENGTH:
                self._keep(trial, now)
        return 0.0

    def _follow(self, width: int, seconds: float, now: float) -> None:
        """A pass with the chosen number."""
        # The first pass of a width only sets its usual time.
        usual = self._usual.setdefault(width, seconds / self._level)
        slowness = seconds / usual
        self._usual[width] *= 1.0 + _WIDTH_STEP * (min(slowness / self._level, 2.0) - 1.0)
        self._window.append(slowness)
        if len(self._window) < WINDOW:
            return
        self._level = fmean(sorted(self._window)[: WINDOW - HICCUPS])
        if self._base is None:
            self._settle(self._chosen, self._level, now)
        elif self._level > SLOWER * self._base:
            # The window still holds earlier passes. If trials against such a level fail, they are repeated
            # once; after that the level counts as normal.
            self._alarms += 1
            self._window.clear()
            if self._alarms == 2:
                self._alarms, self._base = 0, self._level
            self._urgent = sorted(threads for threads in self._others if threads < self._chosen)
            self._waits.update(dict.fromkeys(self._urgent, FIRST_WAIT))
        else:
            self._alarms = 0
            # The usual level grows with the context.
            self._base += _BASE_STEP * (self._level - self._base)

    def _next_trial(self, now: float, may_try: bool) -> _Trial | None:
        if not self._others:
            return None
        if self._urgent:
            return _Trial(self._urgent.pop())
        threads = min(self._others, key=self._due.__getitem__)
        return _Trial(threads) if may_try and self._due[threads] <= now else None

    def _give_up(self, trial: _Trial, now: float) -> None:
        self._trial = None
        self._due[trial.threads] = now + self._waits[trial.threads]
        longest = LONGEST_WAIT if trial.threads > self._chosen else LONGEST_WAIT_FEWER
        self._waits[trial.threads] = min(2 * self._waits[trial.threads], longest)

    def _keep(self, trial: _Trial, now: float) -> None:
        self._trial = None
        self._window.extend(trial.slowness)
        self._settle(trial.threads, sum(trial.slowness) / LENGTH, now)

    def _settle(self, threads: int, level: float, now: float) -> None:
        self._chosen = threads
        self._others = [each for each in self._candidates if each != threads]
        self._level = self._base = level
        self._alarms = 0
        self._urgent.clear()
        self._waits = dict.fromkeys(self._others, FIRST_WAIT)
        self._due = dict.fromkeys(self._others, now + FIRST_WAIT)


class _Trial:
    """The passes so far with another number of threads. lost: seconds more than with the chosen number."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.slowness: list[float] = []
        self.lost = 0.0

    def take(self, slowness: float, lost: float) -> None:
        self.slowness.append(slowness)
        self.lost += lost

    def failed(self, level: float) -> bool:
        """Whether it is slower, or at its end not fast enough."""
        passes = len(self.slowness)
        allowed = (1.0 - LEAST_GAIN) * passes + (HEAD_START if passes < LENGTH else 0.0)
        return sum(self.slowness) > allowed * level
