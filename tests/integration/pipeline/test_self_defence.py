"""Feedback makes the gate step back, the next decision says so and can be computed again, and new data ends it."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import insert, select, text

from sluice.contracts.api import FeedbackRequest, GateRequest
from sluice.contracts.errors import NotFound
from sluice.contracts.event import Event
from sluice.contracts.gate import CoverageProbed, GateDecided, GateRequested
from sluice.contracts.ids import new_run_id
from sluice.contracts.learning.control import Defence
from sluice.contracts.learning.events import CONTROL_CORPUS, DefenceHealed, DefenceTripped
from sluice.evaluation.defence import FULL, LEAST, TO_SWITCH
from sluice.gate.decide import explain
from sluice.gate.profile import Profile
from sluice.ledger.schema.tables import outcomes
from sluice.workers.processes.watches.self_defence import SelfDefence
from sluice.workers.runtime.standing_defences import StandingDefences
from sluice.workers.service.learning.control import lift_defence, list_defences
from tests.support.in_process import Instance, MakeInstance

QUESTION = "which release of the library is the latest?"
OLD_PROFILE = (
    'extends = "default.v{base}"\nname = "default"\nversion = 90\n[thresholds]\nfull_loop = 90.0\nsearch = 80.0\n'
)
NEW_PROFILE = (
    'extends = "default.v{base}"\nname = "default"\nversion = 91\n[thresholds]\nfull_loop = 0.1\nsearch = 0.05\n'
)


@pytest.fixture
def profiles(tmp_path: Path) -> dict[str, Path]:
    """Two folders of profiles: with the one before nothing is looked up outside, with the new one everything is."""
    base = max(int(path.stem.rpartition("v")[2]) for path in Path("gate/profiles").glob("default.v*.toml"))
    folders = {}
    for name, version, toml in (("old", 90, OLD_PROFILE), ("new", 91, NEW_PROFILE)):
        folders[name] = tmp_path / name
        folders[name].mkdir()
        (folders[name] / f"default.v{version}.toml").write_text(toml.format(base=base))
    return folders


class Agent:
    """Asks, and says how the answers did; the reconciler looks at what became of them."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.ledger = instance.context.ledger
        self.defence = SelfDefence(instance.context, grace_seconds=-60.0)

    def asks(self) -> str:
        run_id = self.instance.service.ask(GateRequest(query=QUESTION)).run_id
        self.instance.works("query", "gate", "query")
        return run_id

    def says(self, run_id: str, *, well: bool) -> None:
        outcome = "success" if well else "failure"
        self.instance.service.give_feedback(FeedbackRequest(run_id=run_id, outcome=outcome))
        self.instance.works("gate")

    def hears_of(self, runs: int, *, well: bool) -> str:
        """So many runs are asked, answered and judged: one by one the last, the others as copies of what became of it.

        They are decided just before it, as by other agents.
        """
        run_id = self.asks()
        self.says(run_id, well=well)
        with self.ledger.database.writing() as connection:
            row = connection.execute(select(outcomes).where(outcomes.c.run_id == run_id)).one()._asdict()
            copies = [
                row | {"run_id": new_run_id(), "decided_at": row["decided_at"] - 1e-6 * at} for at in range(1, runs)
            ]
            if copies:
                connection.insert_each(insert(outcomes), copies)
        return run_id

    def looks(self) -> None:
        with self.ledger.database.writing() as connection:
            connection.execute(text("UPDATE leases SET until = 0"))
        self.defence.look()

    def decides_anew(self) -> None:
        """What stands is read again now, not within a second."""
        context = self.instance.context
        context.__dict__["standing_defences"] = StandingDefences(
            context.ledger, context.blobs, context.settings.defence, count(1_000.0, 10.0).__next__
        )

    def decision(self, run_id: str) -> GateDecided:
        [event] = self.ledger.events_of_kind(run_id, GateDecided.kind)
        return event.body_as(GateDecided)

    def recomputed(self, run_id: str) -> str:
        decided = self.decision(run_id)
        [request] = self.ledger.events_of_kind(run_id, GateRequested.kind)
        [probed] = self.ledger.events_of_kind(run_id, CoverageProbed.kind)
        profile = Profile.from_bytes(self.instance.context.blobs.named(decided.config_hash))
        again = explain(request.body_as(GateRequested), probed.body_as(CoverageProbed), decided, profile)
        return again.model_dump_json()

    def control_events(self) -> list[Event]:
        runs = [run for run in self.ledger.runs(corpus=CONTROL_CORPUS, limit=50) if run.kind == "control"]
        kinds = (DefenceTripped.kind, DefenceHealed.kind)
        found = [event for run in runs for kind in kinds for event in self.ledger.events_of_kind(run.run_id, kind)]
        return sorted(found, key=lambda event: event.occurred_at)

    def standing(self) -> list[Defence]:
        return [one.stands for one in list_defences(self.ledger) if one.stands is not None]


