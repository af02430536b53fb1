"""Replies of every proposer to the same prompts, and reports of their medians: what compare runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from app.assembly.assembly import Assembly
from app.bench.workbench import calibrate
from app.commands.status import StatusLine
from app.engine.control import Controller
from app.engine.events import Prefill, ProposerDropped, Request
from app.errors import SpecchatError
from app.oneshot import show_prefill
from app.process.comparison import BlockwiseComparison
from app.process.events import Compared
from app.process.report import Report, build, over_rounds
from proposers.base import Proposer

_CALIBRATION_SECONDS = 2.0
# What the speedups are measured against, and what the other replies are compared with.
PLAIN = "off"


@dataclass(frozen=True, slots=True)
class ComparedReply:
    """One reply: its round, counted from 0, and the title of its prompt."""

    round: int
    title: str
    compared: Compared


class Comparer:
    """Answers each prompt with every proposer, round after round."""

    def __init__(
        self,
        assembly: Assembly,
        wanted: Sequence[str],
        required: Collection[str],
        request: Request,
        needed: int,
    ) -> None:
        """wanted: proposers by name, plain decoding first. request: of all replies, but for the prompt.
        needed: tokens that the context should hold.

        Raises SpecchatError where one that is required cannot be loaded; see `problems` for the others.
        """
        self._assembly = assembly
        self._request = request
        self._engine = assembly.engine(PLAIN, needed)
        # No round learns from another: each begins with twins of these.
        self._engine.controller = Controller()
        calibrate(self._engine, _CALIBRATION_SECONDS)
        self.capacity = self._engine.target.capacity
        # Why a proposer could not be loaded, by its name.
        self.problems: dict[str, str] = {}
        self._proposers: dict[str, Sequence[Proposer]] = {}
        for name in wanted:
            try:
                self._proposers[name] = assembly.proposers.choose(name)
            except SpecchatError as error:
                if name in required:
                    raise
                self.problems[name] = str(error)
        self.names = tuple(self._proposers)

    def runs(self, prompts: Mapping[str, tuple[int, ...]], rounds: int) -> Iterator[ComparedReply]:
        """Every reply, until the assembly is told to stop; those to one prompt are made block by block.

        prompts: tokens by title.
        """
        for number in range(rounds):
            for title, tokens in prompts.items():
                for compared in self._turn(tokens):
                    if self._engine.target.stop():
                        return
                    yield ComparedReply(number, title, compared)
                if self._engine.target.stop():
                    return

    def _turn(self, prompt: tuple[int, ...]) -> Iterator[Compared]:
        """A reply of each proposer."""
        line = StatusLine()
        replies = {name: self._engine.fork(self._proposers[name]) for name in self.names}
        request = replace(self._request, prompt=prompt)
        for event in BlockwiseComparison(0, self._engine, replies, request, self._fail).run():
            if isinstance(event, Prefill):
                show_prefill(line, event)
                continue
            line.clear()
            if isinstance(event, Compared):
                yield event

    def _fail(self, event: ProposerDropped) -> str:
        # The replies that follow would be another proposer's.
        raise SpecchatError(self._assembly.proposers.drop(event))


def reports(
    runs: Sequence[ComparedReply],
    names: Sequence[str],
    problems: Mapping[str, str],
    model: str,
    request: Request,
) -> tuple[Report, ...]:
    """A report for each prompt, medians over its rounds; where there are several, then one of them all.

    names: all proposers, in the order of the rows. A turn that was cut short before each proposer had
    answered is left out.
    """
    turns: dict[tuple[int, str], dict[str, Compared]] = {}
    for run in runs:
        turns.setdefault((run.round, run.title), {})[run.compared.proposer] = run.compared
    complete = {key: turn for key, turn in turns.items() if len(turn) + len(problems) == len(names)}
    failed = {name: Compared(0, name, None, None, problem) for name, problem in problems.items()}

    def report(title: str, turn: Mapping[str, Compared]) -> Report:
        replies = [{**turn, **failed}[name] for name in names]
        return build(title, model, request.seed, request.sampling, replies)

    by_title: dict[str, list[Report]] = {}
    by_round: dict[int, list[dict[str, Compared]]] = {}
    for (number, title), turn in complete.items():
        by_title.setdefault(title, []).append(report(title, turn))
        by_round.setdefault(number, []).append(turn)
    made = [over_rounds(found) for found in by_title.values()]
    if len(made) > 1:
        most = max(map(len, by_round.values()))
        summed = [sum_up(each) for each in by_round.values() if len(each) == most]
        together = over_rounds([report(f"All {most} prompts", turn) for turn in summed])
        # A place in one of the texts means nothing for all of them.
        rows = tuple(replace(row, divergence=None) for row in together.rows)
        made.append(replace(together, rows=rows))
    return tuple(made)


def sum_up(turns: Sequence[Mapping[str, Compared]]) -> dict[str, Compared]:
    """One round's replies to several prompts as one reply for each proposer: tokens, passes, seconds."""
    summed = {}
    for name, first in turns[0].items():
        replies = [turn[name] for turn in turns]
        finished = [each.finished for each in replies if each.finished is not None]
        parting = next((each.divergence for each in replies if each.divergence is not None), None)
        total = replace(
            finished[0],
            token_ids=tuple(token for each in finished for token in each.token_ids),
            kept=sum(each.kept for each in finished),
            passes=sum(each.passes for each in finished),
            drafted=sum(each.drafted for each in finished),
            accepted=sum(each.accepted for each in finished),
            prefill_seconds=sum(each.prefill_seconds for each in finished),
            decode_seconds=sum(each.decode_seconds for each in finished),
        )
        summed[name] = replace(first, finished=total, divergence=parting)
    return summed
