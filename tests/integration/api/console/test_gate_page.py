"""The gate's page: decisions by the hour, flags, defences, models on trial, and what operators change there."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sluice.api.console import gate
from sluice.contracts.learning.control import Defence
from sluice.evaluation.defence import DefenceState, trip
from sluice.ledger.learning.controls import DefenceRow
from sluice.ledger.ledger import Ledger
from sluice.ledger.schema.tables import outcomes
from tests.support.console import token_in
from tests.support.console_visitor import HOSTILE, Visitor, harmless, said
from tests.support.gate_model import small_model, write_small_model

MOMENT = datetime(2031, 5, 6, 12, tzinfo=UTC)


@pytest.fixture
def stands(ledger: Ledger) -> None:
    """Satisfaction of the profile `default` has tripped, for a hostile reason."""
    defence = Defence(
        name="satisfaction", step="retrieve_only", profile="default", since=MOMENT, why=HOSTILE[0], lifted_by="by hand"
    )
    state = trip(DefenceState(configuration="a" * 64), defence, None)
    seen, _ = ledger.defences.rows()
    ledger.defences.write(
        seen, seen, [DefenceRow("satisfaction", "default", state.model_dump_json(), MOMENT.timestamp())]
    )


def test_decisions_are_counted_by_hour_and_plan(
    visitor: Visitor, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Nothing was decided" in visitor.get("/gate/evaluation")
    now = ledger.clock()
    with ledger.database.writing() as connection:
        for number, (plan, hours) in enumerate((("skip", 0), ("search", 0), ("search", 1), ("search", 30))):
            row = {"run_id": f"run_{number}", "corpus": "docs", "profile": "default", "plan": plan, "config_hash": ""}
            row |= {"propensity": 1.0, "satisfaction": 0.5, "milliseconds": 1_200.0, "finished_at": now}
            connection.insert(outcomes, row | {"decided_at": now - 3_600 * hours, "changed_at": now})
    page = visitor.get("/gate")
    assert page.count('<rect class="k0"') == 2, "one bar and the legend"
    hours = visitor.http.get("/v1/evaluation/hours").json()["data"]
    assert len(hours) == 24
    assert (hours[-1]["plans"]["skip"], hours[-1]["plans"]["search"]) == (1, 1)
    assert hours[-2]["plans"]["search"] == 1
    assert sum(sum(one["plans"].values()) for one in hours) == 3, "one was decided more than a day ago"
    for by in ("plan", "profile", "model", "flags"):
        assert "default" in visitor.get("/gate/evaluation", by=by)
    visitor.get("/gate/evaluation", 422, by="moon")
    monkeypatch.setattr(gate, "MOST_EVALUATED", 2)
    assert "3 runs were decided: too many" in visitor.get("/gate/evaluation")


def test_the_weights_of_each_version_are_shown(visitor: Visitor) -> None:
    page = visitor.get("/gate")
    known = visitor.http.get("/v1/profiles").json()["data"]
    assert {one["name"] for one in known} >= {"default", "code", "marketing"}
    for one in known:
        assert f"Weights of {one['name']}, version {one['version']}" in page
    assert "empty corpus" in page


def test_a_flag_is_changed_with_a_note_and_killed_and_reset(visitor: Visitor, ledger: Ledger) -> None:
    page = visitor.send("/gate", "/gate/flags/rerank", action="off", note=HOSTILE[0])
    assert said(page) == "The flag rerank is off, decided by stored."
    harmless(page)
    assert "kill switch" in said(visitor.send("/gate", "/gate/flags/rerank", action="kill", note="worse"))
    assert "The flag rerank is killed" not in visitor.send(
        "/gate", "/gate/flags/rerank", 409, action="on", note="again"
    )
    visitor.send("/gate", "/gate/flags/rerank", action="reset", note="mended")
    actions = [one.action for one in ledger.flags.history("rerank")]
    assert actions == ["flag_off", "flag_kill", "flag_reset"]
    assert "note: say why" in visitor.send("/gate", "/gate/flags/rerank", 422, action="off", note=" ")
    assert "action: " in visitor.send("/gate", "/gate/flags/rerank", 422, action="burn", note="x")


def test_a_step_back_is_lifted(visitor: Visitor, ledger: Ledger, stands: None) -> None:
    page = visitor.get("/gate")
    assert "stepped back" in page
    harmless(page)
    page = visitor.send("/gate", "/gate/defences/lift", note="mended")
    assert "is lifted" in said(page)
    assert "stepped back" not in page.partition("<h2>Defences</h2>")[2].partition("<h2>")[0]


def test_a_models_part_is_shown_and_ended(visitor: Visitor) -> None:
    data_dir: Path = visitor.http.app.state.instance.settings.data_dir  # type: ignore[attr-defined]
    write_small_model(small_model("m1", "test"), data_dir)
    body = {"action": "canary", "version": "m1", "stages": [0.2, 1], "note": HOSTILE[0]}
    assert visitor.http.post("/v1/rollouts", json=body).status_code == 200
    report = visitor.get("/gate/models/m1")
    assert "inconclusive" in report
    harmless(report)
    page = visitor.send("/gate", "/gate/models/m1/stop", note="enough")
    assert "no part in decisions" in said(page)
    assert visitor.http.get("/v1/rollouts").json()["data"][0]["status"] == "stopped"
    visitor.get("/gate/models/m2", 404)


@pytest.mark.parametrize(("role", "corpora"), [("agent", ()), ("operator", ("docs",))])
def test_only_an_operator_of_all_corpora_sees_the_gate(
    signed: Callable[..., Visitor], role: str, corpora: tuple[str, ...]
) -> None:
    other = signed(role, *corpora)
    assert role in other.get("/gate", 403)
    token = token_in(other.get("/runs"))
    assert other.post("/gate/flags/rerank", token=token, action="off", note="x").status_code == 403
