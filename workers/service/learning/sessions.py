"""Asks the recorded sessions of this instance again of another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import islice

from sluice.contracts.gate import GateRequested
from sluice.evaluation.session_replay import Outcome, ReplayedRun, SessionReplay, compare, summarise
from sluice.gate.learned.rollout import unit_of
from sluice.workers.context import Context
from sluice.workers.service.learning.evaluation import decided_runs

Ask = Callable[[GateRequested, str], tuple[str, Outcome]]
"""Asks the other instance a question about a corpus; returns the id of its run, and what came of it."""


def replay_sessions(
    context: Context,
    ask: Ask,
    since: datetime,
    *,
    session: str | None = None,
    corpus: str | None = None,
    most: int = 100,
) -> SessionReplay:
    """Ask the questions of the sessions that were decided since then, in order, and compare; at most `most` of them.

    A session is named by its agent, or else by what its user said first; a run without either is a session of its own.
    """
    return summarise(list(islice(_replayed(context, ask, since, session, corpus), most)))


def _replayed(
    context: Context, ask: Ask, since: datetime, session: str | None, corpus: str | None
) -> Iterator[ReplayedRun]:
    for run in list(decided_runs(context.ledger, since, corpus=corpus)):  # the other one may be this one
        [event] = context.ledger.events_of_kind(run.run_id, GateRequested.kind)
        request = event.body_as(GateRequested)
        _, name = unit_of(request, run.run_id, "session")
        if session in (None, name):
            seconds = None if run.milliseconds is None else run.milliseconds / 1e3
            before = Outcome(run.plan, context.ledger.run(run.run_id).answer, seconds)
            yield compare(name, run.run_id, request.query, before, *ask(request, run.corpus))
