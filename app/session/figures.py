"""The figures of the speculation panel, counted from the events of one reply.

No figure is smoothed: each equals the one that anybody recomputes from the event log.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from typing import Literal

from app.engine.events import ExpectedGain, Finished, Pass, Pause, Prefill, times_plain
from app.engine.expectation import expected_tokens

# One column of a course that is a rate: long enough to hold some passes, short enough to show a turn.
WINDOW_SECONDS = 0.5
# Of fewer drafts a position's share says nothing.
LEAST_DRAFTS = 10
# More columns than any place that draws a course has.
COURSE = 60

Phase = Literal["idle", "reading", "writing", "done"]
PlainSource = Literal["in this reply", "after this reply"]


@dataclass(frozen=True, slots=True)
class EngineState:
    """What the engine is about, beyond what a reply's own events tell.

    share: how much of `what` is there while loading, 0 to 1.
    """

    name: Literal["ready", "loading", "stopped"] = "ready"
    what: str = ""
    share: float = 0.0


READY = EngineState()


@dataclass(frozen=True, slots=True)
class PanelFigures:
    """One reply's figures so far. A property is None where there is nothing to compute it from.

    setting: what the person had on, settings that were changed in mid-reply one after another. used: the
    proposers of its passes; drafters: those that drafted. fixed_k: the draft length that the person chose;
    None: the controller chooses. next_up: what is on for the next reply and its fixed_k, where that differs.
    last_k, k_course: tokens drafted in the last pass, and in each of the last COURSE passes.
    acceptance_course, tokens_per_pass_course: of windows of WINDOW_SECONDS of decoding, the last COURSE
    of them; a window's acceptance is None where it drafted nothing.
    drafted_by_position, accepted_by_position: passes that drafted, and that accepted, at least 1, 2, ….
    alpha, expected: the acceptance rate that is the same at every position and makes what was seen
    likeliest, and the tokens per pass that follow from it (see `expected_tokens`).
    replayed: tokens that were read again behind rejected drafts, as the memory cannot be cut.
    read, to_read, known: tokens of the prompt that are in the cache, that must be there before the first
    pass (all but the last one), and that were there before; again: how
    many more were, and are read again for the same reason. prompt: all of them, None before it is known.
    prefill_seconds, seed: None before the reply's end. values, pause: what the controller expected of each
    proposer before the last pass, and why it asked none.
    """

    setting: str = "off"
    used: tuple[str, ...] = ()
    drafters: tuple[str, ...] = ()
    fixed_k: int | None = None
    next_up: tuple[str, int | None] | None = None
    phase: Phase = "idle"
    passes: int = 0
    drafted: int = 0
    accepted: int = 0
    kept: int = 0
    last_k: int | None = None
    k_course: tuple[int, ...] = ()
    acceptance_course: tuple[float | None, ...] = ()
    tokens_per_pass_course: tuple[float, ...] = ()
    drafted_by_position: tuple[int, ...] = ()
    accepted_by_position: tuple[int, ...] = ()
    alpha: float | None = None
    expected: float | None = None
    decode_seconds: float = 0.0
    model_seconds: float = 0.0
    replayed: int = 0
    plain_seconds: float | None = None
    plain_source: PlainSource | None = None
    read: int = 0
    to_read: int = 0
    known: int = 0
    again: int = 0
    prompt: int | None = None
    prefill_seconds: float | None = None
    seed: int | None = None
    values: tuple[ExpectedGain, ...] = ()
    pause: Pause | None = None

    @property
    def plain(self) -> bool:
        """Whether it is plain decoding by choice."""
        return self.setting == "off"

    @property
    def proposer(self) -> str:
        """The proposer that the figures are mainly of."""
        return (*self.drafters, *self.used, self.setting)[0]

    @property
    def mostly_again(self) -> bool:
        """Whether most of what has to be read of the prompt was known."""
        return 2 * self.again > self.to_read - self.known

    @property
    def acceptance_rate(self) -> float | None:
        return self.accepted / self.drafted if self.drafted else None

    @property
    def tokens_per_pass(self) -> float | None:
        """Committed tokens per pass: the accepted ones, and one of the pass's own."""
        return (self.passes + self.accepted) / self.passes if self.passes else None

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens that the reply kept, per second of decoding."""
        return self.kept / self.decode_seconds if self.decode_seconds else None

    @property
    def plain_tokens_per_second(self) -> float | None:
        return 1 / self.plain_seconds if self.plain_seconds else None

    @property
    def speedup(self) -> float | None:
        """See `times_plain`."""
        return times_plain(self.used, self.drafted, self.tokens_per_second, self.plain_seconds)

    @property
    def host_seconds_per_pass(self) -> float | None:
        """Time of a pass outside the models: proposing, verification, rollback, text."""
        return (self.decode_seconds - self.model_seconds) / self.passes if self.passes else None

    @property
    def host_share(self) -> float | None:
        """That time's share in decoding."""
        if not self.decode_seconds:
            return None
        return (self.decode_seconds - self.model_seconds) / self.decode_seconds

    @property
    def by_position(self) -> tuple[tuple[int, int], ...]:
        """For position 1, 2, …: passes that accepted so far, and passes that drafted so far, as long as
        these are LEAST_DRAFTS."""
        pairs = zip(self.accepted_by_position, self.drafted_by_position, strict=True)
        return tuple(pair for pair in pairs if pair[1] >= LEAST_DRAFTS)


