"""A comparison's report as lines of a table, as Markdown and as JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict

from app.process.report import Report, ReportRow

HEADINGS = ("proposer", "tok/s", "speedup", "tokens/pass", "acceptance", "reply")
_WIDTHS = (8, 7, 15, 12, 11)
_NOTHING = "–"


def cells(row: ReportRow) -> tuple[str, ...]:
    """A row's texts, in the order of HEADINGS."""
    return (
        row.proposer,
        rate(row.tokens_per_second),
        speedup(row),
        _NOTHING if row.tokens_per_pass is None else f"{row.tokens_per_pass:.2f}",
        _NOTHING if row.acceptance_rate is None else f"{row.acceptance_rate:.0%}".replace("%", " %"),
        _brief(row),
    )


def line(texts: Sequence[str]) -> str:
    """One line of the table: the name left-aligned, figures right-aligned, then a word on the reply."""
    name, *figures, said = texts
    short = name if len(name) <= _WIDTHS[0] else name[: _WIDTHS[0] - 1] + "…"
    numbers = "".join(text.rjust(width) for text, width in zip(figures, _WIDTHS[1:], strict=True))
    return f"{short.ljust(_WIDTHS[0])}{numbers}  {said}"


def rate(value: float | None) -> str:
    """Tokens per second as text; a dash where there is none."""
    return _NOTHING if value is None else f"{value:.1f}"


def speedup(row: ReportRow) -> str:
    """A row's speedup over plain decoding as text, or why it has none."""
    if row.speedup is None:
        return "never drafted" if row.drafted == 0 else _NOTHING
    return f"{row.speedup:.2f}×"


def settings(report: Report) -> str:
    """Model, temperature and seed in one line."""
    return f"{report.model} · temperature {report.sampling.temperature:g} · seed {report.seed}"


def basis(report: Report) -> str:
    """A sentence that says what the speedups are measured against."""
    if report.plain_tokens_per_second is None:
        return "Plain decoding was not measured, so no speedup is known."
    plain = rate(report.plain_tokens_per_second)
    said = f"Speedups are over plain decoding (off), made in turn: {plain} tok/s."
    return said if report.rounds == 1 else f"{said} Medians of {report.rounds} rounds."


def notes(report: Report) -> tuple[str, ...]:
    """What the table has no room for: differences and problems row by row, then the remarks."""
    said = (f"{row.proposer} {verdict(row)}" for row in report.rows if row.outcome in ("differs", "failed"))
    return (*said, *remarks(report))


def remarks(report: Report) -> tuple[str, ...]:
    """Sentences that explain the results."""
    said = []
    differing = [row.divergence for row in report.rows if row.outcome == "differs" and row.divergence]
    if any(each.gap is not None for each in differing):
        said.append("A small gap is a near tie that rounding decided; exact mode rules it out.")
    sampled = ", ".join(row.proposer for row in report.rows if row.outcome == "sample")
    if sampled:
        said.append(f"{sampled}: another sample of the same distribution, as expected above temperature 0.")
    return tuple(said)


def verdict(row: ReportRow) -> str:
    """How the reply compares with the first, in full. Tokens are counted from 1."""
    if row.outcome == "differs" and row.divergence is not None:
        at = row.divergence
        gap = "" if at.gap is None else f", logit gap {at.gap:.2g}"
        return f"differs from token {at.position + 1} on ({_token(at.first)} or {_token(at.this)}{gap})"
    if row.outcome == "differs":
        return "differs on some of the prompts"
    if row.outcome == "failed":
        return f"could not run: {row.problem or 'no reason was given.'}"
    return {
        "first": "the others are compared with it",
        "identical": "identical",
        "sample": "another sample of the same distribution",
        "stopped": f"stopped after {row.tokens} tokens",
    }.get(row.outcome, _NOTHING)


def as_text(report: Report) -> str:
    """The report for a terminal: title, settings, table and notes."""
    table = [line(HEADINGS), *(line(cells(row)) for row in report.rows)]
    return "\n".join([report.title, settings(report), "", *table, "", basis(report), *notes(report), ""])


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


def as_json(report: Report, prompts: Sequence[Report] = ()) -> str:
    """The report as one JSON object; null where a figure was not measured. Positions count from 0.

    prompts: the reports that it sums up, included under that name.
    """
    parts = {"prompts": list(map(asdict, prompts))} if prompts else {}
    told = _finite({**asdict(report), **parts})
    return json.dumps(told, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def _brief(row: ReportRow) -> str:
    if row.outcome == "differs" and row.divergence is not None:
        return f"differs at token {row.divergence.position + 1}"
    if row.outcome == "stopped":
        return f"stopped at token {row.tokens}"
    return {"sample": "another sample", "failed": "could not run"}.get(row.outcome, row.outcome)


def _token(text: str) -> str:
    """A token's text in quotes, with visible line ends and tabs. The end of a reply has no text."""
    return f"“{text.replace(chr(10), '↵').replace(chr(9), '⇥')}”" if text else "the end"


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>|#~])", r"\\\1", text)


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
