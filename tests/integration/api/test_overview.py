"""An instance at a glance over HTTP, and the size of a pool as an operator asks for it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Select
from starlette.testclient import TestClient

from sluice.contracts.event import QUEUES
from sluice.ledger import overview
from sluice.ledger.audit import actions_on, record
from sluice.ledger.ledger import Ledger
from sluice.ledger.schema.tables import stage_minutes
from sluice.workers.service.operate.overview import look as glance
from tests.support.api_keys import bearer
from tests.support.valkey import Valkey


def look(http: TestClient) -> dict[str, Any]:
    answer = http.get("/v1/overview")
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def test_it_tells_of_stages_runs_spending_and_health(http: TestClient, ledger: Ledger) -> None:
    run = http.post("/v1/gate", json={"query": "who?", "create_corpus": True}).json()["run_id"]
    told = look(http)
    assert [stage["stage"] for stage in told["stages"]] == [*QUEUES]
    query = next(stage for stage in told["stages"] if stage["stage"] == "query")
    assert (query["ready"], query["workers"], query["workers_wanted"], query["is_scaled_here"]) == (1, 0, 4, False)
    assert [one["run_id"] for one in told["oldest_runs"]] == [run]
    assert {one["unit"]: one["ceiling"] for one in told["spending"]}["usd"] == 5.0
    assert not told["ok"], "no worker runs"
    assert not told["checks"]["workers"]["ok"]
    assert (told["missing"], told["last_backup_at"]) == ([], None)


def test_it_has_the_last_hour_of_a_stage_and_the_last_backup(http: TestClient, ledger: Ledger) -> None:
    minute = int(time.time() // 60)
    sums = {"entered": 3, "handled": 2, "failed": 1, "parked": 1, "wait_ms": 400, "work_ms": 80, "longest_wait_ms": 300}
    with ledger.database.writing() as connection:
        for at in (minute - 59, minute - 61):
            connection.insert(stage_minutes, {"stage": "crawl", "minute": at, **sums})
        for place in ("/backups/monday.tar", "/backups/tuesday.tar"):
            record(connection, time.time(), "ana", "backup", ["instance"], place)
    told = look(http)
    crawl = next(stage for stage in told["stages"] if stage["stage"] == "crawl")
    assert [(one["handled"], one["mean_wait_ms"], one["mean_work_ms"]) for one in crawl["minutes"]] == [(2, 100, 20)]
    assert told["last_backup"] == "/backups/tuesday.tar"


def test_each_read_of_the_ledger_goes_by_an_index(ledger: Ledger) -> None:
    queries = [one for name, one in vars(overview).items() if name.startswith("_") and isinstance(one, Select)]
    with sqlite3.connect(str(ledger.database.url.database)) as file:
        for query in queries:
            bound = query.params(after=1, since=1, of_status="open")
            made = bound.compile(ledger.database.engine, compile_kwargs={"render_postcompile": True})
            plan = [str(row[-1]) for row in file.execute(f"EXPLAIN QUERY PLAN {made}", [1] * str(made).count("?"))]
            assert [step for step in plan if "INDEX" in step or "PRIMARY KEY" in step], query
            assert [step for step in plan if step.startswith("SCAN") and "_backups" not in step] == [], plan
    assert queries


def test_what_cannot_be_read_is_named_and_the_rest_is_told(serve: Callable[..., TestClient], tmp_path: Path) -> None:
    http = serve(broker_url=f"unix://{tmp_path}/nobody.sock")
    told = look(http)
    assert told["missing"] == ["broker"]
    assert len(told["stages"]) == len(QUEUES)
    assert not told["ok"]


def test_a_ledger_that_is_away_leaves_the_rest_told(http: TestClient, ledger: Ledger, valkey: Valkey) -> None:
    ledger.close()
    valkey.settings.own_ledger.unlink()
    valkey.settings.own_ledger.mkdir()
    told = glance(http.app.state.instance.context)  # type: ignore[attr-defined]
    assert {"stages", "ledger", "pool_sizes", "spending"} <= {*told.missing}
    assert (told.checks["broker"].ok, told.checks["ledger"].ok) == (True, False)


def test_a_pool_size_is_recorded_shown_and_taken_back(http: TestClient, ledger: Ledger, valkey: Valkey) -> None:
    operator = bearer(http, "operator")

    def wanted() -> int:
        stages = http.get("/v1/overview", headers=operator).json()["stages"]
        return next(int(stage["workers_wanted"]) for stage in stages if stage["stage"] == "crawl")

    answer = http.post("/v1/stages/crawl/scale", json={"workers": 0, "note": "night"}, headers=operator).json()
    assert (answer["workers_wanted"], answer["is_scaled_here"]) == (0, False)
    assert "docker compose up -d --scale crawl=0" in answer["how"]
    more = http.post("/v1/stages/crawl/scale", json={"workers": 9}, headers=operator).json()
    assert "--scale crawl=3" in more["how"], "each of compose handles four"
    http.post("/v1/stages/crawl/scale", json={"workers": 0}, headers=operator)
    assert wanted() == 0
    assert "crawl" not in http.get("/healthz", headers=operator).json()["checks"]["workers"]["detail"]
    http.post("/v1/stages/crawl/scale", json={"workers": None}, headers=operator)
    assert wanted() == valkey.settings.pools.crawl
    with ledger.database.reading() as connection:
        acts = [(one.action, one.note) for one in actions_on(connection, "stage:crawl")]
    assert acts == [("scale", note) for note in ("0: night", "9", "0", "as the settings say")]


@pytest.mark.parametrize("workers", [-1, 65, "many"])
def test_a_size_that_no_machine_has_is_refused_by_name(http: TestClient, workers: object) -> None:
    answer = http.post("/v1/stages/crawl/scale", json={"workers": workers})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/workers"
