"""What a comparison of proposers found, over one round or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median, median_low
from typing import Any, Literal

from app.engine.events import Finished, times_plain
from app.engine.settings import Sampling
from app.process.events import Compared, Divergence
from app.text import clean

# How a reply compares with the first one.
Outcome = Literal["first", "identical", "differs", "sample", "stopped", "failed"]

# For the same seed these give the same tokens, as they draw none themselves.
_DETERMINISTIC = ("off", "lookup")
_MEDIANS = ("tokens_per_second", "speedup", "tokens_per_pass", "acceptance_rate", "prefill_seconds")
# Of several outcomes the last of these is the one to tell.
_SEVERITY: tuple[Outcome, ...] = ("first", "identical", "stopped", "sample", "differs", "failed")


@dataclass(frozen=True, slots=True)
class ReportRow:
    """One proposer's reply. None where a figure was not measured; problem: why it could not run.

    drafted: tokens. Only plain decoding has a speedup without drafting: that of others would be noise.
    """

    proposer: str
    tokens: int | None = None
    drafted: int | None = None
    tokens_per_second: float | None = None
    speedup: float | None = None
    tokens_per_pass: float | None = None
    acceptance_rate: float | None = None
    prefill_seconds: float | None = None
    outcome: Outcome = "failed"
    divergence: Divergence | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """A comparison.

    plain_tokens_per_second: of plain decoding, made in turn with the others; speedups are over it. rounds:
    how often each proposer answered; figures of more than one are medians.
    """

    title: str
    model: str
    seed: int
    sampling: Sampling
    plain_tokens_per_second: float | None
    rows: tuple[ReportRow, ...]
    rounds: int = 1


def build(title: str, model: str, seed: int, sampling: Sampling, compared: Sequence[Compared]) -> Report:
    """The report of the replies so far, in their order. Text that is not ours comes out clean."""
    first = next((each.proposer for each in compared if each.finished is not None), None)
    own = (each.finished.tokens_per_second for each in compared if each.proposer == "off" and each.finished)
    plain = next(own, None)
    rows = tuple(_row(each, first, sampling.temperature > 0, plain) for each in compared)
    return Report(_line(title), _line(model), seed, sampling, plain, rows)


def over_rounds(reports: Sequence[Report]) -> Report:
    """One report of several of the same proposers in the same order: each figure's median.

    A reply that differs in any round differs, and where it first does is told.
    """
    rows = tuple(_over_rounds(rows) for rows in zip(*(report.rows for report in reports), strict=True))
    plain = _median([report.plain_tokens_per_second for report in reports])
    return replace(reports[0], plain_tokens_per_second=plain, rows=rows, rounds=len(reports))


def _over_rounds(rows: Sequence[ReportRow]) -> ReportRow:
    medians: dict[str, Any] = {name: _median([getattr(row, name) for row in rows]) for name in _MEDIANS}
    tokens = [row.tokens for row in rows if row.tokens is not None]
    drafted = [row.drafted for row in rows if row.drafted is not None]
    return replace(
        max(rows, key=lambda row: _SEVERITY.index(row.outcome)),
        tokens=median_low(tokens) if tokens else None,
        drafted=sum(drafted) if drafted else None,
        **medians,
    )


def _median(values: Sequence[float | None]) -> float | None:
    measured = [value for value in values if value is not None]
    return median(measured) if measured else None


def _row(compared: Compared, first: str | None, sampled: bool, plain: float | None) -> ReportRow:
    name, reply = _line(compared.proposer), compared.finished
    problem = None if compared.problem is None else _line(compared.problem)
    if reply is None:
        return ReportRow(name, problem=problem)
    divergence = compared.divergence
    if divergence is not None:
        divergence = replace(divergence, first=clean(divergence.first), this=clean(divergence.this))
    return ReportRow(
        name,
        tokens=len(reply.token_ids),
        drafted=reply.drafted,
        tokens_per_second=reply.tokens_per_second,
        speedup=times_plain((name,), reply.drafted, reply.tokens_per_second, 1 / plain if plain else None),
        tokens_per_pass=reply.tokens_per_pass,
        acceptance_rate=reply.acceptance_rate,
        prefill_seconds=reply.prefill_seconds,
        outcome=_outcome(compared, reply, first, sampled),
        divergence=divergence,
        problem=problem,
    )


def _outcome(compared: Compared, reply: Finished, first: str | None, sampled: bool) -> Outcome:
    if compared.divergence is not None:
        drew_alike = compared.proposer in _DETERMINISTIC and first in _DETERMINISTIC
        return "sample" if sampled and not drew_alike else "differs"
    if reply.reason == "cancelled":
        return "stopped"
    return "first" if compared.proposer == first else "identical"


def _line(text: str) -> str:
    return " ".join(clean(text).split())
