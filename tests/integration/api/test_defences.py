"""The gate's steps back over HTTP: an operator of the whole instance sees them, and ends one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from starlette.testclient import TestClient

from sluice.contracts.learning.control import Defence
from sluice.evaluation.defence import DefenceState, trip
from sluice.ledger.learning.controls import DefenceRow
from sluice.ledger.ledger import Ledger
from sluice.workers.service.callers import ApiKeys
from sluice.workers.service.instance import check_health

MOMENT = datetime(2031, 5, 6, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def stands(ledger: Ledger) -> Defence:
    """Satisfaction of the profile `default` has tripped."""
    defence = Defence(
        name="satisfaction",
        step="retrieve_only",
        profile="default",
        since=MOMENT,
        why="satisfaction 0.50 (0.40 to 0.60) of 100 judged runs",
        lifted_by="`sluice gate defences satisfaction --lift --profile default`",
    )
    state = trip(DefenceState(configuration="a" * 64), defence, None)
    seen, _ = ledger.defences.rows()
    row = DefenceRow("satisfaction", "default", state.model_dump_json(), MOMENT.timestamp())
    ledger.defences.write(seen, seen, [row])
    return defence


def test_a_step_back_is_shown_and_ended(http: TestClient, stands: Defence) -> None:
    [shown] = http.get("/v1/defences").json()["data"]
    assert Defence.model_validate(shown["stands"]) == stands
    assert (shown["configuration"], shown["falls_back_to"]) == ("a" * 64, None)
    missing = http.delete("/v1/defences/satisfaction", params={"profile": "code"})
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    [lifted] = http.delete("/v1/defences/satisfaction", params={"note": "the provider was mended"}).json()["data"]
    assert lifted["stands"] is None
    [run] = http.get("/v1/runs", params={"kind": "control"}).json()["data"]
    assert run["query"] == "defence_lift defence:satisfaction:default: the provider was mended"
    assert http.delete("/v1/defences/satisfaction").status_code == 404
    assert http.delete("/v1/defences/patience").status_code == 422


def test_only_an_operator_of_all_corpora_sees_and_ends_it(http: TestClient, ledger: Ledger) -> None:
    for role, corpora in (("agent", ()), ("operator", ("docs",))):
        _, secret = ApiKeys(ledger).create("of a test", role, corpora)
        http.app.state.instance.keys = ApiKeys(ledger)  # type: ignore[attr-defined] # forgets what it had read
        key = {"Authorization": f"Bearer {secret}"}
        assert http.get("/v1/defences", headers=key).status_code == 403
        assert http.delete("/v1/defences/satisfaction", headers=key).status_code == 403
    assert len(ledger.defences.standing()) == 1


def test_an_operator_of_all_corpora_holds_one_off_and_health_says_so(http: TestClient, ledger: Ledger) -> None:
    put = "/v1/defences/satisfaction"
    held = http.put(put, json={"pin": "off", "corpus": "docs", "note": "a flood"}).json()["data"]
    assert [(one["corpus"], one["profile"], one["pinned"], one["stands"]) for one in held] == [
        ("docs", "*", "off", None)
    ]
    gate = check_health(http.app.state.instance.context).checks["gate"].model_dump()  # type: ignore[attr-defined]
    assert gate["facts"]["held"] == {"defence:satisfaction:*:docs": "off"}
    assert gate["facts"]["stepped_back"] == ["defence:satisfaction:default"], "of another scope"
    wrong = http.put(put, json={"pin": "off", "profile": "nowhere"})
    assert (wrong.status_code, wrong.json()["field"]) == (422, "profile")
    _, secret = ApiKeys(ledger).create("of a test", "operator", ["docs"])
    http.app.state.instance.keys = ApiKeys(ledger)  # type: ignore[attr-defined] # forgets what it had read
    refused = http.put(put, json={"pin": "on", "corpus": "docs"}, headers={"Authorization": f"Bearer {secret}"})
    assert refused.status_code == 403
