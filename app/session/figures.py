"""The figures of the speculation panel, counted from the events of one reply.

No figure is smoothed: each equals the one that anybody recomputes from the event log.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, replace
from typing import Literal

from app.engine.counts import Counts
from app.engine.events import ExpectedGain, Finished, Pass, Pause, Prefill, Totals
from app.engine.expectation import expected_tokens

# One column of a sparkline: long enough to hold some passes, short enough to show a turn.
WINDOW_SECONDS = 0.5
# The rate of a position is shown once it was drafted this often.
LEAST_DRAFTS = 10
# More columns than the widest sparkline has.
COLUMNS = 60

Phase = Literal["idle", "reading", "writing", "done"]
PlainSource = Literal["in this reply", "after this reply"]


@dataclass(frozen=True, slots=True)
class EngineState:
    """What the engine is doing, beyond the events of a reply. share: how much of `what` is loaded, 0 to 1."""

    name: Literal["ready", "loading", "stopped"] = "ready"
    what: str = ""
    share: float = 0.0


READY = EngineState()


@dataclass(frozen=True, slots=True)
class PanelFigures(Totals):
    """The figures of one reply so far. A property is None where there is nothing to compute it from.

    setting: the proposer that the person chose; several where it was changed during the reply. drafters: the
    proposers that drafted. fixed_k: the draft length that the person chose; None: the controller chooses.
    next_up: the proposer and fixed_k of the next reply, where they differ.
    acceptance_history, tokens_per_pass_history: a value for each WINDOW_SECONDS of decoding, the last
    COLUMNS of them; an acceptance is None where nothing was drafted.
    prompt: tokens of the prompt. to_read: those that must be in the cache before the first pass (all but the
    last). read: those that are there. known: those that were there before. again: those that were there too,
    but are read again, as the memory cannot be cut. values, pause: what the controller expected of each
    proposer before the last pass, and why it asked none.
    """

    setting: str = "off"
    drafters: tuple[str, ...] = ()
    fixed_k: int | None = None
    next_up: tuple[str, int | None] | None = None
    phase: Phase = "idle"
    acceptance_history: tuple[float | None, ...] = ()
    tokens_per_pass_history: tuple[float, ...] = ()
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
        """Whether the person chose plain decoding."""
        return self.setting == "off"

    @property
    def proposer(self) -> str:
        """The proposer that most figures are about."""
        return (*self.drafters, *self.by_proposer, self.setting)[0]

    @property
    def mostly_again(self) -> bool:
        """Whether most of the prompt that is being read was known."""
        return 2 * self.again > self.to_read - self.known

    @property
    def host_share(self) -> float | None:
        """The share of decoding that was spent outside models."""
        if not self.decode_seconds:
            return None
        return (self.decode_seconds - self.model_seconds) / self.decode_seconds

    @property
    def last_k(self) -> int | None:
        """Tokens drafted in the last pass."""
        return self.k_history[-1] if self.k_history else None

    @property
    def drafted_by_position(self) -> tuple[int, ...]:
        """Passes that drafted at least 1, 2, … tokens."""
        lengths = Counter(self.k_history)
        longest = max(lengths, default=0)
        return tuple(sum(lengths[k] for k in range(n, longest + 1)) for n in range(1, longest + 1))

    @property
    def by_position(self) -> tuple[tuple[int, int], ...]:
        """For position 1, 2, …: passes that accepted so far, and passes that drafted so far, as long as the
        latter are LEAST_DRAFTS."""
        pairs = zip(self.accepted_by_position, self.drafted_by_position, strict=True)
        return tuple(pair for pair in pairs if pair[1] >= LEAST_DRAFTS)

    @property
    def alpha(self) -> float | None:
        """The likeliest rate of acceptance, if it is the same at every position: each drafted token that was
        judged was either accepted, or ended its draft."""
        judged = self.accepted + self.rejections
        return self.accepted / judged if judged else None

    @property
    def expected(self) -> float | None:
        """Tokens per pass that follow from alpha and the draft lengths (see `expected_tokens`)."""
        if not self.passes:
            return None
        lengths = Counter(self.k_history)
        total = sum(count * expected_tokens(self.alpha or 0.0, k) for k, count in lengths.items())
        return total / self.passes


class LiveFigures:
    """Takes the events of a reply one by one; `snapshot` gives the figures so far.

    `begin` starts the next reply. `record` costs a few counts, as there may be hundreds of passes a second.
    used: tokens of the context that the conversation takes, None where that is not known.
    """

    def __init__(self, proposer: str = "off", k: int | None = None, used: int | None = None) -> None:
        self.used = used
        self.begin(k, proposer)
        self._phase: Phase = "idle"

    def begin(self, k: int | None, proposer: str) -> None:
        """A reply was asked for."""
        self._phase = "reading"
        self._fixed_k = k
        self._settings = [proposer]
        self._next = proposer, k
        self._counts, self._window = Counts(), Counts()
        self._drafters: dict[str, None] = {}
        self._values: tuple[ExpectedGain, ...] = ()
        self._pause: Pause | None = None
        self._windows: deque[Totals] = deque(maxlen=COLUMNS)
        # What changes less often than with every pass.
        self._slow = PanelFigures()

    def choose(self, k: int | None, proposer: str) -> None:
        """Another proposer or draft length, from the next pass on; after a reply, for the next one."""
        self._next = proposer, k
        if self._phase == "done":
            return
        self._fixed_k = k
        if not self._counts.passes:
            self._settings = [proposer]
        elif self._settings[-1] != proposer:
            self._settings.append(proposer)

    def prefill(self, event: Prefill) -> None:
        """A part of the prompt was read."""
        self._slow = replace(
            self._slow,
            read=event.done,
            to_read=event.total,
            known=event.cached,
            again=event.again,
            prompt=event.total + 1,
        )
        self.used = event.total + 1

    def record(self, entry: Pass) -> None:
        """A pass was made."""
        self._phase = "writing"
        self._counts.record(entry)
        self.used = (self.used or 0) + len(entry.tokens)
        if entry.drafted:
            self._drafters[entry.proposer] = None
        self._values, self._pause = entry.values, entry.pause
        self._window.record(entry)
        if self._window.decode_seconds >= WINDOW_SECONDS:
            self._windows.append(Totals(**self._window.totals()))
            self._window = Counts()

    def measured(self, plain_seconds: float | None) -> None:
        """What plain decoding would have taken for a token so far, None where that is not known."""
        source: PlainSource | None = None if plain_seconds is None else "in this reply"
        self._slow = replace(self._slow, plain_seconds=plain_seconds, plain_source=source)

    def finish(self, finished: Finished) -> None:
        """The reply has ended: its record knows what the passes could not."""
        self._phase = "done"
        # A stop string can cut tokens that an earlier pass kept.
        self._counts.kept = finished.kept
        self._counts.by_proposer = finished.by_proposer
        # The last token has not been read yet: where the reply filled the context it is one too many.
        self.used = finished.prompt_tokens + finished.kept - (finished.reason == "context")
        source = None if finished.plain_seconds is None else self._slow.plain_source or "after this reply"
        self._slow = replace(
            self._slow,
            plain_seconds=finished.plain_seconds,
            plain_source=source,
            prefill_seconds=finished.prefill_seconds,
            seed=finished.seed,
        )

    def stop(self) -> None:
        """The reply ends without a record: the engine failed. What was counted stays."""
        self._phase = "done" if self._counts.passes else "idle"

    def snapshot(self) -> PanelFigures:
        """The figures so far."""
        return replace(
            self._slow,
            **self._counts.totals(),
            setting=", ".join(self._settings),
            drafters=tuple(self._drafters),
            fixed_k=self._fixed_k,
            next_up=None if self._next == (self._settings[-1], self._fixed_k) else self._next,
            phase=self._phase,
            acceptance_history=tuple(each.acceptance_rate for each in self._windows),
            tokens_per_pass_history=tuple(each.tokens_per_pass or 0.0 for each in self._windows),
            values=self._values,
            pause=self._pause,
        )
