"""What each figure of the speculation panel means, how it is computed, and what it is now."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from app.engine.control import LEAST_GAIN
from app.models.memory_words import way_back
from app.session.figures import LEAST_DRAFTS, WINDOW_SECONDS, PanelFigures
from app.tui.dialogs.dialogue import Dialogue
from app.tui.numbers import UNKNOWN, milliseconds, percent, rate, ratio, seconds, whole


@dataclass(frozen=True, slots=True)
class Explanation:
    """One figure: its name on the panel, its value now, one sentence, and how it is computed."""

    name: str
    value: str
    meaning: str
    formula: str


class ExplainScreen(Dialogue[None]):
    """The explanations in one column that scrolls; Esc closes it."""

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text("utf-8")
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "dismiss", "close")]

    def __init__(self, figures: PanelFigures, memory: str = "") -> None:
        """memory: the kind of the loaded model's memory, see app/models/memory_words.py."""
        super().__init__()
        self._explanations = explanations(figures, memory)

    def compose(self) -> ComposeResult:
        scroll = VerticalScroll(Static(_content(self._explanations), markup=False))
        scroll.border_title = "What the figures mean"
        scroll.border_subtitle = "↑ ↓ scroll · Esc closes"
        yield scroll


def explanations(figures: PanelFigures, memory: str = "") -> tuple[Explanation, ...]:
    """Every figure of the panel, in its order, and what the model's memory has to do with them."""
    plain = UNKNOWN if figures.plain_seconds is None else f"{figures.plain_seconds:.4f}"
    gains = sorted((value.gain for value in figures.values), reverse=True)
    by_position = "  ".join(f"{accepted:,} of {drafted:,}" for accepted, drafted in figures.by_position)
    passes, accepted = whole(figures.passes), whole(figures.accepted)
    return (
        Explanation(
            "tokens/s",
            rate(figures.tokens_per_second),
            "How many tokens of the reply are written per second. Reading the prompt does not count.",
            f"tokens kept ÷ seconds of all passes = {whole(figures.kept)} ÷ {figures.decode_seconds:.2f}",
        ),
        Explanation(
            "plain",
            rate(figures.plain_tokens_per_second),
            "The speed without speculation, measured by passes that draft nothing"
            + (f", {figures.plain_source}." if figures.plain_source else "; there were too few so far."),
            f"1 ÷ seconds of a token, by the plain passes nearest in time = 1 ÷ {plain}",
        ),
        Explanation(
            "speedup",
            UNKNOWN if figures.speedup is None else f"{figures.speedup:.2f}×",
            "How many times as fast as plain decoding this reply is; below 1 it is slower.",
            "seconds that plain decoding would take ÷ seconds that it took, choosing and lookup included",
        ),
        Explanation(
            "acceptance",
            percent(figures.acceptance_rate),
            "The share of the drafted tokens that the model kept.",
            f"accepted ÷ drafted = {accepted} ÷ {whole(figures.drafted)}",
        ),
        Explanation(
            "tokens/pass",
            ratio(figures.tokens_per_pass),
            "How many tokens one pass of the model yields: the accepted ones, and one of its own.",
            f"(passes + accepted) ÷ passes = ({passes} + {accepted}) ÷ {passes}",
        ),
        Explanation(
            "k",
            whole(figures.last_k),
            "How many tokens were drafted for the last pass; 0 is plain decoding.",
            "chosen by the controller for the most tokens per second"
            if figures.fixed_k is None
            else f"at most {figures.fixed_k}, as you chose",
        ),
        Explanation(
            "predicted gain",
            f"{100 * gains[0]:+.0f} %" if gains else UNKNOWN,
            "How much faster than plain decoding the next pass should be with each proposer's best draft. "
            f"Below {percent(LEAST_GAIN - 1.0).strip()}, or while lost time is regained, nothing is drafted.",
            "(expected tokens ÷ expected seconds) ÷ (1 ÷ seconds of a plain pass) - 1",
        ),
        Explanation(
            "position",
            by_position or UNKNOWN,
            "How often a draft is accepted up to its 1st, 2nd, … token.",
            "passes that accepted at least that many ÷ passes that drafted at least that many; "
            f"hidden for fewer than {LEAST_DRAFTS} drafts",
        ),
        Explanation(
            "expected",
            ratio(figures.expected),
            "Tokens per pass in theory, if every drafted token is accepted with the same probability α. "
            "Where the measured figure differs, the probability varies from pass to pass or along a draft.",
            "mean over the passes of (1 - α^(k+1)) ÷ (1 - α); α = accepted ÷ (accepted + drafts rejected) = "
            + (UNKNOWN if figures.alpha is None else f"{figures.alpha:.2f}"),
        ),
        Explanation(
            "prompt",
            f"{whole(figures.prompt)} tokens",
            "What the model reads before it writes. Tokens cached from the last turn are not read again.",
            f"cached {whole(figures.known if figures.prompt is not None else None)}, "
            f"time {seconds(figures.prefill_seconds).strip()} (known at the reply's end)",
        ),
        *_memory(figures, memory),
        Explanation(
            "overhead",
            f"{milliseconds(figures.host_seconds_per_pass)} ms/pass",
            "The time of a pass outside the models: lookup, verification, text.",
            f"(seconds of all passes - seconds in models) ÷ passes; {percent(figures.host_share).strip()} "
            "of decoding",
        ),
        Explanation(
            "seed",
            whole(figures.seed).replace(",", ""),
            "What chance begins with: the same seed, prompt and settings give the same reply.",
            "from the settings, or drawn for each reply (known at the reply's end)",
        ),
        Explanation(
            "▁▃▅▇",
            "",
            "The history of a figure, the newest at the right.",
            f"a column is {WINDOW_SECONDS:g} s of decoding for acceptance and tokens/pass, one pass for k",
        ),
    )


def _memory(figures: PanelFigures, memory: str) -> tuple[Explanation, ...]:
    """What must be read again, if tokens cannot simply be cut from the model's memory."""
    sentence = way_back(memory)
    if not sentence:
        return ()
    if figures.again:
        sentence += " This prompt repeats tokens of an earlier one that had to be read again."
    counts = f"{whole(figures.replayed)} after drafts, {whole(figures.again)} of the prompt"
    return (Explanation("memory", memory, sentence, f"tokens read again: {counts}"),)


def _content(explained: tuple[Explanation, ...]) -> Content:
    return Content("\n\n").join(
        Content.assemble(
            (each.name, "bold"),
            (f"  {each.value.strip()}\n", "bold $accent"),
            f"{each.meaning}\n",
            (each.formula, "$muted"),
        )
        for each in explained
    )
