"""Runs, as far as a caller may see them."""

from __future__ import annotations

from sluice.contracts.api import ENDED, RunKind, RunStatus, RunView
from sluice.contracts.errors import NotFound
from sluice.contracts.event import Event
from sluice.ledger.ledger import Ledger, RunSummary
from sluice.workers.service.caller import Caller

__all__ = ["RunSummary", "Runs"]


class Runs:
    """What can be asked about the runs of one instance."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def one(self, run_id: str, caller: Caller) -> RunView:
        """Everything about a run.

        Raises:
            NotFound: there is no such run, or it is not the caller's to see.
        """
        run = self._ledger.run(run_id)
        if not caller.may_see(run.corpus):
            raise NotFound(f"no run {run_id}")
        return run

    def recent(
        self, caller: Caller, corpus: str | None, status: RunStatus | None, limit: int, kind: RunKind | None = None
    ) -> list[RunSummary]:
        """Runs of one corpus, or of all that the caller may touch, the newest first.

        Raises:
            Forbidden: the corpus is not the caller's.
        """
        if corpus is not None:
            caller.may_touch(corpus)
        wanted = [corpus] if corpus is not None or caller.corpora is None else sorted(caller.corpora)
        found = [run for one in wanted for run in self._ledger.runs(limit=limit, corpus=one, status=status, kind=kind)]
        return sorted(found, key=lambda run: run.run_id, reverse=True)[:limit]

    def ended(self, run_id: str) -> RunView | None:
        """The run, once it has ended."""
        return self._ledger.run(run_id) if self.has_ended(run_id) else None

    def has_ended(self, run_id: str) -> bool:
        """Whether no event of the run can come any more but feedback: the cheapest question about it."""
        return self._ledger.status_of(run_id) in ENDED

    def events_after(self, run_id: str, position: int, limit: int) -> list[tuple[int, Event]]:
        """The run's events behind a position, in order, each with its own."""
        return self._ledger.events_after(run_id, position, limit)
