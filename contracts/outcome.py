"""The ways in which the handling of one event can end.

A handler returns one of these; `workers/task.py` is the only place that acts on them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sluice.contracts.budget import Spend
from sluice.contracts.event import Body, Gap


@dataclass(frozen=True, slots=True)
class Next:
    """An event to emit: its body, and a key by which a second one of the same run is dropped.

    `dedupe_key` is unique within a run: two pages that link to the same third page direct one crawl.
    `reserve` is what the work may cost: it is taken from the budget in the transaction that emits the
    event, before any worker can act on it, and replaced by the real spend when the event settles.
    """

    body: Body
    dedupe_key: str | None = None
    reserve: Spend | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """The event was handled. `emits` become events, `gaps` are what could not be had and why."""

    emits: tuple[Next, ...] = ()
    gaps: tuple[Gap, ...] = ()
    spend: Spend = field(default_factory=Spend)


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again later: the cause is expected to pass. `spend` is what the attempt has cost all the same.

    Where it does not count (`counts` False) nothing was tried, and it may come back however often it takes.
    """

    after_seconds: float
    why: str
    spend: Spend = field(default_factory=Spend)
    counts: bool = True


@dataclass(frozen=True, slots=True)
class Discard:
    """Settle without effect: the event is no longer wanted (a cancelled run, a passed deadline)."""

    why: str


DeadLetterReason = Literal["exhausted", "poison", "malformed", "unroutable", "policy", "timeout", "discarded"]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Park the event for an operator: trying again cannot help. `spend` is what the attempt has cost all the same."""

    reason: DeadLetterReason
    error: BaseException | None = field(default=None, compare=False)
    spend: Spend = field(default_factory=Spend)


@dataclass(frozen=True, slots=True)
class Postponable:
    """Nothing was asked of the outside world: what would have been asked kept failing (an open circuit), or its quota
    is used up.

    A run goes on without it, as `instead` says. Work that an operator replayed was not done by that: it is tried again
    after `after_seconds`, and parked again where that does not help either.
    """

    instead: Done
    after_seconds: float
    why: str


class CostlyFailure(Exception):
    """What a handler raises, from the error that it met, where the attempt has already cost something."""

    def __init__(self, spend: Spend) -> None:
        super().__init__("the attempt failed and has cost something")
        self.spend = spend


Outcome = Done | Retry | Discard | DeadLetter
"""What the ledger records."""
