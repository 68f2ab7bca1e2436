"""The possible outcomes of handling one event. A handler returns one; only `workers/task.py` acts on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sluice.contracts.budget import Spend
from sluice.contracts.event import Body, Gap


@dataclass(frozen=True, slots=True)
class Next:
    """An event to emit: its body, and a key by which a run drops a second one: two pages that link to the same third
    page direct one crawl. `reserve` is the most the work may cost: it is taken from the budget in the transaction that
    emits the event, before any worker can act on it, and replaced by the real spend when the event settles."""

    body: Body
    dedupe_key: str | None = None
    reserve: Spend | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """The event was handled. `emits` become events, `gaps` are the missing parts with reasons."""

    emits: tuple[Next, ...] = ()
    gaps: tuple[Gap, ...] = ()
    spend: Spend = field(default_factory=Spend)


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again later: the cause is expected to pass. `spend` is the attempt's cost. With `counts` False nothing was
    tried, and the event may be retried without limit."""

    after_seconds: float
    why: str
    spend: Spend = field(default_factory=Spend)
    counts: bool = True


@dataclass(frozen=True, slots=True)
class Discard:
    """Settle without effect: the event is obsolete (a cancelled run, a passed deadline)."""

    why: str


DeadLetterReason = Literal["exhausted", "poison", "malformed", "unroutable", "policy", "timeout", "discarded"]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Park the event for an operator: a retry cannot help. `spend` is the attempt's cost."""

    reason: DeadLetterReason
    error: BaseException | None = field(default=None, compare=False)
    spend: Spend = field(default_factory=Spend)


@dataclass(frozen=True, slots=True)
class Postponable:
    """No request was sent: its target kept failing (an open circuit), or the quota is used up. A run continues with
    `instead`. An event that an operator replayed is retried after `after_seconds`, then parked again."""

    instead: Done
    after_seconds: float
    why: str


class CostlyFailure(Exception):
    """Raised by a handler, from the original error, when the failed attempt has a cost."""

    def __init__(self, spend: Spend) -> None:
        super().__init__("the attempt failed and has cost something")
        self.spend = spend


Outcome = Done | Retry | Discard | DeadLetter
"""The outcomes that the ledger records."""
