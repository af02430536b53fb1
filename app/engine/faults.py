"""Failures of proposers: they cost drafts, never the reply."""

from __future__ import annotations

from app.engine.selection import InvalidLogits
from app.errors import SpecchatError
from proposers.base import NoDraft, Proposer


class ProposerFault(Exception):
    """A proposer failed and cannot be used until it is loaded again."""

    def __init__(self, proposer: Proposer, fault: Exception) -> None:
        super().__init__(str(fault))
        self.proposer = proposer
        # Whether the model's logits are unusable, so that its file must be damaged.
        self.damaged = isinstance(fault, (InvalidLogits, NoDraft))

    @classmethod
    def of(cls, proposer: Proposer, fault: Exception) -> ProposerFault:
        """A fault of this proposer, unless it is known to be another's."""
        return fault if isinstance(fault, cls) else cls(proposer, fault)


# Faults of files and of llama.cpp. When one is raised while a proposer works, that proposer has failed.
FAULTS = (SpecchatError, NoDraft, ProposerFault)