def agent_with(make_instance: MakeInstance, folder: Path, **defence: object) -> Agent:
    agent = Agent(make_instance(gate={"profiles_dir": folder}, search={"enabled": True}, defence=defence))
    agent.decides_anew()
    return agent


def test_bad_answers_bring_back_the_configuration_before_until_the_trickle_is_good(
    make_instance: MakeInstance, profiles: dict[str, Path]
) -> None:
    before = agent_with(make_instance, profiles["old"])
    before.says(before.asks(), well=True)
    before.looks()
    agent = agent_with(make_instance, profiles["new"], trickle_share=0.5, trickle_runs_per_day=1_000)
    agent.hears_of(2 * FULL + TO_SWITCH, well=False)
    old, new = before.decision(before.asks()), agent.decision(agent.asks())
    assert (new.scored_plan, new.control) == ("full_loop", None)

    agent.looks()
    [stands] = agent.standing()
    assert (stands.name, stands.step) == ("satisfaction", "previous_configuration")
    decisions = {run_id: agent.decision(run_id) for run_id in (agent.asks() for _ in range(12))}
    fallen_back = [one for one in decisions.values() if one.control and not one.control.is_trickle]
    trickle = [one for one in decisions.values() if one.control and one.control.is_trickle]
    assert len(fallen_back) + len(trickle) == 12
    assert fallen_back
    assert trickle
    for decided in fallen_back:
        assert decided.control is not None
        assert (decided.config_hash, decided.control.fallback_from) == (old.config_hash, new.config_hash)
        assert (decided.scored_plan, decided.control.defences) == ("retrieve", (stands,))
    for decided in trickle:
        assert (decided.config_hash, decided.scored_plan) == (new.config_hash, "full_loop")
    for run_id, decided in decisions.items():
        assert agent.recomputed(run_id) == decided.model_dump_json()

    while agent.standing():
        run_id = agent.asks()
        if (control := agent.decision(run_id).control) and control.is_trickle:
            agent.hears_of(LEAST, well=True)
            agent.looks()
    decided = agent.decision(agent.asks())
    assert (decided.config_hash, decided.control) == (new.config_hash, None)
    tripped, healed = (event.body for event in agent.control_events())
    assert isinstance(tripped, DefenceTripped)
    assert isinstance(healed, DefenceHealed)
    assert (tripped.configuration, tripped.falls_back_to) == (new.config_hash, old.config_hash)
    assert healed.by == "data"


def test_without_a_configuration_before_the_gate_stays_with_the_corpus_and_an_operator_may_lift_it(
    make_instance: MakeInstance, profiles: dict[str, Path]
) -> None:
    agent = agent_with(make_instance, profiles["new"], trickle_runs_per_day=0)
    agent.hears_of(2 * FULL + TO_SWITCH, well=False)
    agent.looks()
    run_id = agent.asks()
    decided = agent.decision(run_id)
    assert decided.plan == "retrieve"
    [veto] = [
        veto for veto in decided.vetoes if veto.name == "self_defence_satisfaction" and veto.lowered_from == "search"
    ]
    assert "no configuration before" in veto.why
    assert "sluice gate defences satisfaction --lift --profile default" in veto.lifted_by
    assert agent.recomputed(run_id) == decided.model_dump_json()

    [view] = lift_defence(agent.instance.context, "satisfaction", "ann", note="the provider was mended")
    assert (view.stands, view.profile) == (None, "default")
    assert agent.decision(agent.asks()).control is None
    healed = agent.control_events()[-1].body
    assert isinstance(healed, DefenceHealed)
    assert (healed.by, healed.operator, healed.why) == ("operator", "ann", "the provider was mended")
    with pytest.raises(NotFound, match="sluice gate defences"):
        lift_defence(agent.instance.context, "satisfaction", "ann")
