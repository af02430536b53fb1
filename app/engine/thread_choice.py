"""How many threads the next pass gets, on a machine that others use too.

All threads of a pass wait for one another at every layer. Where another process takes one of two cores, a
pass with two threads takes 3 to 100 times as long, and one with a single thread as long as ever. So numbers
that were right when the model was loaded are tried again between passes:

    slowness   seconds of a pass over what passes of its width usually take
    level      slowness now: the mean of the last few passes, less the HICCUPS longest of them
    trial      passes with another number, given up as soon as they are slower than the level, and kept after
               LENGTH passes that were faster by LEAST_GAIN

Fewer threads are tried at once where the level rises by SLOWER, since that is what a busy machine looks like.
Any other number is tried now and then, to notice that the machine is quiet again: each failure doubles the
wait for the next trial, and what it lost is at most SHARE of the time that follows without one. A reply that
begins does not wait: much may have changed since the last one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from statistics import fmean

from app.llama.threads import Threads

# Passes that make up the level, and how many of them may have been held up by something else.
WINDOW, HICCUPS = 7, 2
# Passes of a whole trial.
LENGTH = 10
# Of a noise of 20 % a pass, 6 % are left in the mean of a trial; and the level is less than a mean.
LEAST_GAIN = 0.05
# A trial may be behind by so much of a pass: its first pass starts threads.
HEAD_START = 0.6
SLOWER = 1.3
SHARE = 0.01
# Seconds until a number is tried for the first time, and at most; fewer threads are tried in need anyway.
FIRST_WAIT, LONGEST_WAIT, LONGEST_WAIT_FEWER = 1.0, 4.0, 64.0
# How far a pass moves what its width usually takes, and the level that is usual.
_WIDTH_STEP, _BASE_STEP = 0.05, 0.02


class ThreadChoice:
    """The numbers of threads for narrow and for wide passes; they are followed apart."""

    def __init__(self, candidates: Sequence[int], first: Threads) -> None:
        """candidates: what may be chosen. first: what the engine begins with."""
        self.first = first
        self._narrow = _Follower(candidates, first.narrow)
        self._wide = _Follower(candidates, first.wide)
        # Until then no trial is made without need.
        self._quiet_until = 0.0

    def begin(self, now: float) -> None:
        """Another reply begins: more threads may be tried at once."""
        self._quiet_until = now
        self._narrow.begin(now)
        self._wide.begin(now)

    def observe(self, width: int, seconds: float, now: float) -> Threads:
        """A pass of this width took so long and ended at `now` (seconds): the numbers for the next one."""
        follower = self._narrow if width == 1 else self._wide
        lost = follower.observe(width, seconds, now, now >= self._quiet_until)
        if lost > 0.0:
            self._quiet_until = now + lost / SHARE
        return Threads(self._narrow.threads, self._wide.threads)


class _Follower:
    """One of the two numbers."""

    def __init__(self, candidates: Sequence[int], chosen: int) -> None:
        self._candidates = candidates
        self._chosen = chosen
        self._others: list[int] = []
        # Seconds by width, at a level of 1.
        self._usual: dict[int, float] = {}
        self._window: deque[float] = deque(maxlen=WINDOW)
        self._level = 1.0
        self._base: float | None = None
        # How often in a row the level was found too high.
        self._alarms = 0
        # Numbers to try as soon as possible.
        self._urgent: list[int] = []
        # By number: seconds from one trial to the next, and when that is.
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
        """Take in a pass; seconds that a trial lost which failed with it. may_try: also without need."""
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
        # The first pass of a width only tells what is usual for it.
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
            # The window still holds passes of before. If trials against such a level fail, they are made
            # once more; after that it is how things are.
            self._alarms += 1
            self._window.clear()
            if self._alarms == 2:
                self._alarms, self._base = 0, self._level
            self._urgent = sorted(threads for threads in self._others if threads < self._chosen)
            self._waits.update(dict.fromkeys(self._urgent, FIRST_WAIT))
        else:
            self._alarms = 0
            # Contexts grow, and with them what is usual.
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
    """Passes with another number of threads so far. lost: seconds over what the chosen one would have
    taken."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.slowness: list[float] = []
        self.lost = 0.0

    def take(self, slowness: float, lost: float) -> None:
        self.slowness.append(slowness)
        self.lost += lost

    def failed(self, level: float) -> bool:
        """Whether it is behind, or at its end not far enough ahead."""
        passes = len(self.slowness)
        allowed = (1.0 - LEAST_GAIN) * passes + (HEAD_START if passes < LENGTH else 0.0)
        return sum(self.slowness) > allowed * level
