"""Deaths of the process that begins scheduled runs: each time that is due has one run, neither none nor two."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from sluice.ledger.ledger import Ledger
from tests.chaos.delivery.failpoints import SCHEDULES, Cell
from tests.chaos.delivery.instance import BLAMELESS, ChaosInstance
from tests.chaos.delivery.plan import wait_until
from tests.chaos.delivery.verdict import await_quiet
from tests.chaos.delivery.witness import facts
from tests.chaos.report import Result

SCHEDULES_AT_ONCE = 5
BEGUN_SECONDS = 90.0
"""For a restart of the process, and the runs of all schedules."""
QUIET_SECONDS = 120.0


def every_death() -> tuple[Cell, ...]:
    """A death before and one after each seam."""
    return tuple(
        Cell(f"{seam}.{side}", role, "kill")
        for seam, (_, roles) in SCHEDULES.items()
        for role in roles
        for side in ("before", "after")
    )


def schedules(folder: Path, seed: int) -> list[Result]:
    """Every death, while some schedules are due."""
    with ChaosInstance(folder, BLAMELESS) as instance:
        problems = begun(instance, f"schedules-{seed}", every_death())
    return [
        Result(
            "schedules × kill",
            f"{len(every_death())} deaths, {SCHEDULES_AT_ONCE} schedules",
            "each time that is due has one run",
            not problems,
            {"deaths": len(every_death()), "problems": len(problems)},
            tuple(problems),
        )
    ]


def begun(instance: ChaosInstance, name: str, deaths: Sequence[Cell]) -> list[str]:
    """What is wrong with the runs of schedules that were due once for each of these deaths."""
    made = {}
    for number in range(SCHEDULES_AT_ONCE):
        body = {"gate": {"query": f"{name}: what of {number}?"}, "every": "P1D"}
        made[f"{name}: what of {number}?"] = (
            instance.http.post("/v1/schedules", json=body).raise_for_status().json()["id"]
        )
    started_at = instance.witness_path.stat().st_size
    problems: list[str] = []
    with Ledger(instance.ledger_url) as ledger:
        for cell in deaths:
            instance.arm(cell)
            now = time.time()
            for schedule_id in made.values():
                ledger.schedules.change(schedule_id, {"due_at": now})
            if not wait_until(partial(_have_moved, ledger, made.values(), now), BEGUN_SECONDS):
                problems.append(f"{cell}: schedules are due still")
            if not await_quiet(instance.ledger_url, QUIET_SECONDS):
                problems.append(f"{cell}: the runs are not over")
        for query in made:
            count = len(ledger.runs(100, text=query))
            if count != len(deaths):
                problems.append(f"{query} has {count} runs for {len(deaths)} times")
    fired = {fact.more["cell"] for fact in facts(instance.witness_path, "fired", after_byte=started_at)}
    return problems + [f"{cell} did not happen" for cell in deaths if str(cell) not in fired]


def _have_moved(ledger: Ledger, schedule_ids: Iterable[str], since: float) -> bool:
    """Whether each of these schedules has a next time that is still to come."""
    next_times = (ledger.schedules.find(one).next_at for one in schedule_ids)
    return all(at is not None and at.timestamp() > since + 1 for at in next_times)
