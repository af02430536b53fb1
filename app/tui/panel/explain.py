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
        """memory: how the loaded model's goes back, see app/models/memory_words.py."""
        super().__init__()
        self._memory = memory
        self._body = Static(_content(figures, memory), markup=False)

    def compose(self) -> ComposeResult:
        scroll = VerticalScroll(self._body)
        scroll.border_title = "What the figures mean"
        scroll.border_subtitle = "↑ ↓ scroll · Esc closes"
        yield scroll

    def show(self, figures: PanelFigures) -> None:
        """The values of now in place of those shown."""
        self._body.update(_content(figures, self._memory))


def explanations(figures: PanelFigures, memory: str = "") -> tuple[Explanation, ...]:
    """Every figure of the panel, in its order, and what the model's memory has to do with them."""
    plain = figures.plain_seconds
    best = sorted(figures.values, key=lambda value: -value.gain)
    least = f"{LEAST_GAIN - 1.0:.0%}".replace("%", " %")
    by_position = "  ".join(f"{accepted:,} of {drafted:,}" for accepted, drafted in figures.by_position)
    return (
        Explanation(
            "tokens/s",
            rate(figures.tokens_per_second),
            "How many tokens of the reply come per second of decoding; reading the prompt is not counted.",
            f"tokens kept ÷ seconds of all passes = {whole(figures.kept)} ÷ {figures.decode_seconds:.2f}",
        ),
        Explanation(
            "plain",
            rate(figures.plain_tokens_per_second),
            "How many there would be without speculation: measured by passes that draft nothing, "
            + (f"{figures.plain_source}." if figures.plain_source else "of which there were too few yet."),
            "1 ÷ what a token would have taken, by the plain passes nearest in time = "
            f"1 ÷ {UNKNOWN if plain is None else f'{plain:.4f}'}",
        ),
        Explanation(
            "speedup",
            UNKNOWN if figures.speedup is None else f"{figures.speedup:.2f}×",
            "How many times as fast as plain decoding this reply is: below 1 it is slower. Plain decoding is "
            "1; where nothing was drafted there is none.",
            "what plain decoding would have taken ÷ what it took, choosing and looking up included",
        ),
        Explanation(
            "acceptance",
            percent(figures.acceptance_rate),
            "The share of the drafted tokens that the model kept.",
            f"accepted ÷ drafted = {whole(figures.accepted)} ÷ {whole(figures.drafted)}",
        ),
        Explanation(
            "tokens/pass",
            ratio(figures.tokens_per_pass),
            "How many tokens one pass of the model yields: those accepted, and one of its own.",
            f"(passes + accepted) ÷ passes = ({whole(figures.passes)} + {whole(figures.accepted)})"
            f" ÷ {whole(figures.passes)}",
        ),
        Explanation(
            "k",
            whole(figures.last_k),
            "How many tokens were drafted in the last pass; 0 is plain decoding.",
            "chosen by the controller for the most tokens per second"
            if figures.fixed_k is None
            else f"at most {figures.fixed_k}, as you chose",
        ),
        Explanation(
            "predicted gain",
            next((f"{value.gain:+.0%}".replace("%", " %") for value in best), UNKNOWN),
            "How much faster than plain decoding the next pass would be with each proposer's best draft; "
            f"under {least} it is not drafted, nor where guesses missed lately and plain decoding's time has "
            "to be earned back first.",
            "(expected tokens ÷ expected seconds) ÷ (1 ÷ seconds of a plain pass) - 1",
        ),
        Explanation(
            "position",
            by_position or UNKNOWN,
            "How often a draft is accepted as far as its 1st, 2nd, … token.",
            "passes that accepted at least so many, of the passes that drafted at least so many; "
            f"fewer than {LEAST_DRAFTS} say nothing and are not shown",
        ),
        Explanation(
            "expected",
            ratio(figures.expected),
            "Tokens per pass as theory gives them if every drafted token is accepted with the same odds α; "
            "where the measured figure parts from it, the odds change from pass to pass or along a draft.",
            "mean over the passes of (1 - α^(k+1)) ÷ (1 - α); α = accepted ÷ (accepted + drafts rejected) = "
            + (UNKNOWN if figures.alpha is None else f"{figures.alpha:.2f}"),
        ),
        Explanation(
            "prompt",
            f"{whole(figures.prompt)} tokens",
            "What the model reads before it writes; tokens cached from the last turn are not read again.",
            f"cached {whole(figures.known if figures.prompt is not None else None)}, "
            f"time {seconds(figures.prefill_seconds).strip()} (told at the reply's end)",
        ),
        *_memory(figures, memory),
        Explanation(
            "overhead",
            f"{milliseconds(figures.host_seconds_per_pass)} ms/pass",
            "The time of a pass outside the models: drafting without one, verification, text.",
            f"(seconds of all passes - seconds in models) ÷ passes; {percent(figures.host_share).strip()}"
            " of decoding",
        ),
        Explanation(
            "seed",
            whole(figures.seed).replace(",", ""),
            "Where chance begins: the same seed, prompt and settings give the same reply.",
            "set in the settings, or drawn anew for each reply (told at the reply's end)",
        ),
        Explanation(
            "▁▃▅▇",
            "",
            "The course of a figure, the newest at the right.",
            f"a column of acceptance and tokens/pass is {WINDOW_SECONDS:g} s of decoding; of k, one pass",
        ),
    )


def _memory(figures: PanelFigures, memory: str) -> tuple[Explanation, ...]:
    """What is read again, with a memory where tokens cannot simply be cut off; nothing for attention."""
    sentence = way_back(memory)
    if not sentence:
        return ()
    if figures.again:
        sentence += " This prompt shares tokens with what was read before that had to be read again."
    counted = f"{whole(figures.replayed)} behind drafts, {whole(figures.again)} of the prompt"
    return (Explanation("memory", memory, sentence, f"tokens read again: {counted}"),)


def _content(figures: PanelFigures, memory: str) -> Content:
    return Content("\n\n").join(
        Content.assemble(
            (each.name, "bold"),
            (f"  {each.value.strip()}\n", "bold $accent"),
            f"{each.meaning}\n",
            (each.formula, "$muted"),
        )
        for each in explanations(figures, memory)
    )
