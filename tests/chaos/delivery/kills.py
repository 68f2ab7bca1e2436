"""Random kills: processes die at any moment while work flows, and nothing may be lost or come twice.

The same plan with the product's healing switched off must lose something: otherwise the kills hit nothing, and the
suite would prove nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.delivery.instance import BLAMELESS, LEASE_SECONDS, ChaosInstance
from tests.chaos.delivery.plan import Kill, Killer, kill_plan
from tests.chaos.delivery.recovery import recovery
from tests.chaos.delivery.site import Site
from tests.chaos.delivery.truth import count
from tests.chaos.delivery.verdict import OPEN, await_quiet, judge
from tests.chaos.delivery.work import Work
from tests.chaos.report import Result

MEAN_SECONDS = 1.3
BACKLOG = 300
"""Open events that are kept before the workers, so that a kill finds them at work."""
RUNS_AT_ONCE = 30
QUIET_SECONDS = 120.0
"""After the last kill everything must be done within this: a lease, a restart and the backlog."""
STILL_SECONDS = 15.0
"""Without healing: when nothing has moved for so long nothing will."""
RECOVERY_LIMIT_SECONDS = LEASE_SECONDS + 15.0
HANDLED = "SELECT count(*) FROM events WHERE queue IS NOT NULL"


def random_kills(folder: Path, seed: int, kills: int = 300, events: int = 20_000) -> list[Result]:
    """Kills over at least so many events that workers have to handle; with it, how soon work went on."""
    site, plan = Site(), kill_plan(seed, kills, MEAN_SECONDS)
    with ChaosInstance(folder, site.settings() | BLAMELESS) as instance:
        work = Work(instance, f"kills-{seed}", site.address)
        killer = feed_under_kills(work, plan, events)
        quiet = await_quiet(instance.ledger_url, QUIET_SECONDS)
        verdict = judge(work)
        handled = count(instance.ledger_url, HANDLED)
        found = recovery(instance.witness_path)
    site.stop()
    done = f"{killer.delivered} SIGKILLs (seed {seed}) over {handled:,} events of {len(work.sent):,} runs"
    enough = killer.delivered == kills and handled >= events
    p99 = found.percentile(99)
    return [
        Result(
            "random kills",
            done,
            "0 lost, 0 doubled",
            quiet and verdict.is_good and enough,
            {
                "lost": len(verdict.lost),
                "doubled": len(verdict.doubled),
                "documents": verdict.figures["documents"],
                "kills that hit work": found.holding,
            },
            (*verdict.lost, *verdict.doubled, *_unless(killer.problem is None, str(killer.problem))),
        ),
        Result(
            "recovery",
            f"{len(found.seconds)} events held by {found.holding} of the killed processes",
            f"p99 ≤ lease + 15 s = {RECOVERY_LIMIT_SECONDS:g} s",
            bool(found.seconds) and p99 <= RECOVERY_LIMIT_SECONDS,
            {"p50 s": found.percentile(50), "p99 s": p99, "max s": max(found.seconds, default=0.0)},
        ),
    ]


def kills_without_healing(folder: Path, seed: int, kills: int = 100, events: int = 2_000) -> list[Result]:
    """The first kills of the same plan, without reconciler and handing back: they must lose."""
    site, plan = Site(), kill_plan(seed, kills, MEAN_SECONDS)
    with ChaosInstance(folder, site.settings() | BLAMELESS, heals=False) as instance:
        work = Work(instance, f"kills-{seed}", site.address)
        killer = feed_under_kills(work, [one for one in plan if one.target != "reconciler"], events)
        await_quiet(instance.ledger_url, QUIET_SECONDS, STILL_SECONDS)
        verdict = judge(work)
    site.stop()
    runs = len({problem.split()[1] for problem in verdict.lost if problem.startswith("run ")})
    return [
        Result(
            "the same without healing",
            f"the first {killer.delivered} SIGKILLs of the same plan, no reconciler, nothing handed back",
            "must lose some",
            runs > 0 and not verdict.doubled,
            {"runs lost": runs, "of": len(work.sent), "doubled": len(verdict.doubled)},
            verdict.doubled,
        )
    ]


def feed_under_kills(work: Work, plan: Sequence[Kill], events: int) -> Killer:
    """Send work until the plan is carried out and enough events were made; a stalled instance gets no more."""
    ledger, number = work.instance.ledger_url, 0
    with Killer(plan, work.instance.kill) as killer:
        while not killer.is_done or count(ledger, HANDLED) < events:
            if count(ledger, OPEN) < BACKLOG:
                work.mixed(range(number, number + RUNS_AT_ONCE))
                number += RUNS_AT_ONCE
            elif killer.is_done and not await_quiet(ledger, QUIET_SECONDS, STILL_SECONDS):
                break
            else:
                time.sleep(0.2)
    return killer


def _unless(good: bool, problem: str) -> tuple[str, ...]:
    return () if good else (problem,)
