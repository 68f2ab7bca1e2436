"""Deaths of the process that sends to webhooks: each event arrives at least once, and in order within its run."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.chaos.delivery.failpoints import HOOKS, Cell
from tests.chaos.delivery.instance import BLAMELESS, ChaosInstance
from tests.chaos.delivery.plan import wait_until
from tests.chaos.delivery.verdict import await_quiet
from tests.chaos.delivery.witness import facts
from tests.chaos.delivery.work import Work
from tests.chaos.report import Result
from tests.support.hook_receiver import Received, Receiver, receiving

RUNS_PER_DEATH = 10
QUIET_SECONDS = 120.0
ARRIVED_SECONDS = 180.0
"""A lease of a delivery, a restart, and what waits."""


def every_death() -> tuple[Cell, ...]:
    """A death before and one after each seam."""
    return tuple(
        Cell(f"{seam}.{side}", role, "kill")
        for seam, (_, roles) in HOOKS.items()
        for role in roles
        for side in ("before", "after")
    )


def hooks(folder: Path, seed: int) -> list[Result]:
    """Every death, with questions and documents for each."""
    with receiving() as receiver, hooked(folder, receiver) as instance:
        problems = told(instance, receiver, f"hooks-{seed}", every_death())
    return [
        Result(
            "webhooks × kill",
            f"{len(every_death())} deaths, {RUNS_PER_DEATH} runs each",
            "each event at least once, in order within its run",
            not problems,
            {"deaths": len(every_death()), "received": len(receiver.received), "problems": len(problems)},
            tuple(problems),
        )
    ]


def hooked(folder: Path, receiver: Receiver) -> ChaosInstance:
    """An instance that may post to the receiver."""
    return ChaosInstance(folder, BLAMELESS | {"EGRESS__ALLOW": json.dumps([receiver.allowed])})


def told(instance: ChaosInstance, receiver: Receiver, name: str, deaths: Sequence[Cell]) -> list[str]:
    """What is wrong with what the receiver was told of runs during which these deaths happened."""
    made = instance.http.post("/v1/webhooks", json={"url": receiver.url, "types": ["run.finished", "answer.ready"]})
    path = f"/v1/webhooks/{made.raise_for_status().json()['id']}"
    work = Work(instance, name)
    started_at = instance.witness_path.stat().st_size
    for number, cell in enumerate(deaths):
        instance.arm(cell)
        begin = number * RUNS_PER_DEATH
        work.documents(range(begin, begin + RUNS_PER_DEATH // 2))
        work.questions(range(begin, begin + RUNS_PER_DEATH // 2))
    problems = [] if await_quiet(instance.ledger_url, QUIET_SECONDS) else ["the runs are not over"]

    def is_told() -> bool:
        return bool(instance.http.get(path).raise_for_status().json()["pending"] == 0)

    if not wait_until(is_told, ARRIVED_SECONDS):
        problems.append(f"deliveries wait still: {instance.http.get(path).json()}")
    fired = {fact.more["cell"] for fact in facts(instance.witness_path, "fired", after_byte=started_at)}
    problems += [f"{cell} did not happen" for cell in deaths if str(cell) not in fired]
    expected = {"gate": ["answer.ready", "run.finished"], "documents": ["run.finished"]}
    arrived = in_order(receiver.received)
    for sent in work.sent:
        if arrived[sent.run_id] != expected[sent.kind]:
            problems.append(f"of {sent.run_id} ({sent.kind}) came {arrived[sent.run_id]}")
    return problems


def in_order(received: Sequence[Received]) -> dict[str, list[str]]:
    """The types that came of each run, in the order of their first arrival."""
    seen: set[str] = set()
    found: dict[str, list[str]] = defaultdict(list)
    for one in received:
        if one.headers["webhook-id"] in seen:
            continue
        seen.add(one.headers["webhook-id"])
        body: dict[str, Any] = json.loads(one.body)
        found[body["data"]["run_id"]].append(body["type"])
    return found
