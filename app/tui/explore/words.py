"""What the explored figures mean, in words and sums."""

from __future__ import annotations

from app.tui.explore.scenarios import LONGEST, Situation
from app.tui.explore.simulation import Estimate
from app.tui.numbers import UNKNOWN, percent

TOKENS, SPEEDUP = "tokens/pass", "speedup"
# Speedups this near to 1 are no gain and no loss.
_SAME = 1e-9


def sentence(now: Situation) -> str:
    """What is seen now."""
    best, speedups = now.best, now.speedups
    if best == 0:
        if max(speedups[1:]) < 1 - _SAME:
            return "Here speculation does not pay: every k is slower than plain."
        return "Here speculation neither gains nor loses: no k is faster than plain."
    ahead = f"k = {best} ({speedups[best]:.1f}×)"
    if now.k == 0:
        return f"With k = 0 nothing is drafted: plain decoding, one token a pass. The best here is {ahead}."
    tokens = "token gives" if now.k == 1 else "tokens give"
    drafted = f"{now.k} drafted {tokens} {now.expected:.1f} tokens a pass"
    said = f"At {percent(now.alpha).strip()} acceptance, {drafted}"
    if now.k == best:
        longest = ", and longer might be better still" if best == LONGEST else ""
        return f"{said}; with this curve no k is better ({now.speedup:.1f}×){longest}."
    if now.speedup < 1 - _SAME:
        return f"{said} in the time of {now.cost:.1f} plain ones: a loss. The best is {ahead}."
    return f"{said} ({now.speedup:.1f}×); with this curve the best is {ahead}."


def tokens_line(now: Situation, estimate: Estimate | None, rounds: int) -> str:
    """Theory and simulation of the tokens of a pass; of one width whatever the numbers are."""
    return f"expected {now.expected:5.2f}  · simulated {_shown(estimate, '')} after {rounds:6,} rounds"


def speedup_line(now: Situation, estimate: Estimate | None) -> str:
    """The same of the speedup. estimate: of the tokens of a pass; its cost is no matter of chance."""
    simulated = None if estimate is None else estimate.times(1 / now.cost)
    best = now.best
    ahead = f"best k = {best:2} ({now.speedups[best]:.2f}×)" if best else "best is plain"
    return f"expected {now.speedup:5.2f}× · simulated {_shown(simulated, '×')} · {ahead}"


def arithmetic(now: Situation) -> tuple[tuple[str, str], ...]:
    """How tokens of a pass, its cost and the speedup are computed, each behind its name."""
    k, alpha = now.k, now.alpha
    if alpha == 1:
        tokens = f"k + 1, where nothing is rejected = {k} + 1"
    else:
        tokens = f"(1 - α^(k+1)) ÷ (1 - α) = (1 - {alpha:.2f}^{k + 1}) ÷ (1 - {alpha:.2f})"
    wide = now.curve.cost(k + 1) / now.curve.cost(1)
    drafts = f"{k} × {now.draft_cost:.2f}"
    return (
        (TOKENS, f"{tokens} = {now.expected:.2f}"),
        ("its time", f"c(k+1) + k × draft cost = {wide:.2f} + {drafts} = {now.cost:.2f} plain passes"),
        (SPEEDUP, f"tokens/pass ÷ its time = {now.expected:.2f} ÷ {now.cost:.2f} = {now.speedup:.2f}×"),
    )


def width_note(now: Situation) -> str:
    """What the pass costs by itself, by the curve."""
    cost = now.curve.cost(now.k + 1) / now.curve.cost(1)
    return f"width {now.k + 1} takes {cost:.2f} plain passes"


def _shown(estimate: Estimate | None, unit: str) -> str:
    space = " " * (1 - len(unit))
    if estimate is None:
        return f"{UNKNOWN:>5}{unit} ± {UNKNOWN:>4}{space}"
    error = UNKNOWN if estimate.error is None else f"{estimate.error:.2f}"
    return f"{estimate.mean:5.2f}{unit} ± {error:>4}{space}"
