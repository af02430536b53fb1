"""The reply that is being written, put together from its passes; and its figures."""

from __future__ import annotations

from dataclasses import replace

from app.chat.conversation import Answer, End, Figures
from app.engine.events import Finished
from app.process.events import Steps


class StreamingReply:
    """Takes every pass of a reply and gives the answer so far. begun: an earlier answer that it continues."""

    def __init__(self, begun: Answer | None = None) -> None:
        self.begun = begun
        before = begun or Answer()
        self._text: list[str] = [before.text]
        self._token_ids = list(before.token_ids)
        self._pieces = list(before.pieces)
        self._origins = list(before.origins)
        self._rejected = list(before.rejected)

    @property
    def tokens(self) -> int:
        """Tokens so far, with those of `begun`."""
        return len(self._token_ids)

    def extend(self, event: Steps) -> None:
        """Take passes, in their order."""
        for step in event.steps:
            entry = step.entry
            if step.rejected:
                # It stood where the pass's own token came instead.
                place = min(entry.accepted, len(entry.tokens))
                self._rejected.append((len(self._token_ids) + place, step.rejected))
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
            rejected=tuple(self._rejected),
            end=end,
        )

    def finish(self, finished: Finished) -> Answer:
        """The whole answer, as the engine's record has it."""
        # The end token is no part of what was said; the template writes it again.
        kept = finished.token_ids[: finished.kept - (finished.reason == "stop")]
        before = self.begun or Answer()
        return replace(
            self.so_far(finished.reason).cut(len(before.token_ids) + len(kept)),
            text=before.text + finished.text,
            token_ids=(*before.token_ids, *kept),
            figures=figures_of(finished),
        )


def resumable(answer: Answer) -> Answer:
    """An answer to continue from: without the last tokens that have no text, as they may have ended in the
    middle of a character."""
    size = len(answer.pieces)
    while size and not answer.pieces[size - 1]:
        size -= 1
    return replace(answer.cut(size), end=None, figures=None)


def figures_of(finished: Finished) -> Figures:
    """What is kept of a reply's speed."""
    drafters = [name for name, tally in finished.by_proposer.items() if tally.drafted]
    return Figures(
        proposer=" + ".join(drafters or finished.by_proposer),
        tokens=finished.kept,
        tokens_per_second=finished.tokens_per_second,
        plain_tokens_per_second=finished.plain_tokens_per_second,
        speedup=finished.speedup,
        acceptance_rate=finished.acceptance_rate,
        tokens_per_pass=finished.tokens_per_pass,
        prefill_seconds=finished.prefill_seconds,
        read_tokens=finished.prompt_tokens - finished.cached_tokens,
        seed=finished.seed,
    )
