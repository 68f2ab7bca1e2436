"""The waves of faults of the short forms, and how their work has to end."""

from __future__ import annotations

from tests.chaos.delivery.failpoints import Cell
from tests.chaos.delivery.matrix import Wave
from tests.chaos.delivery.verdict import await_quiet, judge
from tests.chaos.delivery.work import Work

QUIET_SECONDS = 240.0
"""Generous: other tests run beside this one."""

KILLED: Wave = (
    Cell("accept.after", "api", "kill"),
    Cell("claim.after", "chunk", "kill"),
    Cell("handler.after", "embed", "kill"),
    Cell("go_on.after", "query", "kill"),
    Cell("journal_fsync.after", "index", "kill"),
    Cell("settle.after", "query", "kill"),
)
BROKEN: Wave = (
    Cell("publish.before", "api", "exception"),
    Cell("go_on.after", "query", "exception"),
    Cell("settle.before", "crawl", "exception"),
    Cell("settle.after", "chunk", "exception"),
    Cell("publish.after", "embed", "exception"),
    Cell("journal_append.after", "index", "exception"),
    Cell("handler.after", "query", "exception"),
)
FULL: Wave = (
    Cell("handler.before", "search", "enospc"),
    Cell("settle.before", "embed", "enospc"),
    Cell("pointer_swap.before", "index", "enospc"),
)
HUNG: Wave = (
    Cell("handler.before", "gate", "hang"),
    Cell("ack.after", "chunk", "hang"),
    Cell("tick.before", "reconcile", "hang"),
)


def ends_well(work: Work) -> None:
    """Nothing of this work was lost or doubled."""
    assert await_quiet(work.instance.ledger_url, QUIET_SECONDS)
    verdict = judge(work)
    assert verdict.is_good, str(verdict)
