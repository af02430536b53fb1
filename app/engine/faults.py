"""Whose fault it was: what fails in a proposer costs its drafts, and never the reply."""

from __future__ import annotations

from app.engine.selection import NoNumbers
from app.errors import SpecchatError
from proposers.base import NoDraft, Proposer


class ProposerFault(Exception):
    """A proposer failed, and is of no use until it is loaded again."""

    def __init__(self, proposer: Proposer, fault: Exception) -> None:
        super().__init__(str(fault))
        self.proposer = proposer
        # Whether the model computes nothing that can be used, so that its file must be damaged.
        self.damaged = isinstance(fault, (NoNumbers, NoDraft))

    @classmethod
    def of(cls, proposer: Proposer, fault: Exception) -> ProposerFault:
        """The proposer that a fault is of: this one, unless it is known to be another's."""
        return fault if isinstance(fault, cls) else cls(proposer, fault)


# Faults of files and of llama.cpp. Whatever raises them while a proposer is at work is that proposer's.
FAULTS = (SpecchatError, NoDraft, ProposerFault)
