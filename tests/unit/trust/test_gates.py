"""The gates over a whole retrieval."""

from __future__ import annotations

import pytest

from sluice.contracts.api import GateRequest
from sluice.contracts.retrieval import Query
from sluice.contracts.trust import Inspection, TrustFactors, TrustScore, Verdict
from sluice.trust.gates import check_poisoning, check_source_trust
from tests.support.retrieved import retrieved


def _scores(*values: float) -> list[TrustScore]:
    return [TrustScore(chunk_id="c", score=value, factors=TrustFactors(), origin="crawled") for value in values]


@pytest.mark.parametrize(
    ("values", "passed", "mean", "minimum"),
    [((0.6, 0.6), True, 0.6, 0.6), ((0.9, 0.9, 0.1), True, 0.633, 0.1), ((0.5, 0.6), False, 0.55, 0.5)],
)
def test_gate_i_goes_by_the_mean_and_reports_the_minimum(values, passed, mean, minimum) -> None:
    gate = check_source_trust(_scores(*values))
    assert (gate.id, gate.severity, gate.threshold) == ("gate-i-source-trust", "P1", 0.6)
    assert (gate.passed, gate.value, gate.minimum) == (passed, pytest.approx(mean, abs=0.001), minimum)


def test_gate_i_passes_where_nothing_is_served() -> None:
    assert check_source_trust([]).passed


def test_gate_p_fails_for_a_blocked_chunk_among_what_is_served() -> None:
    blocked = retrieved("a").model_copy(update={"inspection": Inspection(verdict=Verdict.BLOCKED)})
    warned = retrieved("b").model_copy(update={"inspection": Inspection(verdict=Verdict.WARNED)})
    gate = check_poisoning([blocked, warned, retrieved("c")], dropped=0)
    assert (gate.id, gate.severity) == ("gate-p-retrieval-poisoning", "P0")
    assert (gate.passed, gate.value) == (False, 1)


def test_gate_p_passes_where_blocked_chunks_were_dropped_and_tells_how_many() -> None:
    gate = check_poisoning([retrieved("c")], dropped=2)
    assert gate.passed
    assert gate.detail == "2 blocked passages left out"


@pytest.mark.parametrize("kind", [Query, GateRequest])
def test_the_threshold_of_trust_may_be_spelt_as_in_the_rfc(kind) -> None:
    assert kind.model_validate({"query": "q", "trustThreshold": 0.6}).trust_threshold == 0.6
    assert kind.model_validate({"query": "q", "trust_threshold": 0.6}) == kind(query="q", trust_threshold=0.6)
    with pytest.raises(ValueError, match="trustThreshold"):
        kind.model_validate({"query": "q", "trustThreshold": 2})
