"""Plain decoding: a proposer that never guesses."""

from __future__ import annotations

from proposers.base import Proposer


class Off(Proposer):
    """Drafts nothing, so that each pass makes one token."""

    name = "off"
