"""What a comparison of proposers found: a value, and the same as Markdown, JSON and lines of a table."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from app.chat.gate import clean
from app.engine.settings import Sampling
from app.process.messages import Compared, Divergence

# How a reply's text stands to that of the first reply.
Outcome = Literal["first", "identical", "differs", "sample", "stopped", "failed"]
# What the speedup is measured against: the row "off", or the plain pass timed outside the comparison.
Baseline = Literal["compared", "calibrated"]

HEADINGS = ("proposer", "tok/s", "speedup", "tokens/pass", "acceptance", "reply")
_WIDTHS = (8, 7, 9, 13, 12)
_NOTHING = "–"
# These draw the same token for the same seed, as they draw nothing of their own.
_DETERMINISTIC = ("off", "lookup")


@dataclass(frozen=True, slots=True)
class Row:
    """One proposer's reply. None where a figure was not measured; problem: why it could not run."""

    proposer: str
    tokens: int | None
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
    """A comparison. plain_tokens_per_second: plain decoding's rate; baseline says where it was measured."""

    title: str
    model: str
    seed: int
    sampling: Sampling
    plain_tokens_per_second: float | None
    baseline: Baseline | None
    rows: tuple[Row, ...]


def build(title: str, model: str, seed: int, sampling: Sampling, compared: Sequence[Compared]) -> Report:
    """The report of the replies so far, in their order. Text that is not ours comes out clean."""
    plain, baseline = _plain_rate(compared)
    first = next((each.proposer for each in compared if each.finished is not None), None)
    rows = tuple(_row(each, first, sampling.temperature > 0, plain, baseline) for each in compared)
    return Report(_line(title), _line(model), seed, sampling, plain, baseline, rows)


def cells(row: Row) -> tuple[str, ...]:
    """A row's texts, in the order of HEADINGS."""
    return (
        row.proposer,
        rate(row.tokens_per_second),
        speedup(row.speedup),
        _NOTHING if row.tokens_per_pass is None else f"{row.tokens_per_pass:.2f}",
        _NOTHING if row.acceptance_rate is None else f"{row.acceptance_rate:.0%}".replace("%", " %"),
        _brief(row),
    )


def line(texts: Sequence[str]) -> str:
    """One line of the table: the name to the left, figures to the right, then what is said of the reply."""
    name, *figures, said = texts
    short = name if len(name) <= _WIDTHS[0] else name[: _WIDTHS[0] - 1] + "…"
    numbers = "".join(text.rjust(width) for text, width in zip(figures, _WIDTHS[1:], strict=True))
    return f"{short.ljust(_WIDTHS[0])}{numbers}  {said}"


def rate(value: float | None) -> str:
    """Tokens per second as text; a dash where there is none."""
    return _NOTHING if value is None else f"{value:.1f}"


def speedup(value: float | None) -> str:
    """A factor as text; a dash where there is none."""
    return _NOTHING if value is None else f"{value:.2f}×"


def settings(report: Report) -> str:
    """Model, temperature and seed in one line."""
    return f"{report.model} · temperature {report.sampling.temperature:g} · seed {report.seed}"


def basis(report: Report) -> str:
    """A sentence that says what the speedups are measured against."""
    if report.plain_tokens_per_second is None:
        return "Plain decoding was not measured, so no speedup is known."
    where = " in this comparison" if report.baseline == "compared" else ", timed beforehand"
    return f"Speedup is against plain decoding: {rate(report.plain_tokens_per_second)} tok/s{where}."


def notes(report: Report) -> tuple[str, ...]:
    """What the table has no room for: partings and problems row by row, then the remarks."""
    said = (f"{row.proposer} {verdict(row)}" for row in report.rows if row.outcome in ("differs", "failed"))
    return (*said, *remarks(report))


def remarks(report: Report) -> tuple[str, ...]:
    """How to read what was found, in sentences."""
    said = []
    partings = [row.divergence for row in report.rows if row.outcome == "differs" and row.divergence]
    if any(parting.gap is not None for parting in partings):
        said.append("A small gap is a near tie that rounding decided; exact mode rules it out.")
    sampled = ", ".join(row.proposer for row in report.rows if row.outcome == "sample")
    if sampled:
        said.append(f"{sampled}: another sample of the same distribution, lawful above temperature 0.")
    return tuple(said)


