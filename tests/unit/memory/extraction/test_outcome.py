"""One test for each rule of `memory/extraction/outcomes.toml`, numbered in its order, on whole streams."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluice.contracts.memory.model import IterationOutcome
from sluice.memory.extraction.agent_run import AgentRun
from sluice.memory.extraction.extract import decide_outcome
from tests.support.memory.agent_streams import extracted

SUCCESS: dict[str, Any] = {"type": "result", "subtype": "success", "is_error": False, "result": "Done."}
OUT = IterationOutcome


def outcome(*events: dict[str, Any], **context: Any) -> IterationOutcome:
    return extracted("\n".join(json.dumps(event) for event in events), "claude-code", **context).outcome


@pytest.mark.parametrize(
    "event",
    [
        {"type": "assistant", "error": "rate_limit", "message": {"content": []}},
        {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected"}},
        {**SUCCESS, "is_error": True, "api_error_status": 429},
        {**SUCCESS, "is_error": True, "result": "5-hour limit reached ∙ resets 3pm"},
    ],
)
def test_rule_1_a_limit_on_requests_goes_before_all_else(event: dict[str, Any]) -> None:
    assert outcome(event, SUCCESS, timed_out=True) is OUT.RATE_LIMITED


def test_rule_1_a_warning_of_a_limit_is_none() -> None:
    warning = {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed_warning"}}
    assert outcome(warning, SUCCESS) is OUT.SUCCESS


def test_rule_2_ended_at_a_deadline_is_timeout_even_with_a_result() -> None:
    assert outcome(SUCCESS, timed_out=True) is OUT.TIMEOUT


def test_rule_3_no_result_line_is_partial() -> None:
    assert outcome({"type": "system", "subtype": "init"}) is OUT.PARTIAL


def test_rule_3_no_line_at_all_is_partial() -> None:
    assert outcome() is OUT.PARTIAL


@pytest.mark.parametrize(
    "fields",
    [
        {"subtype": "error_max_turns", "is_error": True},
        {"subtype": "error_max_budget_usd", "is_error": True},
        {"subtype": "success", "terminal_reason": "aborted_streaming"},
    ],
)
def test_rule_4_a_limit_on_turns_or_budget_or_an_abortion_is_partial(fields: dict[str, Any]) -> None:
    assert outcome({**SUCCESS, **fields}) is OUT.PARTIAL


@pytest.mark.parametrize("fields", [{"subtype": "success"}, {"subtype": "error_during_execution"}])
def test_rule_5_is_error_is_failure_with_whatever_subtype(fields: dict[str, Any]) -> None:
    assert outcome({**SUCCESS, **fields, "is_error": True}) is OUT.FAILURE


def test_rule_5_an_unknown_error_subtype_is_failure() -> None:
    assert outcome({**SUCCESS, "subtype": "error_max_structured_output_retries"}) is OUT.FAILURE


def test_rule_6_else_it_is_success() -> None:
    assert outcome(SUCCESS) is OUT.SUCCESS


def test_of_several_results_the_last_that_was_asked_for_decides() -> None:
    failed = {**SUCCESS, "is_error": True}
    background = {**failed, "origin": {"kind": "task-notification"}}
    assert outcome(failed, SUCCESS, background) is OUT.SUCCESS


EXIT_STATUS = {
    (7, None): OUT.PARTIAL,
    (7, "submitted"): OUT.SUCCESS,
    (7, "Submitted"): OUT.SUCCESS,
    (8, "submitted (exit_cost)"): OUT.PARTIAL,
    (8, "submitted (exit_format)"): OUT.PARTIAL,
    (8, "submitted (exit_total_execution_time)"): OUT.TIMEOUT,
    (9, "exit_total_execution_time"): OUT.TIMEOUT,
    (9, "exit_command_timeout"): OUT.TIMEOUT,
    (10, "exit_cost"): OUT.PARTIAL,
    (10, "exit_context"): OUT.PARTIAL,
    (10, "LimitsExceeded"): OUT.PARTIAL,
    (11, "exit_format"): OUT.FAILURE,
    (11, "exit_error"): OUT.FAILURE,
    (11, "exit_forfeit"): OUT.FAILURE,
    (11, "exit_api"): OUT.FAILURE,
    (11, "exit_command"): OUT.FAILURE,
    (11, "exit_environment_error"): OUT.FAILURE,
    (11, "BadRequestError"): OUT.FAILURE,
}


@pytest.mark.parametrize(("rule_and_status", "expected"), EXIT_STATUS.items())
def test_rules_7_to_11_by_exit_status(rule_and_status: tuple[int, str | None], expected: IterationOutcome) -> None:
    run = AgentRun("swe-agent", exit_status=rule_and_status[1])
    assert decide_outcome(run, timed_out=False) is expected


OPENHANDS = {
    (12, "finished", "MaxIterationsReached"): OUT.PARTIAL,
    (12, "error", "LLMTimeoutError"): OUT.TIMEOUT,
    (12, None, "LLMBadRequestError"): OUT.FAILURE,
    (13, "finished", None): OUT.SUCCESS,
    (13, "finished:partial", None): OUT.PARTIAL,
    (13, "finished:false", None): OUT.FAILURE,
    (14, "error", None): OUT.FAILURE,
    (14, "stuck", None): OUT.FAILURE,
    (14, "rejected", None): OUT.FAILURE,
    (14, "paused", None): OUT.PARTIAL,
    (14, None, None): OUT.PARTIAL,
}


@pytest.mark.parametrize(("case", "expected"), OPENHANDS.items())
def test_rules_12_to_14_by_state(case: tuple[int, str | None, str | None], expected: IterationOutcome) -> None:
    run = AgentRun("openhands", exit_status=case[1], failure=case[2])
    assert decide_outcome(run, timed_out=False) is expected
