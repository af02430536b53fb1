"""The record of one reply."""

from __future__ import annotations

from app.engine.counts import Counts
from app.engine.events import Finished, FinishReason, Pass, Tally
from app.engine.plain import PlainEstimator
from app.engine.reply import Reply


class Statistics(Counts):
    """Counts every pass once; `finish` gives the record in which all sums reconcile."""

    def __init__(self, prompt_tokens: int, cached_tokens: int, seed: int, plain: PlainEstimator) -> None:
        super().__init__()
        self._prompt_tokens = prompt_tokens
        self._cached_tokens = cached_tokens
        self._seed = seed
        self._plain = plain
        self.prefill_seconds = 0.0

    def join(self, proposer: str) -> None:
        """This proposer is on."""
        self.by_proposer.setdefault(proposer, Tally())

    def record(self, entry: Pass) -> None:
        super().record(entry)
        self._plain.record(entry)

    def finish(self, reason: FinishReason, reply: Reply) -> Finished:
        reply.finished = reason
        # A stop string can cut tokens that an earlier pass kept.
        self.kept = len(reply.tokens)
        plain_seconds = self._plain.seconds_per_token()
        if set(self.by_proposer) == {"off"} and reply.tokens:
            # Its own measure, to the last bit.
            plain_seconds = self.decode_seconds / len(reply.tokens)
        return Finished(
            reason=reason,
            token_ids=tuple(reply.tokens),
            origins=tuple(reply.origins),
            text=reply.text,
            rest=reply.show(),
            seed=self._seed,
            prompt_tokens=self._prompt_tokens,
            cached_tokens=self._cached_tokens,
            prefill_seconds=self.prefill_seconds,
            plain_seconds=plain_seconds,
            **self.totals(),
        )
