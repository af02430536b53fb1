"""The reply that is being written, put together from passes; and its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from app.chat.conversation import Answer, End, Figures
from app.engine.events import Finished
from app.process.events import Step


class Growing:
    """Takes every pass of a reply and gives the answer so far.

    What was `begun` before (a reply that was cut short and goes on) stays in front.
    """

    def __init__(self, begun: Answer | None = None) -> None:
        self.begun = begun
        before = begun or Answer()
        self._text: list[str] = [before.text]
        self._token_ids = list(before.token_ids)
        self._pieces = list(before.pieces)
        self._origins = list(before.origins)
        self._ghosts = list(before.ghosts)

    @property
    def tokens(self) -> int:
        """Tokens so far, those that were begun with too."""
        return len(self._token_ids)

    def extend(self, steps: Sequence[Step]) -> None:
        """Take passes, in their order."""
        for step in steps:
            entry = step.entry
            if step.rejected:
                # It stood where the pass's own token came instead.
                place = min(entry.accepted, len(entry.tokens))
                self._ghosts.append((len(self._token_ids) + place, step.rejected))
            self._text.append(entry.text)
            self._token_ids.extend(entry.tokens)
            self._pieces.extend(step.pieces)
            self._origins.extend(entry.origins)

    def so_far(self, end: End = None) -> Answer:
        """The answer as it stands."""
        return Answer(
            text="".join(self._text),
            token_ids=tuple(self._token_ids),
            pieces=tuple(self._pieces),
            origins=tuple(self._origins),
            ghosts=tuple(self._ghosts),
            end=end,
        )

    def finish(self, finished: Finished) -> Answer:
        """The whole answer, by the engine's own last word on it."""
        # The end token is no part of what was said; the template writes it again.
        kept = len(finished.token_ids) - (finished.reason == "stop")
        before = self.begun or Answer()
        size = len(before.token_ids) + kept
        return Answer(
            text=before.text + finished.text,
            token_ids=(*before.token_ids, *finished.token_ids[:kept]),
            pieces=tuple(self._pieces[:size]),
            origins=tuple(self._origins[:size]),
            ghosts=tuple(ghost for ghost in self._ghosts if ghost[0] <= size),
            end=finished.reason,
            figures=figures_of(finished),
        )


def resumable(answer: Answer) -> Answer:
    """An answer to go on from: without the last tokens that had no text yet, as they may have ended in
    the middle of a character."""
    size = len(answer.pieces)
    while size and not answer.pieces[size - 1]:
        size -= 1
    return replace(
        answer,
        token_ids=answer.token_ids[:size],
        pieces=answer.pieces[:size],
        origins=answer.origins[:size],
        ghosts=tuple(ghost for ghost in answer.ghosts if ghost[0] <= size),
        end=None,
        figures=None,
    )


def figures_of(finished: Finished) -> Figures:
    """What is kept of a reply's speed. proposer: those that drafted, or that were on where none did."""
    plain = finished.plain_seconds
    drafters = [name for name, tally in finished.by_proposer.items() if tally.drafted]
    return Figures(
        proposer=" + ".join(drafters or finished.by_proposer),
        tokens=len(finished.token_ids),
        tokens_per_second=finished.tokens_per_second,
        plain_tokens_per_second=1 / plain if plain else None,
        speedup=finished.speedup,
        acceptance_rate=finished.acceptance_rate,
        tokens_per_pass=finished.tokens_per_pass,
        prefill_seconds=finished.prefill_seconds,
        read_tokens=finished.prompt_tokens - finished.cached_tokens,
        seed=finished.seed,
    )
