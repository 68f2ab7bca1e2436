"""Options that say the same thing in two ways: what is meant, and which of them contradict each other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest
import typer

from sluice.cli import command, connection
from sluice.cli.agent.ask import choose_plan
from sluice.cli.command import moment
from sluice.cli.operate import running
from sluice.cli.operate.generations import choose_model
from sluice.contracts import api, event, ingest, retrieval
from sluice.contracts.errors import InvalidInput as Refused
from sluice.contracts.learning import control as control_contracts
from sluice.contracts.learning import passages, run_outcome
from sluice.contracts.operations import dead_letters, quarantine
from sluice.contracts.plan import Plan
from sluice.workers import setting_names
from sluice.workers.service.instance import MOST_DAYS
from sluice_client.errors import InvalidInput


@pytest.mark.parametrize(
    ("name", "of"),
    [
        ("Stage", get_args(event.Queue)),
        ("Plan", tuple(Plan)),
        ("Strategy", tuple(retrieval.Strategy)),
        ("Render", get_args(ingest.Render)),
        ("RunKind", get_args(api.RunKind)),
        ("DeadLetterReason", get_args(event.DeadLetterReason)),
        ("DeadLetterStatus", get_args(dead_letters.DeadLetterStatus)),
        ("QuarantineState", get_args(quarantine.QuarantineState)),
        ("FeedbackOutcome", get_args(run_outcome.FeedbackOutcome)),
        ("PassageReason", get_args(passages.PassageReason)),
        ("DefenceName", get_args(control_contracts.DefenceName)),
        ("SignalName", get_args(run_outcome.SignalName)),
    ],
)
def test_what_an_option_may_say_is_what_the_server_knows(name: str, of: tuple[str, ...]) -> None:
    assert get_args(getattr(command, name)) == of


def test_every_flag_is_listed_with_its_variable_and_hosts_with_their_days() -> None:
    assert command.FLAG_VARIABLES == setting_names.FLAG_VARIABLES
    assert running.MOST_DAYS == MOST_DAYS
    assert connection.ENDED == api.ENDED


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
    assert choose_plan(plan, rag=rag) == asked


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
    with pytest.raises(Refused, match=told):
        choose_model(model, version)


@pytest.mark.parametrize(("told", "ago"), [("30d", timedelta(days=30)), ("12h", timedelta(hours=12))])
def test_a_moment_is_an_age_or_a_date(told: str, ago: timedelta) -> None:
    assert abs(datetime.now(UTC) - moment(told) - ago) < timedelta(seconds=5)
    assert moment("2026-01-31T12:00") == datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize("told", ["30", "d", "-1d", "1y", ""])
def test_what_is_no_moment_is_refused(told: str) -> None:
    with pytest.raises(typer.BadParameter, match="30d"):
        moment(told)