def verdict(row: Row) -> str:
    """What is said of a reply's text, in full. Tokens are counted from 1."""
    if row.outcome == "differs" and row.divergence is not None:
        parting = row.divergence
        gap = "" if parting.gap is None else f", logit gap {parting.gap:.2g}"
        texts = f"{_token(parting.first)} or {_token(parting.this)}"
        return f"differs from token {parting.position + 1} on ({texts}{gap})"
    if row.outcome == "failed":
        return f"could not run: {row.problem or 'no reason was given.'}"
    return {
        "first": "the others are compared with it",
        "identical": "identical",
        "sample": "another sample of the same distribution",
        "stopped": f"stopped after {row.tokens} tokens, identical so far",
    }.get(row.outcome, _NOTHING)


def as_markdown(report: Report) -> str:
    """The report as a Markdown section with one table."""
    sampling = report.sampling
    said = (
        f"temperature {sampling.temperature:g}, top-k {sampling.top_k}, top-p {sampling.top_p:g}, "
        f"min-p {sampling.min_p:g}, repeat penalty {sampling.repeat_penalty:g}, seed {report.seed}"
    )
    lines = [
        f"## {_escaped(report.title)}",
        "",
        f"Model {_escaped(report.model)}; {said}.",
        "",
        "| proposer | tokens | tok/s | speedup | tokens/pass | acceptance | reply |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for row in report.rows:
        name, *figures, _ = cells(row)
        tokens = _NOTHING if row.tokens is None else str(row.tokens)
        texts = (_escaped(name), tokens, *figures, _escaped(verdict(row)))
        lines.append(f"| {' | '.join(texts)} |")
    closing = " ".join((basis(report), *remarks(report)))
    return "\n".join([*lines, "", _escaped(closing), ""])


def as_json(report: Report) -> str:
    """The report as one JSON object; null where a figure was not measured. Positions count from 0."""
    return json.dumps(_finite(asdict(report)), ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def _plain_rate(compared: Sequence[Compared]) -> tuple[float | None, Baseline | None]:
    finished = [(each.proposer, each.finished) for each in compared if each.finished is not None]
    for proposer, reply in finished:
        if proposer == "off" and reply.tokens_per_second:
            return reply.tokens_per_second, "compared"
    for _, reply in finished:
        if reply.plain_seconds:
            return 1 / reply.plain_seconds, "calibrated"
    return None, None


def _row(
    compared: Compared, first: str | None, sampled: bool, plain: float | None, baseline: Baseline | None
) -> Row:
    name, reply = _line(compared.proposer), compared.finished
    problem = None if compared.problem is None else _line(compared.problem)
    if reply is None:
        return Row(name, None, None, None, None, None, None, "failed", None, problem)
    speed = reply.tokens_per_second
    faster = reply.speedup
    if baseline == "compared" and plain is not None:
        faster = None if speed is None else speed / plain
    return Row(
        name,
        len(reply.token_ids),
        speed,
        faster,
        reply.tokens_per_pass,
        reply.acceptance_rate,
        reply.prefill_seconds,
        _outcome(compared, first, sampled),
        _cleaned(compared.divergence),
        problem,
    )


def _outcome(compared: Compared, first: str | None, sampled: bool) -> Outcome:
    parting, reply = compared.divergence, compared.finished
    # What was stopped is shorter than the first reply: that is no parting of the texts.
    cut = reply is not None and reply.reason == "cancelled"
    if cut and (parting is None or (reply is not None and parting.position >= len(reply.token_ids))):
        return "stopped"
    if parting is not None:
        drew_alike = compared.proposer in _DETERMINISTIC and first in _DETERMINISTIC
        return "sample" if sampled and not drew_alike else "differs"
    return "first" if compared.proposer == first else "identical"


def _brief(row: Row) -> str:
    if row.outcome == "differs" and row.divergence is not None:
        return f"differs from token {row.divergence.position + 1}"
    if row.outcome == "stopped":
        return f"stopped at token {row.tokens}"
    return {"sample": "another sample", "failed": "could not run"}.get(row.outcome, row.outcome)


def _cleaned(parting: Divergence | None) -> Divergence | None:
    if parting is None:
        return None
    return Divergence(parting.position, clean(parting.first), clean(parting.this), parting.gap)


def _line(text: str) -> str:
    return " ".join(clean(text).split())


def _token(text: str) -> str:
    """A token's text in quotes, its line ends and tabs visible. The end of a reply has no text."""
    return f"“{text.replace(chr(10), '↵').replace(chr(9), '⇥')}”" if text else "the end"


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>|#~])", r"\\\1", text)


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
