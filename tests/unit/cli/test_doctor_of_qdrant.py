"""`sluice doctor` and the page of many machines tell one list of what Qdrant lacks."""

from __future__ import annotations

from pathlib import Path

from sluice.cli.instance.doctor import checks_of
from sluice.index.qdrant import LACKS
from sluice.workers.settings import Settings
from tests.support.loopback_qdrant import serving
from tests.support.repository import REPOSITORY


def test_the_page_tells_what_it_lacks() -> None:
    page = (REPOSITORY / "docs/many-machines.md").read_text().partition("\n## Qdrant\n")[2].partition("\n## ")[0]
    rows = dict(line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| "))
    assert {name: told for name, told in rows.items() if name != "lacks"} == LACKS


def test_doctor_asks_the_server_and_tells_what_it_lacks(tmp_path: Path) -> None:
    with serving() as server:
        qdrant = {"url": server.url}
        settings = Settings.model_validate({"data_dir": tmp_path, "index": {"engine": "qdrant"}, "qdrant": qdrant})
        answering = next(check for check in checks_of(settings) if check.name == "index")
        server.status = 500
        away = next(check for check in checks_of(settings) if check.name == "index")
    assert (answering.state, away.state) == ("ok", "fail")
    assert all(name in answering.detail for name in ("0 corpora", *LACKS))
