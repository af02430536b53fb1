"""How the next pass speculates: the proposer, the draft length and the draft model that a person chose."""

from __future__ import annotations

from collections.abc import Callable

from app.engine.settings import LONGEST_DRAFT
from app.process.commands import SetDraft, SetK, SetProposer
from app.process.events import Loaded, ProposerOption, Switched


class Speculation:
    """What is on, and what can be.

    options: every proposer, with the reason if it cannot be used. draft: the name of the draft model, if any.
    """

    def __init__(
        self,
        proposer: str,
        k: int | None,
        send: Callable[[SetProposer | SetK | SetDraft], int],
        changed: Callable[[], None],
    ) -> None:
        """send: to an engine with a model; gives the command's number, 0 where no model is loaded."""
        self.proposer = proposer
        self.k = k
        self.options: tuple[ProposerOption, ...] = ()
        self.draft: str | None = None
        self._send = send
        self._changed = changed
        self._fixed_k = k or 4
        # The newest choice. The answers to those before it no longer matter.
        self._newest = 0

    def next_proposer(self) -> None:
        """Use the next proposer that can be used."""
        usable = [option.name for option in self.options if option.problem is None]
        if usable:
            place = usable.index(self.proposer) + 1 if self.proposer in usable else 0
            self.set_proposer(usable[place % len(usable)])

    def set_proposer(self, name: str, agreed: bool = False) -> None:
        """Use a proposer from the next pass on; while a model is loaded, from the next reply on."""
        self.proposer = name
        self._newest = self._send(SetProposer(name, agreed))
        self._changed()

    def set_draft(self, draft: str | None) -> None:
        """Load a draft model, or unload the one that is loaded."""
        self._newest = self._send(SetDraft(draft))

    def set_k(self, k: int | None) -> None:
        """Fix the draft length, from 1 to LONGEST_DRAFT, or leave it to the controller (None)."""
        self.k = k if k is None else max(1, min(k, LONGEST_DRAFT))
        self._fixed_k = self.k or self._fixed_k
        self._send(SetK(self.k))
        self._changed()

    def toggle_k(self) -> None:
        """Switch between the controller's draft length and the one that was fixed last."""
        self.set_k(self._fixed_k if self.k is None else None)

    def change_k(self, step: int) -> None:
        """One token more or less; below one, the controller chooses."""
        self.set_k(max(0, (self.k or 0) + step) or None)

    def loaded(self, event: Loaded) -> None:
        """A model is loaded."""
        self.options, self.draft = event.options, event.draft

    def switched(self, event: Switched) -> None:
        """The engine says what is on now."""
        self.options, self.draft = event.options, event.draft
        if event.identity in (0, self._newest):
            self.proposer = event.proposer
            self._changed()
