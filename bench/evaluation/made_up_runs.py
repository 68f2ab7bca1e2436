"""Runs that never were: rows of `outcomes`, written straight into a ledger."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from sqlalchemy import insert

from sluice.contracts.plan import Plan
from sluice.ledger.ledger import Ledger
from sluice.ledger.schema.tables import outcomes

PROFILES = ("default", "fresh", "code", "marketing")
PLANS = tuple(Plan)
_AT_ONCE = 10_000
_INSERT = insert(outcomes).returning(outcomes.c.run_id)


def rows(count: int, began_at: float, seconds: float, seed: int = 0) -> Iterator[dict[str, Any]]:
    """`count` runs, decided evenly over `seconds`; 60 % of them judged, most within the hour."""
    draw = random.Random(seed)
    for number in range(count):
        decided_at = began_at + seconds * number / count
        plan = draw.choice(PLANS)
        outside = plan in (Plan.SEARCH, Plan.FULL_LOOP)
        is_judged = draw.random() < 0.6
        age = draw.expovariate(1 / 86_400)
        milliseconds = draw.lognormvariate(7 if outside else 4, 0.7)
        pages = draw.randrange(9) if plan is Plan.FULL_LOOP else 0
        yield {
            "run_id": f"run_{seed}_{number:09d}",
            "corpus": "default",
            "profile": draw.choice(PROFILES),
            "plan": plan.value,
            "config_hash": f"{number // 200_000:064d}",
            "model_version": draw.choice((None, "m1")),
            "arm": None,
            "propensity": 1.0,
            "flags": "",
            "decided_at": decided_at,
            "finished_at": decided_at + milliseconds / 1e3,
            "status": "finished",
            "spent_nanousd": int(draw.expovariate(1 / 5e6)) if outside else 0,
            "tokens": draw.randrange(4_000),
            "milliseconds": milliseconds,
            "external_calls": outside + pages,
            "pages_asked": pages,
            "pages_read": draw.randrange(pages + 1),
            "cited": 8,
            "used": draw.randrange(9) if is_judged else None,
            "cited_age_seconds": age,
            "cited_age_without_crawl_seconds": age * draw.uniform(1, 3),
            "signals": json.dumps({"task_satisfaction": draw.choice((0.0, 0.5, 1.0, 1.0))}) if is_judged else "{}",
            "judged_at": decided_at + draw.expovariate(1 / 900) if is_judged else None,
            "changed_at": decided_at,
        }


def fill(ledger: Ledger, count: int, began_at: float, seconds: float, seed: int = 0) -> None:
    """Write that many runs."""
    batch: list[dict[str, Any]] = []
    for row in rows(count, began_at, seconds, seed):
        batch.append(row)
        if len(batch) == _AT_ONCE:
            _write(ledger, batch)
            batch = []
    if batch:
        _write(ledger, batch)


def _write(ledger: Ledger, batch: list[dict[str, Any]]) -> None:
    with ledger.database.writing() as connection:
        connection.insert_each(_INSERT, batch)
