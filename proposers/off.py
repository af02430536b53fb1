"""Plain decoding: a proposer that never guesses."""

from proposers.base import Proposer


class Off(Proposer):
    """Drafts nothing: each pass makes one token."""

    name = "off"
