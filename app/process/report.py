"""What a comparison of proposers found: a value, and one made of the medians of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median, median_low
from typing import Literal

from app.chat.gate import clean
from app.engine.events import times_plain
from app.engine.settings import Sampling
from app.process.events import Compared, Divergence

# How a reply's text stands to that of the first reply.
Outcome = Literal["first", "identical", "differs", "sample", "stopped", "failed"]

# These draw the same token for the same seed, as they draw nothing of their own.
_DETERMINISTIC = ("off", "lookup")
# Of several outcomes the last of these is the one to tell.
_SEVERITY: tuple[Outcome, ...] = ("first", "identical", "stopped", "sample", "differs", "failed")


@dataclass(frozen=True, slots=True)
class Row:
    """One proposer's reply. None where a figure was not measured; problem: why it could not run.

    drafted: tokens. What drafted nothing has no speedup, which would be noise, but plain decoding's own.
    """

    proposer: str
    tokens: int | None
    drafted: int | None
    tokens_per_second: float | None
    speedup: float | None
    tokens_per_pass: float | None
    acceptance_rate: float | None
    prefill_seconds: float | None
    outcome: Outcome
    divergence: Divergence | None
    problem: str | None


@dataclass(frozen=True, slots=True)
class Report:
    """A comparison. plain_tokens_per_second: the rate of plain decoding's reply, which was made in turn with
    the others; speedups are over it.

    rounds: how often each proposer answered; figures of more than one are medians.
    """

    title: str
    model: str
    seed: int
    sampling: Sampling
    plain_tokens_per_second: float | None
    rows: tuple[Row, ...]
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

    A reply that parts in any round differs, and the first such parting is told.
    """
    rows = tuple(_merged(rows) for rows in zip(*(report.rows for report in reports), strict=True))
    plain = _median([report.plain_tokens_per_second for report in reports])
    return replace(reports[0], plain_tokens_per_second=plain, rows=rows, rounds=len(reports))


def _merged(rows: Sequence[Row]) -> Row:
    telling = max(rows, key=lambda row: _SEVERITY.index(row.outcome))
    tokens = [row.tokens for row in rows if row.tokens is not None]
    drafted = [row.drafted for row in rows if row.drafted is not None]
    return replace(
        telling,
        tokens=median_low(tokens) if tokens else None,
        drafted=sum(drafted) if drafted else None,
        tokens_per_second=_median([row.tokens_per_second for row in rows]),
        speedup=_median([row.speedup for row in rows]),
        tokens_per_pass=_median([row.tokens_per_pass for row in rows]),
        acceptance_rate=_median([row.acceptance_rate for row in rows]),
        prefill_seconds=_median([row.prefill_seconds for row in rows]),
    )


def _median(values: Sequence[float | None]) -> float | None:
    measured = [value for value in values if value is not None]
    return median(measured) if measured else None


def _row(compared: Compared, first: str | None, sampled: bool, plain: float | None) -> Row:
    name, reply = _line(compared.proposer), compared.finished
    problem = None if compared.problem is None else _line(compared.problem)
    if reply is None:
        return Row(name, None, None, None, None, None, None, None, "failed", None, problem)
    rate = reply.tokens_per_second
    speedup = times_plain((name,), reply.drafted, rate, 1 / plain if plain else None)
    return Row(
        name,
        len(reply.token_ids),
        reply.drafted,
        rate,
        speedup,
        reply.tokens_per_pass,
        reply.acceptance_rate,
        reply.prefill_seconds,
        _outcome(compared, first, sampled),
        _cleaned(compared.divergence),
        problem,
    )


def _outcome(compared: Compared, first: str | None, sampled: bool) -> Outcome:
    parting, reply = compared.divergence, compared.finished
    if reply is not None and reply.reason == "cancelled" and parting is None:
        return "stopped"
    if parting is not None:
        drew_alike = compared.proposer in _DETERMINISTIC and first in _DETERMINISTIC
        return "sample" if sampled and not drew_alike else "differs"
    return "first" if compared.proposer == first else "identical"


def _cleaned(parting: Divergence | None) -> Divergence | None:
    if parting is None:
        return None
    return Divergence(parting.position, clean(parting.first), clean(parting.this), parting.gap)


def _line(text: str) -> str:
    return " ".join(clean(text).split())
