"""A learned model decides in its shadow, for a share, for all, and for none again, from the next decision on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import pytest
from sqlalchemy import insert, select, text

from sluice.contracts.api import DocumentsRequest, FeedbackRequest, GateRequest
from sluice.contracts.errors import Conflict, NotFound
from sluice.contracts.event import new_run_id
from sluice.contracts.gate import CoverageProbed, GateDecided, GateRequested
from sluice.contracts.learning.control import Arm, FlagAction, RolloutRequest
from sluice.contracts.learning.events import CONTROL_CORPUS, RolloutChanged
from sluice.contracts.plan import Plan
from sluice.gate.decide import explain
from sluice.gate.profile import Profile
from sluice.ledger.schema.tables import outcomes
from sluice.workers.processes.watches.gate import RolloutWatch
from sluice.workers.service.callers import ApiKeys, Caller
from sluice.workers.service.learning.control import FlagDesk, RolloutDesk
from tests.support.gate_model import small_model, write_small_model
from tests.support.in_process import Instance, MakeInstance

TEXT = "A lease is renewed by its holder every five seconds, else it is free again after fifteen seconds."
QUESTION = "How often does the holder renew a lease?"
VERSION = "outside-1"


class Gate:
    """An instance whose corpus answers a question, a model that would go outside for it, and its operator."""

    def __init__(self, instance: Instance) -> None:
        self.instance, self.context, self.ledger = instance, instance.context, instance.context.ledger
        self.desk, self.watch = RolloutDesk(self.context), RolloutWatch(self.context, lambda: 0.0)
        document = {"corpus": "docs", "documents": [{"id": "doc", "text": TEXT}]}
        instance.service.add_documents(DocumentsRequest.model_validate(document))
        instance.works("chunk", "embed", "index")
        self.model = small_model(VERSION, self.context.embedding.fingerprint("docs"))
        write_small_model(self.model, self.context.settings.data_dir)
        self.flags("on")

    def flags(self, action: FlagAction) -> None:
        FlagDesk(self.context).change("learned_gate", action, Caller("ann", "operator", None), "")

    def asks(self, **fields: object) -> str:
        request = GateRequest.model_validate({"query": QUESTION, "corpus": "docs", **fields})
        run_id = self.instance.service.ask(request).run_id
        self.instance.works("query", "gate")
        return run_id

    def answers(self, run_id: str, *, well: bool) -> None:
        """The run ends, and its agent says how it did."""
        self.instance.works("query", "gate")
        outcome = "success" if well else "failure"
        self.instance.service.give_feedback(FeedbackRequest(run_id=run_id, outcome=outcome))
        self.instance.works("gate")

    def decision(self, run_id: str) -> GateDecided:
        [event] = self.ledger.events_of_kind(run_id, GateDecided.kind)
        return event.body_as(GateDecided)

    def arm(self, run_id: str) -> Arm | None:
        control = self.decision(run_id).control
        return control.model.arm if control and control.model else None

    def recomputed(self, run_id: str) -> str:
        decided = self.decision(run_id)
        [request] = self.ledger.events_of_kind(run_id, GateRequested.kind)
        [probed] = self.ledger.events_of_kind(run_id, CoverageProbed.kind)
        profile = Profile.from_bytes(self.context.blobs.named(decided.config_hash))
        use = decided.control.model if decided.control else None
        model = self.context.gate_models.named(use.model_sha256) if use is not None and use.probability else None
        request_body, probe = request.body_as(GateRequested), probed.body_as(CoverageProbed)
        return explain(request_body, probe, decided, profile, model).model_dump_json()

    def copies(self, run_id: str, satisfied: Sequence[bool], **facts: object) -> None:
        """As many more runs as this one was, judged so, each a unit of its own, decided just before it."""
        with self.ledger.database.writing() as connection:
            row = connection.execute(select(outcomes).where(outcomes.c.run_id == run_id)).one()._asdict()
            many = [
                row
                | {
                    "run_id": new_run_id(),
                    "bucket": row["bucket"] + (at + 1) * 1e-9,
                    "decided_at": row["decided_at"] - 1e-6 * at,
                    "milliseconds": 100.0,
                    "signals": f'{{"task_satisfaction": {float(well)}}}',
                    **facts,
                }
                for at, well in enumerate(satisfied)
            ]
            connection.insert_each(insert(outcomes), many)

    def apply(self, action: Literal["shadow", "promote", "stop"], version: str | None, note: str = "") -> None:
        self.desk.apply(RolloutRequest(action=action, version=version, note=note), "ann")

    def looks(self) -> None:
        with self.ledger.database.writing() as connection:
            connection.execute(text("UPDATE leases SET until = 0"))
        self.watch.look()

    def changes(self) -> list[RolloutChanged]:
        runs = [run for run in self.ledger.runs(corpus=CONTROL_CORPUS, limit=50) if run.kind == "control"]
        events = [event for run in runs for event in self.ledger.events_of_kind(run.run_id, RolloutChanged.kind)]
        return [event.body_as(RolloutChanged) for event in sorted(events, key=lambda event: event.occurred_at)]


@pytest.fixture
def gate(make_instance: MakeInstance) -> Gate:
    """Nothing may go outside, so a plan that would is lowered, and its veto says that it was wanted."""
    return Gate(make_instance())


def test_a_shadow_decides_beside_the_gate_and_is_recorded_and_stopped_it_is_gone_at_the_next_decision(
    gate: Gate,
) -> None:
    before = gate.decision(gate.asks())
    gate.apply("shadow", VERSION)
    run_id = gate.asks()
    decided = gate.decision(run_id)
    assert decided.control is not None
    use = decided.control.model
    assert use is not None
    assert (use.version, use.arm, use.plan, use.propensity) == (VERSION, "shadow", Plan.FULL_LOOP, 1.0)
    assert (decided.plan, decided.scored_plan) == (before.plan, before.scored_plan)
    assert gate.recomputed(run_id) == decided.model_dump_json()

    report = gate.desk.report(VERSION)
    assert (report.plans.asked, report.plans.alike) == (1, 0)
    assert [(one.heuristic, one.model, one.runs) for one in report.plans.differences] == [
        (before.scored_plan, Plan.FULL_LOOP, 1)
    ]
    gate.apply("stop", None, "enough was seen")
    assert gate.decision(gate.asks()).control is None
    assert [(one.was_status, one.status, one.operator) for one in gate.changes()] == [
        (None, "shadow", "ann"),
        ("shadow", "stopped", "ann"),
    ]


def test_a_canary_decides_its_share_by_session_and_every_decision_can_be_computed_again(gate: Gate) -> None:
    gate.desk.apply(RolloutRequest(action="canary", version=VERSION, stages=(0.4, 1.0)), "ann")
    runs = {f"s{number}": gate.asks(session_id=f"s{number}") for number in range(30)}
    arms = Counter(gate.arm(run_id) for run_id in runs.values())
    assert set(arms) == {"canary", "control", "default"}
    assert 5 <= arms["canary"] <= 20
    assert 5 <= arms["control"] <= 20
    for session_id, run_id in runs.items():
        decided = gate.decision(run_id)
        assert gate.recomputed(run_id) == decided.model_dump_json()
        wants_outside = {veto.name for veto in decided.vetoes} == {"crawl_policy", "search_policy"}
        assert wants_outside == (gate.arm(run_id) == "canary")
        assert decided.control is not None
        assert decided.control.model is not None
        assert decided.control.model.propensity == pytest.approx(0.2 if gate.arm(run_id) == "default" else 0.4)
        if session_id in ("s0", "s1", "s2"):
            assert gate.arm(gate.asks(session_id=session_id)) == gate.arm(run_id)
    gate.apply("stop", VERSION)
    assert gate.decision(gate.asks(session_id="s0")).control is None


def judged_arms(gate: Gate, canary: float, control: float, runs: int = 3_000) -> dict[Arm | None, str]:
    """One real run of each arm, and many like it, of which these shares were satisfied."""
    found: dict[Arm | None, str] = {}
    number = 0
    while not {"canary", "control"} <= set(found):
        run_id = gate.asks(session_id=f"u{number}")
        number += 1
        if gate.arm(run_id) not in found:
            found[gate.arm(run_id)] = run_id
            gate.answers(run_id, well=True)
    for arm, share in (("canary", canary), ("control", control)):
        gate.copies(found[arm], [at % 100 < share * 100 for at in range(runs)])  # type: ignore[index]
    return found


def test_a_canary_that_does_as_well_goes_on_from_stage_to_stage_until_it_decides_all(gate: Gate) -> None:
    gate.desk.apply(RolloutRequest(action="canary", version=VERSION, stages=(0.1, 0.5, 1.0)), "ann")
    gate.looks()
    assert [(one.status, one.share) for one in gate.changes()] == [("canary", 0.1)]  # no data is no verdict
    judged_arms(gate, 0.8, 0.8)
    gate.looks()
    gate.looks()
    assert [(one.status, one.share, one.verdict) for one in gate.changes()] == [
        ("canary", 0.1, None),
        ("canary", 0.5, "promote"),
        ("promoted", 1.0, "promote"),
    ]
    assert gate.arm(gate.asks()) == "promoted"
    gate.desk.apply(RolloutRequest(action="rollback"), "ann")
    assert gate.decision(gate.asks()).control is None


def test_a_canary_that_is_a_tenth_worse_is_stopped_and_the_report_says_so(gate: Gate) -> None:
    gate.desk.apply(RolloutRequest(action="canary", version=VERSION), "ann")
    judged_arms(gate, 0.72, 0.80, runs=4_000)
    gate.looks()
    last = gate.changes()[-1]
    assert (last.status, last.verdict, last.operator) == ("stopped", "stop", "sluice")
    assert "worse by more than 5%" in last.why
    assert gate.decision(gate.asks()).control is None
    report = gate.desk.report(VERSION)
    assert "is WORSE than the gate's weights: satisfaction 0.720 against 0.800" in report.headline


@pytest.mark.parametrize("does_well", [False, True])
def test_what_one_key_says_of_a_canary_neither_stops_nor_promotes_it_for_all(gate: Gate, does_well: bool) -> None:
    gate.desk.apply(RolloutRequest(action="canary", version=VERSION), "ann")
    honest = judged_arms(gate, 0.5 if does_well else 0.8, 0.8)
    hostile, _ = ApiKeys(gate.ledger).create("hostile", "agent", ["theirs"])
    for arm in ("canary", "control"):
        satisfied = [(arm == "canary") is does_well] * 3_000
        gate.copies(honest[arm], satisfied, owner=hostile, corpus="theirs")  # type: ignore[index]
    gate.looks()
    last = gate.changes()[-1]
    assert (last.status, last.share, last.verdict) == ("canary", 0.1, "inconclusive")
    assert f"only by what key {hostile} asked and said" in last.why


def test_one_model_is_tried_at_a_time_and_one_that_is_not_there_is_named(gate: Gate) -> None:
    with pytest.raises(NotFound, match="no model 'nowhere'"):
        gate.apply("shadow", "nowhere")
    with pytest.raises(NotFound, match="no model has a part"):
        gate.apply("stop", None)
    gate.apply("shadow", VERSION)
    other = small_model("outside-2", gate.model.embedder_fingerprint)
    write_small_model(other, gate.context.settings.data_dir)
    with pytest.raises(Conflict, match="model outside-1 is active already"):
        gate.apply("shadow", "outside-2")
    gate.apply("promote", VERSION)
    assert gate.arm(gate.asks()) == "promoted"
    gate.flags("off")
    decided = gate.decision(gate.asks())
    assert decided.control is None or decided.control.model is None