class LiveFigures:
    """Takes the events of a reply one by one; `snapshot` gives the figures so far.

    `begin` starts the next reply. `record` costs a few counts, as there may be hundreds a second.
    """

    def __init__(self, proposer: str = "off", k: int | None = None) -> None:
        self.begin(k, proposer)
        self._phase: Phase = "idle"

    def begin(self, k: int | None, proposer: str) -> None:
        """A reply was asked for."""
        self._phase = "reading"
        self._fixed_k = k
        self._settings = [proposer]
        self._next = proposer, k
        self._used: tuple[str, ...] = ()
        self._drafters: tuple[str, ...] = ()
        self._prefill: Prefill | None = None
        self._finished: Finished | None = None
        self._passes = self._drafted = self._accepted = self._rejections = self._kept = 0
        self._replayed = 0
        self._draft_lengths: Counter[int] = Counter()
        self._accepted_lengths: Counter[int] = Counter()
        self._decode_seconds = self._model_seconds = 0.0
        self._plain_seconds: float | None = None
        self._values: tuple[ExpectedGain, ...] = ()
        self._pause: Pause | None = None
        self._k_course: deque[int] = deque(maxlen=COURSE)
        self._acceptance_course: deque[float | None] = deque(maxlen=COURSE)
        self._tokens_per_pass_course: deque[float] = deque(maxlen=COURSE)
        self._window = _Window()

    def choose(self, k: int | None, proposer: str) -> None:
        """What is on from the next pass on, or behind a reply from the next one on; the figures stay."""
        self._next = proposer, k
        if self._phase == "done":
            return
        self._fixed_k = k
        if not self._passes:
            self._settings = [proposer]
        elif self._settings[-1] != proposer:
            self._settings.append(proposer)

    def prefill(self, event: Prefill) -> None:
        """A part of the prompt was read."""
        self._prefill = event

    def record(self, entry: Pass) -> None:
        """A pass was made."""
        drafted = len(entry.drafted)
        self._phase = "writing"
        if entry.proposer not in self._used:
            self._used += (entry.proposer,)
        if drafted and entry.proposer not in self._drafters:
            self._drafters += (entry.proposer,)
        self._passes += 1
        self._drafted += drafted
        self._accepted += entry.accepted
        self._rejections += entry.accepted < drafted
        self._kept += len(entry.tokens)
        self._replayed += entry.replayed
        self._draft_lengths[drafted] += 1
        self._accepted_lengths[entry.accepted] += 1
        self._k_course.append(drafted)
        self._values, self._pause = entry.values, entry.pause
        self._decode_seconds += entry.seconds
        self._model_seconds += entry.target_seconds + entry.proposer_seconds
        self._window.add(drafted, entry.accepted, entry.seconds)
        if self._window.seconds >= WINDOW_SECONDS:
            self._acceptance_course.append(self._window.acceptance_rate)
            self._tokens_per_pass_course.append(self._window.tokens_per_pass)
            self._window = _Window()

    def measured(self, plain_seconds: float | None) -> None:
        """What plain decoding would have taken for a token so far, None where that is not known."""
        self._plain_seconds = plain_seconds

    def finish(self, finished: Finished) -> None:
        """The reply has ended: its record knows what the passes could not."""
        self._phase = "done"
        self._finished = finished
        self._used = tuple(finished.by_proposer)
        # A stop string can cut tokens that an earlier pass had kept.
        self._kept = len(finished.token_ids)

    def stop(self) -> None:
        """The reply ends without a record: the engine failed. What was counted stays."""
        self._phase = "done" if self._passes else "idle"

    def snapshot(self) -> PanelFigures:
        """The figures so far."""
        finished, prefill = self._finished, self._prefill
        alpha = _alpha(self._accepted, self._rejections)
        plain_seconds, plain_source = self._plain_speed()
        return PanelFigures(
            setting=", ".join(self._settings),
            used=self._used,
            drafters=self._drafters,
            fixed_k=self._fixed_k,
            next_up=None if self._next == (self._settings[-1], self._fixed_k) else self._next,
            phase=self._phase,
            passes=self._passes,
            drafted=self._drafted,
            accepted=self._accepted,
            kept=self._kept,
            last_k=self._k_course[-1] if self._k_course else None,
            k_course=tuple(self._k_course),
            acceptance_course=tuple(self._acceptance_course),
            tokens_per_pass_course=tuple(self._tokens_per_pass_course),
            drafted_by_position=_at_least(self._draft_lengths, max(self._draft_lengths, default=0)),
            accepted_by_position=_at_least(self._accepted_lengths, max(self._draft_lengths, default=0)),
            alpha=alpha,
            expected=self._expected(alpha),
            decode_seconds=self._decode_seconds,
            model_seconds=self._model_seconds,
            plain_seconds=plain_seconds,
            plain_source=plain_source,
            read=prefill.done if prefill else 0,
            to_read=prefill.total if prefill else 0,
            known=prefill.cached if prefill else 0,
            again=prefill.again if prefill else 0,
            replayed=self._replayed,
            values=self._values,
            pause=self._pause,
            prompt=prefill.total + 1 if prefill else None,
            prefill_seconds=finished.prefill_seconds if finished else None,
            seed=finished.seed if finished else None,
        )

    def _plain_speed(self) -> tuple[float | None, PlainSource | None]:
        """Seconds of a token by plain decoding, and where plain passes were timed."""
        before = self._plain_seconds
        seconds = before if self._finished is None else self._finished.plain_seconds
        if seconds is None:
            return None, None
        return seconds, "after this reply" if before is None else "in this reply"

    def _expected(self, alpha: float | None) -> float | None:
        """Mean over the passes; the many passes of one draft length are weighed at once."""
        if not self._passes:
            return None
        total = sum(count * expected_tokens(alpha or 0.0, k) for k, count in self._draft_lengths.items())
        return total / self._passes


class _Window:
    """The passes of one column of a course."""

    __slots__ = ("accepted", "drafted", "passes", "seconds")

    def __init__(self) -> None:
        self.passes = self.drafted = self.accepted = 0
        self.seconds = 0.0

    def add(self, drafted: int, accepted: int, seconds: float) -> None:
        self.passes += 1
        self.drafted += drafted
        self.accepted += accepted
        self.seconds += seconds

    @property
    def acceptance_rate(self) -> float | None:
        return self.accepted / self.drafted if self.drafted else None

    @property
    def tokens_per_pass(self) -> float:
        return (self.passes + self.accepted) / self.passes


def _alpha(accepted: int, rejections: int) -> float | None:
    """The likeliest α: each drafted token that was judged either survived or ended its draft."""
    judged = accepted + rejections
    return accepted / judged if judged else None


def _at_least(lengths: Counter[int], longest: int) -> tuple[int, ...]:
    """How many passes reached a length of at least 1, 2, …, longest."""
    reached: list[int] = []
    total = 0
    for length in range(longest, 0, -1):
        total += lengths[length]
        reached.append(total)
    return tuple(reversed(reached))
