"""`sluice gate defences` shows what the gate steps back for, and ends it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sluice.cli.main import app
from sluice.contracts.learning.control import Defence
from sluice.evaluation.defence import DefenceState, trip
from sluice.ledger.learning.controls import DefenceRow
from sluice.ledger.ledger import Ledger
from tests.support.served import served
from tests.support.valkey import Valkey

MOMENT = datetime(2031, 5, 6, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def instance(valkey: Valkey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An instance whose gate has stepped back for satisfaction."""
    for name in [name for name in os.environ if name.startswith("SLUICE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICE_DATA_DIR", str(valkey.settings.data_dir))
    facts = {"name": "satisfaction", "step": "previous_configuration", "profile": "default", "since": MOMENT}
    defence = Defence.model_validate({**facts, "why": "satisfaction 0.50", "lifted_by": "an operator"})
    state = trip(DefenceState(configuration="a" * 64), defence, "b" * 64)
    with Ledger(valkey.settings.ledger_location) as ledger:
        seen, _ = ledger.defences.rows()
        row = DefenceRow("satisfaction", "default", state.model_dump_json(), MOMENT.timestamp())
        ledger.defences.write(seen, seen, [row])
    with served(valkey.settings):
        yield


def sluice(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["gate", "defences", *arguments], prog_name="sluice")


def test_it_says_what_the_gate_steps_back_to_and_why() -> None:
    [shown] = json.loads(sluice("--json").stdout)
    assert (shown["name"], shown["stands"]["why"], shown["falls_back_to"]) == (
        "satisfaction",
        "satisfaction 0.50",
        "b" * 64,
    )
    assert "satisfaction" in sluice().stdout


def test_a_step_back_is_lifted_once() -> None:
    [lifted] = json.loads(sluice("satisfaction", "--lift", "--note", "mended", "--json").stdout)
    assert lifted["stands"] is None
    again = sluice("satisfaction", "--lift")
    assert again.exit_code != 0
    assert "sluice gate defences" in again.output


def test_a_name_that_is_none_is_refused() -> None:
    refused = sluice("patience", "--lift")
    assert refused.exit_code == 2
    assert "satisfaction" in refused.output
