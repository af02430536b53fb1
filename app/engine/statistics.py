"""The figures of one reply, summed pass by pass."""

from __future__ import annotations

from app.engine.events import Finished, FinishReason, Pass, Tally
from app.engine.plain import PlainEstimator
from app.engine.reply import Reply


class Statistics:
    """Counts every pass once; `finish` returns a record in which all sums agree."""

    def __init__(self, prompt_tokens: int, cached_tokens: int, seed: int, plain: PlainEstimator) -> None:
        self._prompt_tokens = prompt_tokens
        self._cached_tokens = cached_tokens
        self._seed = seed
        self._by_proposer: dict[str, Tally] = {}
        self._by_position: list[int] = []
        self._k_history: list[int] = []
        self._decode_seconds = 0.0
        self._model_seconds = 0.0
        self._plain = plain
        self.prefill_seconds = 0.0

    def join(self, proposer: str) -> None:
        """This proposer is on: it appears in the figures even without a pass."""
        self._by_proposer.setdefault(proposer, Tally())

    def record(self, entry: Pass) -> None:
        drafted = len(entry.drafted)
        tally = self._by_proposer.get(entry.proposer, Tally())
        self._by_proposer[entry.proposer] = Tally(
            tally.passes + 1, tally.drafted + drafted, tally.accepted + entry.accepted
        )
        while len(self._by_position) < drafted:
            self._by_position.append(0)
        for position in range(entry.accepted):
            self._by_position[position] += 1
        self._k_history.append(drafted)
        self._decode_seconds += entry.seconds
        self._model_seconds += entry.target_seconds + entry.proposer_seconds
        self._plain.record(entry)

    def finish(self, reason: FinishReason, reply: Reply) -> Finished:
        reply.finished = reason
        tallies = self._by_proposer.values()
        passes = sum(tally.passes for tally in tallies)
        accepted = sum(tally.accepted for tally in tallies)
        plain_seconds = self._plain.seconds_per_token()
        if set(self._by_proposer) == {"off"} and reply.tokens:
            # Plain decoding is its own reference, to the last bit.
            plain_seconds = self._decode_seconds / len(reply.tokens)
        return Finished(
            reason=reason,
            token_ids=tuple(reply.tokens),
            origins=tuple(reply.origins),
            text=reply.text,
            rest=reply.show(),
            seed=self._seed,
            prompt_tokens=self._prompt_tokens,
            cached_tokens=self._cached_tokens,
            passes=passes,
            drafted=sum(tally.drafted for tally in tallies),
            accepted=accepted,
            trimmed=passes + accepted - len(reply.tokens),
            accepted_by_position=tuple(self._by_position),
            by_proposer=dict(self._by_proposer),
            k_history=tuple(self._k_history),
            prefill_seconds=self.prefill_seconds,
            decode_seconds=self._decode_seconds,
            model_seconds=self._model_seconds,
            plain_seconds=plain_seconds,
        )
