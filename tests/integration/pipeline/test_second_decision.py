"""Where an answer would cite nothing, the gate decides once more in the same run, and goes outside if it may."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from bench.demo.web import DemoWeb
from sluice.contracts.api import GateRequest, RunView
from sluice.contracts.gate import GateDecided
from sluice.contracts.ingest import SearchDirected
from sluice.contracts.plan import Plan
from sluice.workers.service.runs import explain_run
from tests.support.in_process import Instance, MakeInstance

TEXT = "A lease is renewed by its holder every five seconds, else it is free again after fifteen seconds."
QUESTION = "How often does the holder renew a lease?"
STAGES = ("query", "gate", "query", "gate", "search", "crawl", "chunk", "embed", "index", "query", "gate", "query")


def ask(instance: Instance, **fields: Any) -> tuple[RunView, list[Plan]]:
    """Ask what the corpus answers, with a floor that no answer reaches; the run, and the plans of its decisions."""
    request = GateRequest.model_validate({"query": QUESTION, "confidence_floor": 0.999, **fields})
    run_id = instance.service.ask(request).run_id
    instance.works(*STAGES)
    ledger = instance.context.ledger
    decisions = [event.body_as(GateDecided) for event in ledger.events_of_kind(run_id, GateDecided.kind)]
    return ledger.run(run_id), [decision.plan for decision in decisions]


def made(make_instance: MakeInstance, web: DemoWeb, **sections: Any) -> Instance:
    outside: Mapping[str, Any] = {
        "search": {"enabled": True, "providers": ["searxng"], "searxng_url": web.search_url},
        "egress": {"allow": [f"search={web.host_and_port}"]},
    }
    instance = make_instance(**outside | sections)
    instance.adds(TEXT)
    instance.works("chunk", "embed", "index")
    return instance


def test_a_run_whose_answer_would_cite_nothing_goes_out_once_and_explains_both_decisions(
    make_instance: MakeInstance, web: DemoWeb
) -> None:
    instance = made(make_instance, web)
    run, plans = ask(instance)
    assert (run.status, plans) == ("finished", [Plan.RETRIEVE, Plan.SEARCH])
    assert instance.context.ledger.events_of_kind(run.run_id, SearchDirected.kind)
    assert run.answer is not None
    assert (run.answer.plan, run.answer.citations) == (Plan.SEARCH, ())
    assert [gap.reason for gap in run.missing if gap.stage == "query"] == ["nothing_found"], "told once"
    explained = explain_run(instance.context, run.run_id)
    assert explained.identical
    assert explained.before is not None
    assert (explained.before.recomputed["plan"], explained.recomputed["plan"]) == ("retrieve", "search")
    [why] = [part for part in explained.recomputed["contributions"] if part["feature"] == "abstained"]
    assert why["raw"].startswith("the answer would have abstained: 0.")
    outcome = instance.context.ledger.outcomes.of_run(run.run_id)
    assert outcome is not None
    assert outcome.plan is Plan.SEARCH


@pytest.mark.parametrize(
    ("sections", "fields"),
    [({}, {"plan": "retrieve"}), ({"search": {"enabled": False}}, {}), ({}, {"confidence_floor": 0.1})],
    ids=["own plan", "search off", "answered"],
)
def test_it_stays_inside_where_the_request_or_the_policy_says_so_or_it_is_answered(
    make_instance: MakeInstance, web: DemoWeb, sections: dict[str, Any], fields: dict[str, Any]
) -> None:
    run, plans = ask(made(make_instance, web, **sections), **fields)
    assert (run.status, plans) == ("finished", [Plan.RETRIEVE])


def test_what_the_run_cannot_pay_for_is_a_veto_of_the_second_decision(
    make_instance: MakeInstance, web: DemoWeb
) -> None:
    run, plans = ask(made(make_instance, web), limits={"max_milliseconds": 0})
    assert (run.status, plans) == ("finished", [Plan.RETRIEVE, Plan.RETRIEVE])
    assert run.answer is not None
    assert {"run_milliseconds", "nothing_found"} <= {gap.reason for gap in run.answer.missing}


def test_an_empty_corpus_is_probed_too(make_instance: MakeInstance) -> None:
    run, plans = ask(make_instance())
    assert (run.status, plans) == ("finished", [Plan.RETRIEVE])
    assert run.decision is not None
    assert (run.decision.scored_plan, run.decision.coverage_probability) == (Plan.FULL_LOOP, 0.0)
