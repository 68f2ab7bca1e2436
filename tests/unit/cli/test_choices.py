"""Options that say the same thing in two ways: what is meant, and which of them contradict each other."""

from __future__ import annotations

import pytest

from sluice.cli.agent.ask import choose_plan
from sluice.cli.operate.reindex import choose_model
from sluice.contracts.errors import InvalidInput
from sluice.contracts.plan import Plan


@pytest.mark.parametrize(
    ("plan", "rag", "asked"),
    [
        (None, None, None),
        (None, True, None),
        (None, False, Plan.SKIP),
        (Plan.SKIP, False, Plan.SKIP),
        (Plan.SEARCH, True, Plan.SEARCH),
        (Plan.SKIP, None, Plan.SKIP),
    ],
)
def test_without_rag_the_plan_is_to_skip_and_with_it_the_gate_decides(
    plan: Plan | None, *, rag: bool | None, asked: Plan | None
) -> None:
    assert choose_plan(plan, rag=rag) is asked


@pytest.mark.parametrize(("plan", "rag"), [(Plan.SKIP, True), (Plan.RETRIEVE, False), (Plan.FULL_LOOP, False)])
def test_a_plan_that_contradicts_rag_is_refused(plan: Plan, *, rag: bool) -> None:
    with pytest.raises(InvalidInput, match="rag: contradicts --plan"):
        choose_plan(plan, rag=rag)


def test_a_model_may_be_called_a_model_version() -> None:
    assert choose_model("int8", None) == choose_model(None, "int8") == choose_model("int8", "int8") == "int8"


@pytest.mark.parametrize(
    ("model", "version", "told"), [(None, None, "model: is missing"), ("int8", "fp32", "'fp32' is not 'int8'")]
)
def test_no_model_or_two_are_refused(model: str | None, version: str | None, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        choose_model(model, version)
