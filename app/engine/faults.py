"""Whose fault it was: what fails in a proposer costs its drafts, and never the reply."""

from __future__ import annotations

from types import TracebackType
from typing import Literal

from app.engine.selection import NoNumbers
from app.errors import SpecchatError
from proposers.base import NoDraft, Proposer


class Lost(Exception):
    """A proposer failed, and is of no use until it is loaded again."""

    def __init__(self, proposer: Proposer, fault: SpecchatError | NoDraft) -> None:
        super().__init__(str(fault))
        self.proposer = proposer
        # Whether the model computes nothing that can be used, so that its file must be damaged.
        self.damaged = isinstance(fault, (NoNumbers, NoDraft))


class Blame:
    """What fails inside is this proposer's fault: raises Lost for faults of files and of llama.cpp.

    A class with slots and no generator: it is entered several times a pass.
    """

    __slots__ = ("_proposer",)

    def __init__(self, proposer: Proposer) -> None:
        self._proposer = proposer

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        if isinstance(fault, (SpecchatError, NoDraft)):
            raise Lost(self._proposer, fault) from fault
        return False
