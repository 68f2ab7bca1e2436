"""The circuit breaker of a stage: when most of its work fails, the stage rests and probes.

What counts is failure that says something about the stage itself: a bug, a part that is away, a blob that is damaged.
What the outside world or a request did wrong does not: a dead site must not stop the crawling of others, hosts and
providers have breakers of their own, and a refusal is an answer.
"""

from __future__ import annotations

from sluice.contracts.errors import (
    BudgetExhausted,
    Fenced,
    InvalidInput,
    NotFound,
    Overloaded,
    PolicyRefused,
    SluiceError,
    Unavailable,
)
from sluice.contracts.event import Queue
from sluice.ingest.circuit_breaker import FailureWindow

WINDOW = 100
"""Outcomes that are looked back at."""
LEAST_OUTCOMES = 20
"""Outcomes before which nothing is concluded."""
OUTWARD: frozenset[Queue] = frozenset({"search", "crawl"})
"""Stages in which a part that does not answer is somebody else's."""


def counts_as_failure(stage: Queue, error: BaseException | None) -> bool:
    """Whether what ended the handling of an event says that something is wrong with the stage."""
    match error:
        case None | PolicyRefused() | BudgetExhausted() | Overloaded() | Fenced() | InvalidInput() | NotFound():
            return False
        case Unavailable():
            return stage not in OUTWARD
        case SluiceError():
            return True
    return True


def stage_window() -> FailureWindow:
    """The last outcomes of one process's stage; where most of them failed the ledger pauses the stage and probes it."""
    return FailureWindow(WINDOW, LEAST_OUTCOMES, of="events")
