"""A disk that fills up under a running instance: reading goes on, writing is refused, and all ends by itself."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.instance import Instance
from tests.support.small_disk import SmallDisk
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(240)

SETTLE_SECONDS = 4.0
"""Within which the broker is told to write no file; until then it may refuse a query."""
MOST_LINES_A_MINUTE = 400
"""Of all processes together: ten alike of each kind of trouble."""


def documents(instance: Instance, name: str) -> Any:
    document = {"id": name, "text": f"A lease of {name} is renewed by a heartbeat."}
    return instance.http.post("/v1/documents", json={"documents": [document]})


def query(instance: Instance) -> Any:
    return instance.http.post("/v1/query", json={"query": "how is a lease renewed"})


def test_reads_go_on_writes_get_507_and_all_is_well_again_by_itself(small_disk: SmallDisk, tmp_path: Path) -> None:
    data_dir = small_disk.folder / "data"
    with Instance(tmp_path, DATA_DIR=str(data_dir)) as instance:
        instance.data_dir = data_dir
        instance.wait(documents(instance, "first").json()["run_id"])
        before, lines = instance.processes, len(instance.logs(1_000_000).splitlines())
        small_disk.fill()
        filled_at = time.monotonic()

        refused = documents(instance, "second")
        assert (refused.status_code, refused.json()["code"]) == (507, "disk_full"), refused.text
        assert refused.json()["remedy"]
        time.sleep(SETTLE_SECONDS)
        while time.monotonic() - filled_at < 20:
            assert query(instance).json()["chunks"]
            assert instance.http.get("/v1/runs").status_code == 200
            assert documents(instance, "third").status_code == 507
            time.sleep(0.5)
        health = instance.http.get("/healthz")
        assert health.status_code == 503
        assert health.json()["checks"]["disk"]["ok"] is False
        assert "MB left" in health.json()["checks"]["disk"]["detail"]
        assert "sluice_http_requests_total" in instance.http.get("/metrics").text
        print(instance.logs(1_000_000))
        assert len(instance.logs(1_000_000).splitlines()) - lines < MOST_LINES_A_MINUTE

        small_disk.make_room()
        until(lambda: documents(instance, "fourth").status_code == 202)
        instance.wait(documents(instance, "fifth").json()["run_id"])
        until(lambda: instance.http.get("/healthz").status_code == 200)
        assert instance.processes["api"] == before["api"]
        assert instance.processes == before
