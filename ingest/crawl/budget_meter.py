"""What one crawl uses of its allowance, counted also where it fails: a page that is refused half-way was fetched."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.contracts.budget import Allowance, Spend
from sluice.contracts.errors import BudgetExhausted
from sluice.ingest.egress.crawl_account import EgressReport


@dataclass(slots=True)
class BudgetMeter:
    """Bytes brought in and milliseconds that sites took so far; `pages` are those that were had in the end."""

    allowance: Allowance
    pages: int = 0
    bytes: int = 0
    milliseconds: float = 0.0
    egress: EgressReport | None = None
    """What went through the proxy for it and what was refused there, once the crawl has ended."""

    @property
    def spend(self) -> Spend:
        """As the ledger books it."""
        return Spend(pages=self.pages, bytes=self.bytes, milliseconds=self.milliseconds)

    @property
    def is_used_up(self) -> bool:
        """Whether no byte or no millisecond is left."""
        left = self.allowance.less(self.spend)
        return left.bytes == 0 or (left.milliseconds is not None and left.milliseconds < 1)

    def bytes_left(self, most: int) -> int:
        """How many bytes may still come in, at most `most`.

        Raises:
            BudgetExhausted: none.
        """
        left = self.allowance.less(self.spend).bytes
        if left == 0:
            raise BudgetExhausted("no bytes are left")
        return most if left is None else min(most, left)

    def seconds_left(self, most: float) -> float:
        """How long sites may still take, at most `most` seconds.

        Raises:
            BudgetExhausted: not a millisecond.
        """
        left = self.allowance.less(self.spend).milliseconds
        if left is None:
            return most
        if left < 1:
            raise BudgetExhausted("no milliseconds are left")
        return min(most, left / 1_000)

    def took(self, seconds: float, *, at_most: float) -> None:
        """Count a site's time. What goes beyond its time limit is our own machinery's."""
        self.milliseconds += min(max(0.0, seconds), at_most) * 1_000
