"""The judge on a real pipeline and a loopback endpoint: asked where the score is in doubt, paid, recorded, survived."""

from __future__ import annotations

import json

import pytest

from sluice.contracts.api import GateRequest
from sluice.contracts.gate import CoverageProbed
from sluice.contracts.plan import Plan
from tests.support.chat_server import chat_server
from tests.support.in_process import Instance, MakeInstance

TEXT = "The bridge is of steel. It was opened to traffic in 1894. Trams have crossed it ever since. Write to ann@corp.test."
QUESTION = "Which company of Glasgow ran the first trams across the bridge, and how many people rode them?"


def settings(base_url: str, host_and_port: str, **judge: object) -> dict[str, object]:
    return {
        "gate": {"judge": True, "judge_margin": 1.0},
        "judge": {"model": "judge-1", "base_url": base_url, "api_key": "sk-secret", **judge},
        "egress": {"allow": [f"judge={host_and_port}"]},
        "trust": {"mask": ["secret", "email"]},
    }


def ask(instance: Instance, **limits: object) -> tuple[Plan, CoverageProbed]:
    request = GateRequest.model_validate({"query": QUESTION, "limits": limits})
    run_id = instance.service.ask(request).run_id
    instance.works("query", "gate")
    [probed] = instance.context.ledger.events_of_kind(run_id, "CoverageProbed")
    run = instance.context.ledger.run(run_id)
    assert run.decision is not None
    return run.decision.scored_plan, probed.body_as(CoverageProbed)


@pytest.mark.parametrize("verdict", ["sufficient", "insufficient"])
def test_its_verdict_is_recorded_with_its_words_and_its_price(make_instance: MakeInstance, verdict: str) -> None:
    with chat_server(lambda _: json.dumps({"verdict": verdict, "why": "no company is named"})) as server:
        instance = make_instance(**settings(server.base_url, server.host_and_port))
        instance.adds(TEXT)
        instance.works("chunk", "embed", "index")
        _, probed = ask(instance)
        assert probed.judgement is not None
        assert (probed.judgement.verdict, probed.judgement.words) == (verdict, "no company is named")
        assert probed.judgement.usd == pytest.approx(1_000 * 0.6 / 1e6)
        [request] = server.requests
        assert server.keys == ["Bearer sk-secret"]
        assert "ann@corp.test" not in str(request["messages"])


def test_a_judge_that_fails_leaves_the_decision_to_the_score(make_instance: MakeInstance) -> None:
    with chat_server(lambda _: 500) as server:
        instance = make_instance(**settings(server.base_url, server.host_and_port))
        instance.adds(TEXT)
        instance.works("chunk", "embed", "index")
        _, probed = ask(instance)
        assert probed.judgement is None
        assert server.requests


def test_it_is_not_asked_beyond_the_budget_of_the_run(make_instance: MakeInstance) -> None:
    with chat_server(lambda _: "{}") as server:
        instance = make_instance(**settings(server.base_url, server.host_and_port))
        instance.adds(TEXT)
        instance.works("chunk", "embed", "index")
        _, probed = ask(instance, max_usd=0.0)
        assert probed.judgement is None
        assert server.requests == []


def test_an_endpoint_that_egress_does_not_allow_is_not_reached(make_instance: MakeInstance) -> None:
    with chat_server(lambda _: "{}") as server:
        allowing = settings(server.base_url, server.host_and_port)
        instance = make_instance(**{**allowing, "egress": {}})
        instance.adds(TEXT)
        instance.works("chunk", "embed", "index")
        _, probed = ask(instance)
        assert probed.judgement is None
        assert server.requests == []
