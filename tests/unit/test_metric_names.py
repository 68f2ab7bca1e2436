"""docs/metrics.md, the demonstration and the code agree on how metrics and fields of the designs are spelled."""

from __future__ import annotations

import re

from bench.demo.metric_names import NAMED, label_names, missing_metrics
from sluice.contracts.gate import Decision, RagDirectivesEvaluated
from tests.support.repository import REPOSITORY

TABLE, EVENT = (REPOSITORY / "docs" / "metrics.md").read_text().split("## The event")


def rows(text: str) -> dict[str, str]:
    found = re.findall(r"^\| `([^`]+)` \| `([^`]+)`", text, re.MULTILINE)
    return dict(found)


def test_the_table_has_each_name_of_a_design_with_the_metric_that_the_demonstration_scrapes() -> None:
    told = {design: re.split(r"[{ ]", ours)[0] for design, ours in rows(TABLE).items()}
    assert told == {named.design: named.sample.removesuffix("_count") for named in NAMED}


def test_the_table_names_only_labels_that_the_metrics_have() -> None:
    for ours in rows(TABLE).values():
        name, _, labels = ours.rstrip("}").partition("{")
        assert set(filter(None, labels.split(", "))) <= set(label_names(name)), name


def test_the_fields_of_the_event_are_those_of_the_table_and_agents_see_them_in_the_decision() -> None:
    told = set(rows(EVENT).values())
    assert told == set(RagDirectivesEvaluated.model_fields) - {"profile"}
    assert told - {"query", "gate_model_version"} <= set(Decision.model_fields)


def test_a_scrape_that_lacks_a_metric_is_told_by_the_design_s_name() -> None:
    told = list(missing_metrics('sluice_gate_decision_total{plan_type="skip"} 0\n'))
    assert "GateModelVersion: sluice_gate_decision_total has no label gate_model_version" in told
    assert "GateDecisionTotal{plan_type}: sluice_gate_decision_total has counted nothing" in told
    assert "precision@k: /metrics has no sluice_precision_at_k_count" in told
