"""Sessions of one instance asked again of another: what each answer was, and what it is there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import quantiles
from typing import NamedTuple

from sluice.contracts.base import Value
from sluice.contracts.index import Answer
from sluice.contracts.plan import Plan

MOST_LOST = 0.05
MOST_SLOWER = 1.2
"""Largest p95 of the replayed runs, as a multiple of that of the runs themselves."""
LEAST_RUNS_OF_P95 = 20
"""Runs below which a p95 is one run's time, and decides nothing."""


class Outcome(NamedTuple):
    """One answer to a question. `failure` is empty, or the reason why there is none."""

    plan: Plan | None
    answer: Answer | None
    seconds: float | None
    failure: str = ""


class ReplayedRun(Value):
    """One question before and now. `kept` is the share of the sources cited before that are cited again; None without.
    `without_source` counts the citations of now that name neither an address nor an origin."""

    session: str
    run_id: str
    new_run_id: str
    query: str
    plan: Plan | None
    new_plan: Plan | None
    cited: int
    new_cited: int
    kept: float | None
    without_source: int
    seconds: float | None
    new_seconds: float | None
    failure: str = ""

    @property
    def is_lost(self) -> bool:
        """Return whether the question had an answer with sources, and has none now."""
        return self.cited > 0 and self.new_cited == 0


class SessionReplay(Value):
    """The replay of sessions. `kept` is the mean share of the sources cited before that are cited again, `slower` the
    p95 as a multiple of the former one; None with too few runs."""

    sessions: int
    runs: int
    failed: int
    changed_plans: int
    lost: int
    without_source: int
    kept: float | None
    slower: float | None
    replayed: tuple[ReplayedRun, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """Return what speaks against the other instance, in words."""
        answered = sum(one.cited > 0 for one in self.replayed)
        found = {
            f"{self.failed} runs failed": self.failed > 0,
            f"{self.lost} of {answered} answers have no sources any more": self.lost > MOST_LOST * answered,
            f"{self.without_source} citations name no source": self.without_source > 0,
            f"p95 is {self.slower or 0:.2f} times the former": (self.slower or 0) > MOST_SLOWER,
        }
        return tuple(problem for problem, is_there in found.items() if is_there)


def compare(session: str, run_id: str, query: str, before: Outcome, new_run_id: str, now: Outcome) -> ReplayedRun:
    """Compare a question's answer with that of the other instance."""
    were, are = _sources(before.answer), _sources(now.answer)
    citations = now.answer.citations if now.answer else ()
    return ReplayedRun(
        session=session,
        run_id=run_id,
        new_run_id=new_run_id,
        query=query,
        plan=before.plan,
        new_plan=now.plan,
        cited=len(before.answer.citations) if before.answer else 0,
        new_cited=len(citations),
        kept=len(were & are) / len(were) if were else None,
        without_source=sum(one.url is None and one.origin is None for one in citations),
        seconds=before.seconds,
        new_seconds=now.seconds,
        failure=now.failure,
    )


def summarise(replayed: Sequence[ReplayedRun]) -> SessionReplay:
    """Return the replay as a whole."""
    kept = [one.kept for one in replayed if one.kept is not None]
    was, is_now = _p95(one.seconds for one in replayed), _p95(one.new_seconds for one in replayed)
    return SessionReplay(
        sessions=len({one.session for one in replayed}),
        runs=len(replayed),
        failed=sum(bool(one.failure) for one in replayed),
        changed_plans=sum(one.plan != one.new_plan for one in replayed),
        lost=sum(one.is_lost for one in replayed),
        without_source=sum(one.without_source for one in replayed),
        kept=sum(kept) / len(kept) if kept else None,
        slower=is_now / was if was and is_now else None,
        replayed=tuple(replayed),
    )


def _sources(answer: Answer | None) -> set[str]:
    """Return the documents that an answer cites: by address, or by path without the lines."""
    return {one.url or one.source.rsplit(":", 1)[0] for one in (answer.citations if answer else ())}


def _p95(seconds: Iterable[float | None]) -> float | None:
    known = [one for one in seconds if one is not None]
    return quantiles(known, n=20)[-1] if len(known) >= LEAST_RUNS_OF_P95 else None
