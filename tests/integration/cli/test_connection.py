"""Commands find the instance whose data directory is here, and operate it by the key that stands there."""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner, Result

from sluice.cli.main import app
from sluice.contracts.event import Event, Next
from sluice.contracts.ingest import CrawlDirected
from sluice.ledger.ledger import Ledger, NewRun
from sluice.workers.service.callers import ApiKeys
from tests.support.gate_model import small_model, write_small_model
from tests.support.served import served
from tests.support.valkey import Valkey

Sluice = Callable[..., Result]


@pytest.fixture
def url(valkey: Valkey) -> Iterator[str]:
    with served(valkey.settings) as where:
        yield where


@pytest.fixture
def sluice(valkey: Valkey, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sluice:
    for name in [name for name in os.environ if name.startswith("SLUICE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICE_DATA_DIR", str(valkey.settings.data_dir))
    return lambda *arguments: CliRunner().invoke(app, [*arguments], prog_name="sluice")


def make_key(valkey: Valkey) -> str:
    with Ledger(valkey.settings.ledger_location) as ledger:
        return ApiKeys(ledger).create("ci", "agent", ())[1]


def test_a_new_instance_has_nothing_to_list(sluice: Sluice) -> None:
    for arguments in (["runs"], ["dead", "list"], ["quarantine", "list"], ["hosts"]):
        listed = sluice(*arguments, "--json")
        assert json.loads(listed.stdout) == [], listed.output
        assert "none" in sluice(*arguments).stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["runs", "run_x"],
        ["cancel", "run_x"],
        ["trace", "run_x"],
        ["trace", "0" * 32],
        ["gate", "explain", "run_x"],
        ["dead", "show", "x"],
        ["show", "x"],
    ],
)
def test_what_is_not_there_is_not_found(sluice: Sluice, arguments: list[str]) -> None:
    spoken, written = sluice(*arguments), sluice(*arguments, "--json")
    assert (spoken.exit_code, spoken.stdout) == (3, "")
    assert spoken.stderr.startswith("error ")
    assert (written.exit_code, json.loads(written.stdout)["error"]) == (3, "not_found")


def test_who_operates_on_this_machine_needs_no_key_of_a_name_and_is_recorded_by_his_own(
    sluice: Sluice, valkey: Valkey, url: str
) -> None:
    make_key(valkey)
    assert httpx.get(f"{url}/v1/stages").status_code == 401, "once there is a key, everybody needs one"
    paused = json.loads(sluice("stages", "pause", "crawl", "--why", "mending", "--json").stdout)
    assert {one["stage"]: one["paused_by"] for one in paused}["crawl"] == getpass.getuser()
    named = sluice("flags", "off", "rerank", "--operator", "ann", "--json")
    assert json.loads(named.stdout)["state"]["operator"] == "ann"


def test_the_key_of_this_machine_is_private_renewed_and_no_other(sluice: Sluice, valkey: Valkey, url: str) -> None:
    make_key(valkey)
    file = valkey.settings.data_dir / "api.json"
    told = json.loads(file.read_text())
    assert (told["url"], file.stat().st_mode & 0o777) == (url, 0o600)

    def status(key: str, **headers: str) -> int:
        return httpx.get(f"{url}/v1/stages", headers={"Authorization": f"Bearer {key}", **headers}).status_code

    assert status(told["key"]) == 200
    assert status(told["key"] + "x") == 401
    assert status(told["key"], Host="example.org") == 403
    with served(valkey.settings):
        renewed = json.loads(file.read_text())["key"]
        assert renewed != told["key"]
        assert (status(told["key"]), status(renewed)) == (401, 200)


def test_a_name_is_believed_of_this_machine_alone(valkey: Valkey, url: str) -> None:
    with Ledger(valkey.settings.ledger_location) as ledger:
        key = ApiKeys(ledger).create("ci", "operator", ())[1]
        headers = {"Authorization": f"Bearer {key}", "X-Sluice-Operator": "somebody else"}
        changed = httpx.put(f"{url}/v1/flags/rerank", json={"enabled": False}, headers=headers).json()
        assert changed["state"]["operator"] == ApiKeys(ledger).list()[0].id


def test_another_instance_is_asked_by_its_url_with_a_key_of_its_own_and_never_with_this_ones(
    sluice: Sluice, valkey: Valkey, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_URL", "")  # `--url` sets it; afterwards it is as it was
    key = make_key(valkey)
    assert sluice("--url", url, "runs").exit_code == 4, "the local key goes nowhere by name"
    monkeypatch.setenv("SLUICE_API_KEY", key)
    assert sluice("--url", url, "runs").exit_code == 0


def test_a_damaged_span_store_takes_nothing_from_a_run_and_is_told_where_a_trace_is_named(
    sluice: Sluice, valkey: Valkey
) -> None:
    with Ledger(valkey.settings.ledger_location) as ledger:
        event = Event.of(CrawlDirected(url="https://example.org/1"), run_id="run_1", corpus="docs")
        run = NewRun(run_id="run_1", kind="crawl", corpus="docs", request_sha256="0" * 64)
        ledger.create_run(run, [(event, Next(event.body))])
    (valkey.settings.data_dir / "spans.sqlite").write_bytes(b"no database" * 1_000)
    assert "so far = " in sluice("trace", "run_1").stdout
    result = sluice("trace", "0" * 32)
    assert result.exit_code == 1
    assert "the span store cannot be read" in result.stderr.replace("\n", "")


def test_profiles_are_listed_with_hash_and_thresholds(sluice: Sluice) -> None:
    profiles = {profile["name"]: profile for profile in json.loads(sluice("gate", "profiles", "--json").stdout)}
    assert {"default", "code", "marketing"} <= profiles.keys()
    assert len(profiles["default"]["config_hash"]) == 64
    assert profiles["default"]["search"] <= profiles["default"]["full_loop"]


def test_stages_show_the_threads_that_serve_them(sluice: Sluice, valkey: Valkey) -> None:
    listed = json.loads(sluice("stages", "--json").stdout)
    assert [one["stage"] for one in listed][:2] == ["gate", "search"]
    assert all("at_once" in one for one in listed)
    assert "threads" in sluice("stages").stdout
    assert [one["stage"] for one in json.loads(sluice("stages", "crawl", "--json").stdout)] == ["crawl"]


def test_two_verbs_at_once_or_none_to_do_it_to_are_refused(sluice: Sluice) -> None:
    for arguments in (["flags", "search", "--on", "--off"], ["flags", "--on"], ["stages", "--resume"]):
        assert sluice(*arguments).exit_code == 2


def test_a_model_that_has_a_part_without_its_flag_is_told_of(sluice: Sluice, valkey: Valkey) -> None:
    assert sluice("gate", "rollout").exit_code == 3
    write_small_model(small_model("m1", "test"), valkey.settings.data_dir)
    assert json.loads(sluice("gate", "rollout", "m1", "--shadow", "--json").stdout)["status"] == "shadow"
    sluice("flags", "learned_gate", "--off")
    assert "`sluice flags learned_gate --on`" in " ".join(sluice("gate", "rollout").stdout.split())
    refused = sluice("gate", "rollout", "m1", "--canary", "--stages", "many")
    assert (refused.exit_code, "stages" in refused.stderr) == (2, True)
    assert "# " in sluice("gate", "rollout", "m1", "--report").stdout
    assert json.loads(sluice("gate", "rollout", "--rollback", "--json").stdout)["status"] == "stopped"
