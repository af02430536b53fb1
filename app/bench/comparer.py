"""Replies of every proposer to the same prompts, and reports of their medians: what compare runs."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from app.assembly import Assembly
from app.engine.control import Controller
from app.engine.events import Prefill, ProposerDropped, Request
from app.engine.settings import Sampling
from app.errors import SpecchatError
from app.oneshot import Progress
from app.process.comparison import Comparison
from app.process.messages import Compared
from app.process.report import Report, build, over_rounds
from proposers.base import Proposer

_CALIBRATION_SECONDS = 2.0
# What the speedups are measured against, and what the other replies are compared with.
PLAIN = "off"


@dataclass(frozen=True, slots=True)
class Case:
    """A prompt to compare on, as tokens."""

    title: str
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """One reply: its round and its case, counted from 0."""

    round: int
    case: int
    compared: Compared


@dataclass(frozen=True, slots=True)
class Terms:
    """What all replies have in common. tokens: at most so many each. k None: the controller's choice."""

    sampling: Sampling
    seed: int
    tokens: int
    k: int | None


class Comparer:
    """Answers each prompt with every proposer, again and again."""

    def __init__(
        self,
        assembly: Assembly,
        wanted: Sequence[str],
        required: Collection[str],
        terms: Terms,
        needed: int,
    ) -> None:
        """wanted: proposers by name, plain decoding first. needed: tokens that the context should hold.

        Raises SpecchatError where one that is required cannot be loaded; see `problems` for the others.
        """
        self._assembly = assembly
        self._terms = terms
        self._progress = Progress(shown=sys.stderr.isatty())
        self._engine = assembly.engine(PLAIN, needed)
        # No round learns from another: each begins with twins of these.
        self._engine.controller = Controller()
        self._engine.calibrate([max(assembly.target.bos, 0)], _CALIBRATION_SECONDS)
        self.capacity = self._engine.target.capacity
        # Why a proposer could not be loaded, by its name.
        self.problems: dict[str, str] = {}
        self._proposers: dict[str, Sequence[Proposer]] = {}
        for name in wanted:
            try:
                self._proposers[name] = assembly.proposers(name, self.capacity)
            except SpecchatError as error:
                if name in required:
                    raise
                self.problems[name] = str(error)
        self.names = tuple(self._proposers)

    def runs(self, cases: Sequence[Case], rounds: int) -> Iterator[Run]:
        """Every reply, until the assembly is told to stop; those to one prompt are made block by block."""
        for number in range(rounds):
            for place, case in enumerate(cases):
                for compared in self._turn(case):
                    if self._engine.target.stop():
                        return
                    yield Run(number, place, compared)
                if self._engine.target.stop():
                    return

    def _turn(self, case: Case) -> Iterator[Compared]:
        """A reply of each proposer."""
        terms = self._terms
        request = Request(case.tokens, terms.sampling, terms.seed, max_tokens=terms.tokens, k=terms.k)
        replies = {name: self._engine.fork(self._proposers[name]) for name in self.names}
        for event in Comparison(0, self._engine, replies, request, self._fail).run():
            if isinstance(event, Prefill):
                self._progress.prefill(event)
                continue
            self._progress.clear()
            if isinstance(event, Compared):
                yield event

    def _fail(self, event: ProposerDropped) -> str:
        # What follows would be the figures of another.
        raise SpecchatError(self._assembly.drop(event))


def reports(
    runs: Sequence[Run],
    titles: Sequence[str],
    names: Sequence[str],
    problems: Mapping[str, str],
    model: str,
    terms: Terms,
) -> tuple[Report, ...]:
    """A report for each case, medians over its rounds; where there are several, then one of them all.

    names: all proposers, in the order of the rows. A turn that was cut short before each proposer had
    answered is left out.
    """
    turns: dict[tuple[int, int], dict[str, Compared]] = {}
    for run in runs:
        turns.setdefault((run.round, run.case), {})[run.compared.proposer] = run.compared
    whole_turns = {key: turn for key, turn in turns.items() if len(turn) + len(problems) == len(names)}

    def report(title: str, turn: Mapping[str, Compared]) -> Report:
        failed = {name: Compared(0, name, None, None, problem) for name, problem in problems.items()}
        ordered = [{**turn, **failed}[name] for name in names]
        return build(title, model, terms.seed, terms.sampling, ordered)

    made = []
    for place, title in enumerate(titles):
        found = [report(title, turn) for (_, case), turn in whole_turns.items() if case == place]
        if found:
            made.append(over_rounds(found))
    by_round: dict[int, list[dict[str, Compared]]] = {}
    for (number, _), turn in whole_turns.items():
        by_round.setdefault(number, []).append(turn)
    if len(titles) > 1 and by_round:
        most = max(map(len, by_round.values()))
        summed = [summed_up(each) for each in by_round.values() if len(each) == most]
        together = over_rounds([report(f"All {most} prompts", turn) for turn in summed])
        # A place in one of the texts means nothing for all of them.
        rows = tuple(replace(row, divergence=None) for row in together.rows)
        made.append(replace(together, rows=rows))
    return tuple(made)


def summed_up(turns: Sequence[Mapping[str, Compared]]) -> dict[str, Compared]:
    """One round's replies to several prompts as one reply for each proposer: tokens, passes, seconds."""
    summed = {}
    for name, first in turns[0].items():
        replies = [turn[name] for turn in turns]
        finished = [each.finished for each in replies if each.finished is not None]
        parting = next((each.divergence for each in replies if each.divergence is not None), None)
        total = replace(
            finished[0],
            token_ids=tuple(token for each in finished for token in each.token_ids),
            passes=sum(each.passes for each in finished),
            drafted=sum(each.drafted for each in finished),
            accepted=sum(each.accepted for each in finished),
            prefill_seconds=sum(each.prefill_seconds for each in finished),
            decode_seconds=sum(each.decode_seconds for each in finished),
        )
        summed[name] = replace(first, finished=total, divergence=parting)
    return summed
