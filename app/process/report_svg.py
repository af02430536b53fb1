"""A comparison as bars of tokens per second in an SVG file."""

from __future__ import annotations

from html import escape

from rich.cells import cell_len, set_cell_size

from app.colours import DARK_PAGE, LIGHT_PAGE, LOOKS, Page
from app.process.report import Report, ReportRow
from app.process.report_text import basis, cells, rate, settings, speedup

# Sizes of the SVG in its own units.
_WIDTH, _MARGIN, _LEFT, _TOP, _STEP, _BAR = 760, 28, 112, 112, 36, 20
_FACTORS = _WIDTH - _MARGIN
_RATES = _FACTORS - 116
_ROOM = _RATES - 70 - _LEFT
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


def as_svg(report: Report) -> str:
    """The bars as a self-contained picture, with a background for light viewers and one for dark."""
    bottom = _TOP + _STEP * len(report.rows)
    width, height = _WIDTH, bottom + 66
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" font-family="{_FONT}" font-size="15">',
        f"<title>{_xml(report.title)}</title>",
        f"<desc>{_xml(_described(report))}</desc>",
        f"<style>{_rules(report)}</style>",
        f'<rect class="ground" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="10"/>',
        _text(_MARGIN, 42, fitted(report.title, 68), "text", size=19, weight=600),
        _text(_MARGIN, 67, fitted(settings(report), 96), "quiet", size=13),
        _text(_RATES, _TOP - 12, "tok/s", "quiet", size=12, anchor="end"),
        _text(_FACTORS, _TOP - 12, "speedup", "quiet", size=12, anchor="end"),
    ]
    most, plain = scale(report), report.plain_tokens_per_second
    for number, row in enumerate(report.rows):
        parts += _svg_row(row, _TOP + _STEP * number, most)
    if plain is not None:
        x = _LEFT + plain / most * _ROOM
        reach = f'x1="{x:.1f}" y1="{_TOP - 8}" x2="{x:.1f}" y2="{bottom - 6}"'
        parts += [f'<line class="halo" {reach}/>', f'<line class="mark" {reach}/>']
        parts.append(_text(x, bottom + 10, f"plain {rate(plain)}", "quiet", size=12, anchor="middle"))
    parts += [_text(_MARGIN, bottom + 44, basis(report), "quiet", size=12), "</svg>"]
    return "\n".join([*parts, ""])


def scale(report: Report) -> float:
    """The highest rate in the report; 1 where there is none."""
    speeds = [row.tokens_per_second or 0.0 for row in report.rows]
    return max([*speeds, report.plain_tokens_per_second or 0.0]) or 1.0


def _svg_row(row: ReportRow, y: int, most: float) -> list[str]:
    base = y + _BAR / 2 + 5
    name = _text(_LEFT - 14, base, fitted(row.proposer, 11), "text", anchor="end")
    if row.tokens_per_second is None:
        return [
            name,
            _text(_LEFT, base, "could not run" if row.problem else "not measured", "quiet", size=13),
        ]
    length = row.tokens_per_second / most * _ROOM
    place = f'x="{_LEFT}" y="{y}" width="{length:.1f}" height="{_BAR}" rx="3"'
    return [
        name,
        f'<rect class="{_look(row.proposer)}" {place}/>',
        _text(_RATES, base, rate(row.tokens_per_second), "text", anchor="end"),
        _text(_FACTORS, base, speedup(row), "text" if row.speedup else "quiet", anchor="end"),
    ]


def _text(
    x: float, y: float, text: str, look: str, size: int = 15, weight: int = 400, anchor: str = "start"
) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}"'
    return f'<text class="{look}" {place}>{_xml(text)}</text>'


def _rules(report: Report) -> str:
    """Style rules for a light page, and for a dark one where the viewer asks for it."""
    numbers = "text{font-variant-numeric:tabular-nums}"
    lines = ".halo{stroke-width:4}.mark{stroke-width:1.5;stroke-dasharray:4 3}"
    light, dark = _colours(report, LIGHT_PAGE, False), _colours(report, DARK_PAGE, True)
    return f"{numbers}{lines}{light}@media (prefers-color-scheme:dark){{{dark}}}"


def _colours(report: Report, page: Page, dark: bool) -> str:
    fills = {"text": page.text, "quiet": page.quiet, "off": page.quiet}
    for name in sorted({_look(row.proposer) for row in report.rows} - {"off"}):
        # "auto" is not an origin of tokens: they come from its members.
        fills[name] = page.text if name == "auto" else LOOKS[name].dark if dark else LOOKS[name].light
    rules = "".join(f".{name}{{fill:{colour}}}" for name, colour in fills.items())
    lines = f".halo{{stroke:{page.ground}}}.mark{{stroke:{page.text}}}"
    return f".ground{{fill:{page.ground};stroke:{page.rule}}}{lines}{rules}"


def _look(proposer: str) -> str:
    return proposer if proposer in ("off", "auto") or proposer in LOOKS else "head"


def _described(report: Report) -> str:
    return "; ".join(
        f"{row.proposer} {cells(row)[1]} tokens per second, {cells(row)[2]}" for row in report.rows
    )


def fitted(text: str, longest: int) -> str:
    """The text cut to so many columns; wide characters take two in a picture too."""
    return text if cell_len(text) <= longest else set_cell_size(text, longest - 1).rstrip() + "…"


def _xml(text: str) -> str:
    """Escaped, without the two characters that XML forbids besides control characters."""
    return escape(text.replace("\ufffe", "").replace("\uffff", ""), quote=True)
