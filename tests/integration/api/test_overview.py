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

from sluice.contracts.event import QUEUES, Retry
from sluice.ledger import overview, reader
from sluice.ledger.audit import actions_on, record
from sluice.ledger.ledger import Claim, Ledger
from sluice.ledger.schema.tables import stage_minutes
from sluice.workers.service.operate.overview import look as glance
from tests.support.api_keys import bearer
from tests.support.postgresql import empty_schema
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


def test_any_key_may_read_the_work_of_a_stage(http: TestClient, ledger: Ledger) -> None:
    scaler = bearer(http, "agent", "none")
    path = "/v1/stages/query/backlog"
    assert http.get(path, headers=scaler).json() == {"ready": 0, "claimed": 0, "due_soon": 0, "open": 0}
    for question in ("who?", "when?"):
        http.post("/v1/gate", json={"query": question, "create_corpus": True}, headers=bearer(http, "agent"))
    claim = ledger.claim_next("query", "a-worker", 30.0)
    assert isinstance(claim, Claim)
    assert http.get(path, headers=scaler).json() == {"ready": 1, "claimed": 1, "due_soon": 0, "open": 2}
    ledger.settle(claim, Retry(30.0, "again"))
    assert http.get(path, headers=scaler).json() == {"ready": 1, "claimed": 0, "due_soon": 1, "open": 2}
    assert http.get("/v1/stages/tea/backlog", headers=scaler).status_code == 422
    assert http.get(path).status_code == 401


def test_a_paused_stage_needs_a_worker_for_its_probe_alone(ledger: Ledger, http: TestClient) -> None:
    for question in ("who?", "when?"):
        http.post("/v1/gate", json={"query": question, "create_corpus": True})
    ledger.pause("query", "it keeps failing", seconds=30.0)
    assert (ledger.backlog("query").ready, ledger.backlog("query").open) == (2, 1)
    ledger.pause("query", "their maintenance", operator="ana")
    assert (ledger.backlog("query").ready, ledger.backlog("query").open) == (2, 0)


@pytest.mark.parametrize("on", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def test_the_work_of_a_stage_is_counted_by_indices(on: str, ledger: Ledger, request: pytest.FixtureRequest) -> None:
    engine, explain = ledger.database.engine, "EXPLAIN QUERY PLAN "
    if on == "postgresql":
        other = Ledger(empty_schema(request.getfixturevalue("postgresql_cluster")))
        assert other.backlog("crawl").open == 0
        engine, explain = other.database.engine, "EXPLAIN "
    made = reader._WORK.params(of_queue="crawl", soon=1e9).compile(engine, compile_kwargs={"literal_binds": True})  # noqa: SLF001
    with engine.connect() as connection:
        if on == "postgresql":
            connection.exec_driver_sql("SET enable_seqscan = off")  # it would read an empty table whole
        plan = [str(row[-1]) for row in connection.exec_driver_sql(explain + str(made))]
    read = [step for step in plan if "events" in step and ("SCAN" in step.upper() or "SEARCH" in step)]
    assert len(read) == 3, plan
    assert all(("events_due" if on == "sqlite" else "using events_") in step for step in read), plan


@pytest.mark.parametrize("workers", [-1, 65, "many"])
def test_a_size_that_no_machine_has_is_refused_by_name(http: TestClient, workers: object) -> None:
    answer = http.post("/v1/stages/crawl/scale", json={"workers": workers})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/workers"
