"""The quarantine over HTTP and on the command line: what an operator sees and does, and what other keys cannot."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner, Result

from sluice.cli.main import app
from sluice.ledger.ledger import Ledger
from sluice.workers.service.callers import ApiKeys
from tests.support.held_passage import TEXT, holds
from tests.support.served import served
from tests.support.valkey import Valkey

HELD = "/v1/quarantine"


def ok(response: Any, status: int = 200) -> Any:
    """What is answered; of a list its items."""
    assert response.status_code == status, response.text
    told = response.json()
    return told["data"] if isinstance(told, dict) and "next_cursor" in told else told


def test_a_chunk_is_listed_shown_released_and_its_run_recorded(
    http: TestClient, ledger: Ledger, valkey: Valkey
) -> None:
    held_id = holds(ledger, valkey.settings.data_dir)
    [listed] = ok(http.get(HELD, params={"corpora": ["docs"], "rule": "override"}))
    assert (listed["id"], "text" in listed) == (held_id, False)
    assert ok(http.get(f"{HELD}/{held_id}"))["text"] == TEXT
    released = ok(http.post(f"{HELD}/{held_id}/release", params={"note": "a manual"}), 202)
    assert ledger.run(released["run_id"]).status == "open"
    whole = ok(http.get(f"{HELD}/{held_id}"))
    assert (whole["state"], whole["operator"], whole["actions"][0]["note"]) == ("released", "local", "a manual")
    assert http.post(f"{HELD}/{held_id}/release").status_code == 409
    assert http.get(f"{HELD}/qtn_none").status_code == 404
    assert http.get(HELD, params={"cursor": "x"}).json()["field"] == "cursor"


def test_a_purge_over_http_removes_the_text(http: TestClient, ledger: Ledger, valkey: Valkey) -> None:
    held_id = holds(ledger, valkey.settings.data_dir)
    purged = ok(http.post(f"{HELD}/{held_id}/purge"))
    assert (purged["state"], purged["text"]) == ("purged", None)
    assert not list((valkey.settings.data_dir / "blobs").glob("*/*/*.zst"))
    assert http.post(f"{HELD}/{held_id}/purge").status_code == 409


def test_only_an_operator_of_the_corpus_may_look_and_act(http: TestClient, ledger: Ledger, valkey: Valkey) -> None:
    held_id = holds(ledger, valkey.settings.data_dir)
    keys = ApiKeys(ledger)
    (_, agent), (_, other), (_, own) = (
        keys.create("a", "agent", []),
        keys.create("b", "operator", ["other"]),
        keys.create("c", "operator", ["docs"]),
    )

    def as_of(key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"}

    assert http.get(HELD, headers=as_of(agent)).status_code == 403
    assert ok(http.get(HELD, headers=as_of(other))) == []
    assert http.get(HELD, params={"corpora": ["docs"]}, headers=as_of(other)).status_code == 403
    for path in (held_id, f"{held_id}/release", f"{held_id}/purge"):
        call = http.get if path == held_id else http.post
        assert call(f"{HELD}/{path}", headers=as_of(other)).status_code == 404
    assert len(ok(http.get(HELD, headers=as_of(own)))) == 1


@pytest.fixture
def sluice(valkey: Valkey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Result]]:
    for name in [name for name in os.environ if name.startswith("SLUICE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICE_DATA_DIR", str(valkey.settings.data_dir))
    with served(valkey.settings):
        yield lambda *arguments: CliRunner().invoke(app, ["quarantine", *arguments], prog_name="sluice")


def test_the_command_marks_what_was_found_and_asks_before_it_purges(
    sluice: Callable[..., Result], valkey: Valkey
) -> None:
    with Ledger(valkey.settings.ledger_location) as ledger:
        held_id = holds(ledger, valkey.settings.data_dir)
    assert held_id in sluice("list", "--rule", "override", "--url", "https://example.org/").stdout
    assert "none" in sluice("list", "--url", "https://example.com/").stdout
    shown = sluice("show", held_id).stdout
    assert "⟦Ignore [bold]all⟧" in shown.replace("\n", " ").replace("\ufffd", "")
    assert "\x1b[2J" not in shown
    assert sluice("purge", held_id).exit_code == 2
    assert json.loads(sluice("purge", held_id, "--yes", "--note", "spam", "--json").stdout)["note"] == "spam"
    assert "its text was removed" in sluice("show", held_id).stdout
    assert sluice("release", held_id, "--wait", "0").exit_code == 5


def test_the_command_releases_a_chunk_with_a_run(sluice: Callable[..., Result], valkey: Valkey) -> None:
    with Ledger(valkey.settings.ledger_location) as ledger:
        held_id = holds(ledger, valkey.settings.data_dir)
        released = json.loads(sluice("release", held_id, "--wait", "0", "--json").stdout)
        assert ledger.run(released["run_id"]).status == "open"
    assert held_id in sluice("list", "--state", "released").stdout
