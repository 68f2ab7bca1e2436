"""`sluice eval review` and `sluice eval phase` on a ledger with runs: what they write, and how they leave."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluice.cli.main import app
from sluice.contracts.api import FeedbackRequest, GateRequest
from sluice.contracts.learning.control import Defence, FlagName
from sluice.contracts.learning.events import DefenceTripped
from sluice.ledger.audit import ControlChange, record_control
from tests.support.in_process import Instance, MakeInstance
from tests.support.served import served


@pytest.fixture
def instance(make_instance: MakeInstance, monkeypatch: pytest.MonkeyPatch) -> Instance:
    instance = make_instance()
    instance.adds("A lease is renewed by its holder every five seconds. One that is not is free after fifteen.")
    instance.works("chunk", "embed", "index")
    run_id = instance.service.ask(GateRequest(query="How often does the holder renew a lease?")).run_id
    instance.works("query", "gate", "query")
    instance.service.give_feedback(FeedbackRequest(run_id=run_id, outcome="success"))
    instance.works("gate")
    decision = instance.context.ledger.run(run_id).decision
    assert decision is not None
    instance.context.ledger.configurations.record("default", decision.config_hash, decision.decided_at.timestamp())
    monkeypatch.setenv("SLUICE_DATA_DIR", str(instance.context.settings.data_dir))
    return instance


def sluice(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(arguments))
    return done.exit_code, done.stdout


def test_the_packet_tells_costs_configurations_and_red_team_results(instance: Instance, tmp_path: Path) -> None:
    redteam = tmp_path / "redteam.json"
    channel = {"channel": "meta", "is_overt": True, "sent": 3, "kept_out": 2, "warned": 1, "unmarked": 0}
    redteam.write_text(json.dumps({"corpus": "redteam-1", "channels": [channel]}))
    code, _ = sluice("eval", "review", "--since", "1d", "--redteam", str(redteam), "--output", str(tmp_path / "out"))
    assert code == 0
    told = (tmp_path / "out" / "review.md").read_text()
    assert "| default | retrieve | 1 | 100% | 1.000" in told
    assert "default by " in told
    assert "- meta: 3 sent, 2 kept out, 1 warned, 0 unmarked" in told
    packet = json.loads((tmp_path / "out" / "review.json").read_text())
    assert packet["plans"]["default"]["all"]["runs"] == 1


def test_what_steered_the_gate_stands_among_the_steps(instance: Instance, tmp_path: Path) -> None:
    since = datetime(2031, 5, 6, 12, tzinfo=UTC)
    defence = Defence(name="satisfaction", step="retrieve_only", profile="default", since=since, why="w", lifted_by="l")
    tripped = ControlChange((DefenceTripped(defence=defence),), "defence_trip", "defence:satisfaction:default")
    ledger = instance.context.ledger
    with ledger.database.writing() as connection:
        record_control(connection, tripped, ledger.clock())
    flag: FlagName = "rerank"
    with served(instance.context.settings):
        assert sluice("flags", "off", flag, "--note", "too slow")[0] == 0
    sluice("eval", "review", "--since", "1d", "--output", str(tmp_path))
    told = (tmp_path / "review.md").read_text()
    assert "FlagChanged: name rerank" in told
    assert "since 2031-05-06 12:00 UTC" in told
    assert "datetime" not in told


def test_a_result_that_is_none_is_refused(instance: Instance, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    assert sluice("eval", "review", "--redteam", str(tmp_path / "other.json"), "--output", str(tmp_path))[0] == 2


@pytest.mark.parametrize(
    ("arguments", "code"), [(("0",), 1), (("2",), 1), (("3",), 1), (("4",), 2), (("1", "--baseline-until", "1h"), 1)]
)
def test_a_phase_that_is_not_over_leaves_with_one(instance: Instance, arguments: tuple[str, ...], code: int) -> None:
    assert sluice("eval", "phase", *arguments)[0] == code
