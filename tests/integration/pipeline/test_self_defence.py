"""Feedback makes the gate step back, the next decision says so and can be computed again, and new data ends it."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import insert, select, text

from sluice.contracts.api import DocumentsRequest, FeedbackRequest, GateRequest
from sluice.contracts.errors import NotFound
from sluice.contracts.event import Event, new_run_id
from sluice.contracts.gate import CoverageProbed, GateDecided, GateRequested
from sluice.contracts.learning.control import Defence, DefencePin
from sluice.contracts.learning.events import CONTROL_CORPUS, DefenceHealed, DefencePinned, DefenceTripped
from sluice.evaluation.defence import FULL, LEAST, TO_SWITCH
from sluice.gate.decide import explain
from sluice.gate.profile import Profile
from sluice.ledger.schema.tables import outcomes
from sluice.workers.processes.watches.self_defence import SelfDefence
from sluice.workers.service.callers import ApiKeys
from sluice.workers.service.learning.control import lift_defence, list_defences, pin_defence
from sluice.workers.wiring.steering import StandingDefences
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

    def __init__(self, instance: Instance, corpus: str = "default", owner: str = "local") -> None:
        self.instance, self.corpus, self.owner = instance, corpus, owner
        self.ledger = instance.context.ledger
        self.defence = SelfDefence(instance.context, grace_seconds=-60.0)

    def asks(self) -> str:
        request = GateRequest(query=QUESTION, corpus=self.corpus, create_corpus=True)
        run_id = self.instance.service.ask(request, owner=self.owner).run_id
        self.instance.works("query", "gate", "query")
        return run_id

    def says(self, run_id: str, *, well: bool) -> None:
        outcome = "success" if well else "failure"
        self.instance.service.give_feedback(FeedbackRequest(run_id=run_id, outcome=outcome), owner=self.owner)
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

    def steps_back(self) -> list[str]:
        """The steps back that stand for its next run."""
        control = self.decision(self.asks()).control
        return [] if control is None else [one.name for one in control.defences]

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
    [veto] = [veto for veto in decided.vetoes if veto.name == "self_defence_satisfaction"]
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


FLOOD = 2 * FULL + TO_SWITCH + 20
"""As many runs as were seen to turn the search off for everybody."""


def agents_with_keys(make_instance: MakeInstance, folder: Path, *corpora: str, **defence: object) -> tuple[Agent, ...]:
    """Agents with a key each, limited to a corpus; the first one is hostile."""
    instance = make_instance(gate={"profiles_dir": folder}, search={"enabled": True}, defence=defence)
    keys = [ApiKeys(instance.context.ledger).create(f"of {one}", "agent", [one])[0] for one in corpora]
    agents = tuple(Agent(instance, corpus, key) for corpus, key in zip(corpora, keys, strict=True))
    agents[0].decides_anew()
    return agents


@pytest.mark.parametrize("corpora", [("theirs", "ours"), ("shared", "shared")])
def test_the_feedback_of_one_key_steps_back_for_its_own_runs_alone(
    make_instance: MakeInstance, profiles: dict[str, Path], corpora: tuple[str, str]
) -> None:
    hostile, other = agents_with_keys(make_instance, profiles["new"], *corpora, trickle_runs_per_day=0)
    hostile.hears_of(FLOOD, well=False)
    hostile.looks()
    decided = other.decision(other.asks())
    assert (decided.scored_plan, decided.control) == ("full_loop", None)
    assert hostile.steps_back() == ["satisfaction"], "its own answers do get worse, as it says"


def test_a_key_that_speaks_ill_of_anothers_answers_moves_nothing_of_theirs(
    make_instance: MakeInstance, profiles: dict[str, Path]
) -> None:
    hostile, other = agents_with_keys(make_instance, profiles["new"], "shared", "shared", trickle_runs_per_day=0)
    for _ in range(2):
        hostile.says(other.hears_of(FLOOD // 2, well=True), well=False)
    silent = other.asks()
    hostile.says(silent, well=False)
    outcomes_of = other.ledger.outcomes.of_run
    [heard] = [one for one in other.ledger.outcomes.decided_between(0.0) if one.run_id == silent]
    assert (heard.satisfaction, heard.judged_by) == (0.0, hostile.owner), "it counts, as the word of who gave it"
    last = other.asks()
    other.says(last, well=True)
    hostile.says(last, well=False)
    found = outcomes_of(last)
    assert found is not None
    assert (found.satisfaction, found.judged_by) == (1.0, None)


def test_many_small_owners_of_a_corpus_step_back_together_and_no_one_alone_decides(
    make_instance: MakeInstance, profiles: dict[str, Path]
) -> None:
    agents = agents_with_keys(make_instance, profiles["new"], *["shared"] * 5, trickle_runs_per_day=0)
    for _ in range(2):
        for agent in agents[:3]:
            agent.hears_of(FULL // 2 + TO_SWITCH, well=False)
    agents[0].looks()
    [stands] = [one for one in agents[0].standing() if one.owner is None and one.corpus]
    assert (stands.corpus, stands.owner) == ("shared", None)
    assert agents[4].steps_back() == ["satisfaction"], "the others found it bad, without any one of them too"


def test_an_operator_holds_a_defence_off_or_on_for_a_corpus(
    make_instance: MakeInstance, profiles: dict[str, Path]
) -> None:
    agent, other = agents_with_keys(make_instance, profiles["new"], "theirs", "ours", trickle_share=1.0)
    context = agent.instance.context
    agent.hears_of(FLOOD, well=False)
    agent.looks()
    held = pin_defence(context, "satisfaction", DefencePin(pin="off", corpus="theirs", note="a flood"), "ann")
    assert held[0].pinned == "off"
    assert agent.steps_back() == [], "what stood is lifted"
    agent.hears_of(FLOOD, well=False)
    agent.looks()
    assert agent.standing() == []

    pin_defence(context, "satisfaction", DefencePin(pin="on", corpus="theirs"), "ann")
    control = agent.decision(agent.asks()).control
    assert control is not None
    assert [(one.name, one.step) for one in control.defences] == [("satisfaction", "retrieve_only")]
    assert not control.is_trickle, "an operator's word has no trickle"
    assert other.steps_back() == []
    lift_defence(context, "satisfaction", "ann", corpus="theirs")
    assert agent.steps_back() == []

    runs = [run for run in reversed(agent.ledger.runs(corpus=CONTROL_CORPUS, limit=50)) if run.kind == "control"]
    events = [event for run in runs for event in agent.ledger.events_of_kind(run.run_id, DefencePinned.kind)]
    bodies = [event.body_as(DefencePinned) for event in events]
    assert [(body.pin, body.corpus, body.profile, body.operator) for body in bodies] == [
        ("off", "theirs", "*", "ann"),
        ("on", "theirs", "*", "ann"),
    ]


def test_the_trust_in_a_source_is_the_operators_and_learns_nothing_from_a_tenants_feedback(
    make_instance: MakeInstance, profiles: dict[str, Path]
) -> None:
    hostile, other = agents_with_keys(make_instance, profiles["new"], "theirs", "ours", trickle_runs_per_day=0)
    page = {"id": "release", "text": f"{QUESTION} It is 4.2, of May.", "url": "https://docs.example/release"}
    for agent in (hostile, other):
        request = DocumentsRequest.model_validate({"corpus": agent.corpus, "create_corpus": True, "documents": [page]})
        agent.instance.service.add_documents(request, owner=agent.owner)
        agent.instance.works("chunk", "embed", "index")

    def trust(agent: Agent) -> list[float]:
        run_id = agent.asks()
        agent.instance.works("query")
        answer = agent.ledger.run(run_id).answer
        assert answer is not None
        return [round(one.trust, 6) for one in answer.citations]

    before = trust(other)
    assert len(before) == 1
    hostile.hears_of(FLOOD, well=False)
    hostile.looks()
    assert trust(other) == before
