"""A ledger limits what speculation can cost.

It is kept in measured seconds. Each committed token earns it c(1), the time of a plain pass, and a share
BUDGET of that. It pays for all that plain decoding would not have done: drafted passes, the slower plain pass
after one, reading, choosing, looking up. A draft is made if the ledger could pay its price, were all of it
rejected, and then owe no more than one plain pass. Its balance is capped, so that old gains do not pay for
losses now.

    L: seconds lost against plain decoding after N tokens.  c: the most expensive pass with a draft.

    1. L <= BUDGET · N · c(1) + c.  Before a draft the ledger owes at most c(1), and the pass earns it c(1):
       afterwards it owes at most what the pass took, however wrong its price was, and no draft is made until
       it has recovered. Errors in remembered costs or acceptance never add up. If prices are right, c(1)
       stands in place of c.
    2. While it cannot pay, a draft is still made if its proposer would have got the last R tokens right in a
       row without being asked: that evidence was free. R begins at FIRST_RUN and doubles with each such
       attempt that loses, until nothing is owed any more. The i-th lost attempt needs a run of
       2^(i-1) · FIRST_RUN tokens, so there are at most 1 + log2(N / FIRST_RUN), and each costs at most c.
    3. The time P that a draft model takes to read a prompt is owed separately. It is paid back from gains of
       drafts and from BUDGET, and no other prompt is read until then.

    Together: L <= BUDGET · N · c(1) + (2 + log2(N / FIRST_RUN)) · c + P for any text.
"""

from __future__ import annotations

import math

from app.engine.costs import CostCurve
from app.engine.events import Pass

# The share of plain decoding's time that speculation may cost if it gains nothing.
BUDGET = 0.015
# Right guesses in a row that allow a draft while the ledger is in debt.
FIRST_RUN = 8
# The cap on the balance, in plain passes.
_SAVINGS = 25
# A pass that takes this many times what is usual for its width was delayed by something else.
_DELAYED = 2.0


class Ledger:
    """balance: seconds that drafts may lose, less one plain pass. owed: seconds of reading that are not paid
    back yet. run_needed: right guesses in a row that a draft in debt needs now. on_credit: whether the last
    draft was made in debt."""

    __slots__ = ("balance", "on_credit", "owed", "run_needed")

    def __init__(self) -> None:
        self.balance = self.owed = 0.0
        self.run_needed = FIRST_RUN
        self.on_credit = False

    def settle(self, entry: Pass, width: int, costs: CostCurve, after_draft: bool) -> None:
        """Enter what a pass earned and cost. after_draft: whether the pass before was wider than plain."""
        plain = costs.plain
        if entry.drafted or after_draft:
            # What delays a pass beyond its usual time would have delayed plain decoding as well.
            most = _DELAYED * costs.price(width) if costs.usual(width) else math.inf
            spent = entry.seconds - entry.reading_seconds - max(0.0, entry.target_seconds - most)
            gained = entry.committed * plain - spent
        else:
            gained = entry.reading_seconds - entry.speculation_seconds
        if self.on_credit and entry.drafted and gained < 0.0:
            self.run_needed *= 2
        earned = BUDGET * entry.committed * plain + gained
        if self.owed > 0.0 < earned:
            paid = min(earned, self.owed)
            self.owed -= paid
            earned -= paid
        self.balance = min(self.balance + earned, _SAVINGS * plain)
        if self.balance >= 0.0:
            self.run_needed = FIRST_RUN
