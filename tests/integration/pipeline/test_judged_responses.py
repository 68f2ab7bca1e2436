"""Responses that agents report are judged for a share of the runs, while the flag is on."""

from __future__ import annotations

import pytest

from sluice.contracts.api import FeedbackRequest, GateRequest
from sluice.contracts.learning.events import ResponseJudged
from sluice.workers.handlers import is_sampled
from tests.support.in_process import Instance, MakeInstance

TEXT = "A lease is renewed by its holder every five seconds. One that is not renewed is free again after fifteen."
GROUNDED = "The holder renews a lease every five seconds [1]. Bananas ripen faster in paper bags."


def reports(instance: Instance, response: str | None = GROUNDED) -> list[ResponseJudged]:
    """What is judged of a response to a question that was answered."""
    instance.adds(TEXT)
    instance.works("chunk", "embed", "index")
    run_id = instance.service.ask(GateRequest(query="How often does the holder renew a lease?")).run_id
    instance.works("query", "gate", "query")
    instance.service.give_feedback(FeedbackRequest(run_id=run_id, outcome="success", response=response))
    instance.works("gate", "query")
    judged = instance.context.ledger.events_of_kind(run_id, ResponseJudged.kind)
    return [event.body_as(ResponseJudged) for event in judged]


def test_a_sampled_response_is_judged_by_support(make_instance: MakeInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEATURE_RAGAS_EVAL", "true")
    [judged] = reports(make_instance(judge={"sample": 1.0}))
    assert (judged.groundedness, judged.faithfulness) == (0.5, None)
    assert judged.method == {"groundedness": "support by sentences"}


@pytest.mark.parametrize(
    ("flag", "sample", "response"), [("false", 1.0, GROUNDED), ("true", 0.0, GROUNDED), ("true", 1.0, None)]
)
def test_nothing_is_judged_without_flag_sample_or_response(
    make_instance: MakeInstance, monkeypatch: pytest.MonkeyPatch, flag: str, sample: float, response: str | None
) -> None:
    monkeypatch.setenv("FEATURE_RAGAS_EVAL", flag)
    assert reports(make_instance(judge={"sample": sample}), response) == []


def test_one_run_in_a_hundred_is_sampled_and_always_the_same_ones() -> None:
    drawn = [is_sampled(f"run_{number}", 0.01) for number in range(20_000)]
    assert 140 < sum(drawn) < 260
    assert drawn == [is_sampled(f"run_{number}", 0.01) for number in range(20_000)]
