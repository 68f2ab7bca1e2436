"""The plans of the marketing and code profiles against their evaluation sets, on a real index and the real model."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bench.profiles import read_set
from sluice.contracts.api import DocumentsRequest, GateRequest
from sluice.contracts.gate import GateDecided
from tests.support.git_checkout import git, ingests, write
from tests.support.in_process import Instance, MakeInstance

OUTSIDE = {
    "search": {"enabled": True, "providers": ("searxng",), "searxng_url": "https://search.example.org"},
    "crawl": {"enabled": True},
}


def decided(instance: Instance, profile: str, question: str, corpus: str) -> GateDecided:
    told = {"query": question, "profile": profile, "corpus": corpus, "create_corpus": True}
    run = instance.service.ask(GateRequest.model_validate(told))
    instance.works("query", "gate")
    return instance.context.ledger.events_of_kind(run.run_id, GateDecided.kind)[0].body_as(GateDecided)


def adds(instance: Instance, corpus: str, documents: list[dict[str, Any]]) -> None:
    told = {"documents": documents, "corpus": corpus, "create_corpus": True}
    instance.service.add_documents(DocumentsRequest.model_validate(told))
    instance.works("chunk", "embed", "index", "index")


def is_right(decision: GateDecided, wanted: str) -> bool:
    """`outside` is any plan that leaves the corpus."""
    return decision.plan != "retrieve" if wanted == "outside" else decision.plan == wanted


def describe(case: dict[str, Any], decision: GateDecided) -> str:
    weighed = {one.feature: one.contribution for one in decision.contributions if one.contribution}
    return f"{case['id']}: {case['why']}: {decision.plan} at {decision.score} by {weighed}"


def test_the_marketing_profile_chooses_the_plans_of_its_set(make_instance: MakeInstance) -> None:
    instance, wrong = make_instance(**OUTSIDE), []
    for case in read_set("marketing", "plan"):
        now = datetime.now(UTC)
        documents = [
            {"url": one["url"], "title": one["title"], "text": one["text"], "published_at": (now - timedelta(days=one["days"])).isoformat()}
            for one in case["documents"]
        ]  # fmt: skip
        adds(instance, case["id"], documents)
        decision = decided(instance, "marketing", case["question"], case["id"])
        wrong += [] if is_right(decision, case["plan"]) else [describe(case, decision)]
    assert len(wrong) <= 1, "\n".join(wrong)


def test_the_code_profile_chooses_the_plans_of_its_set(make_instance: MakeInstance, tmp_path: Path) -> None:
    instance, wrong = make_instance(**OUTSIDE), []
    for case in read_set("code", "plan"):
        folder = tmp_path / case["id"] / "parcel"
        folder.mkdir(parents=True)
        git(folder, "init", "-q", "-b", "main")
        write(folder, case["files"])
        ingests(instance, folder, corpus=case["id"])
        if case["documents"]:
            adds(
                instance,
                case["id"],
                [{"id": f"n{place}", "text": text} for place, text in enumerate(case["documents"])],
            )
        decision = decided(instance, "code", case["question"], case["id"])
        wrong += [] if is_right(decision, case["plan"]) else [describe(case, decision)]
    assert len(wrong) <= 1, "\n".join(wrong)


@pytest.mark.parametrize("name", ["marketing", "code"])
def test_each_set_has_plans_for_and_against_going_outside(name: str) -> None:
    plans = [case["plan"] for case in read_set(name, "plan")]
    assert {"retrieve", "search", "outside"} == set(plans)
