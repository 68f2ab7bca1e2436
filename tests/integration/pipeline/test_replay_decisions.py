"""Recorded decisions computed again by another configuration: nothing is carried out, and the difference is told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sluice.contracts.api import GateRequest
from sluice.contracts.errors import InvalidInput
from sluice.contracts.plan import Plan
from sluice.gate.profile import PROFILES_DIR
from sluice.workers.service.learning.evaluation import replay_decisions
from tests.support.in_process import Instance, MakeInstance

DAY_AGO = datetime.now(UTC) - timedelta(days=1)
COVERED = "How often does the holder renew a lease?"
ABSENT = "Which enzyme repairs mismatched bases in bacterial DNA?"


@pytest.fixture
def instance(make_instance: MakeInstance) -> Instance:
    instance = make_instance(
        search={"enabled": True, "providers": ["searxng"], "searxng_url": "http://127.0.0.1:9"}, crawl={"enabled": True}
    )
    instance.adds("A lease is renewed by its holder every five seconds. One that is not is free after fifteen.")
    instance.works("chunk", "embed", "index")
    for question in (COVERED, ABSENT):
        instance.service.ask(GateRequest.model_validate({"query": question}))
    instance.works("query", "gate")
    return instance


def eager(folder: Path) -> Path:
    """A profile that always searches."""
    path = folder / "eager.v1.toml"
    path.write_text(
        'extends = "default.v2"\nname = "eager"\nversion = 1\n[thresholds]\nsearch = 0.0\nfull_loop = 1.0\n'
    )
    return path


def test_the_same_configuration_changes_nothing(instance: Instance) -> None:
    found = replay_decisions(instance.context, "default", DAY_AGO)
    assert (found.decisions, found.changed, found.passed_over) == (2, 0, 0)


def test_another_configuration_tells_which_plans_it_would_change(instance: Instance, tmp_path: Path) -> None:
    before = len(list(instance.context.ledger.runs(100)))
    found = replay_decisions(instance.context, str(eager(tmp_path)), DAY_AGO)
    [changed] = [one for one in found.examples if one.query == COVERED]
    assert (changed.before, changed.after) == (Plan.RETRIEVE, Plan.SEARCH)
    assert found.transitions["retrieve -> search"] == 1
    assert len(list(instance.context.ledger.runs(100))) == before


def test_decisions_of_another_corpus_are_left_out(instance: Instance) -> None:
    assert replay_decisions(instance.context, "default", DAY_AGO, corpus="other").decisions == 0


def test_a_profile_that_there_is_not_is_refused(instance: Instance) -> None:
    with pytest.raises(InvalidInput, match=r"default\.v1"):
        replay_decisions(instance.context, "nothing.toml", DAY_AGO)
    assert (PROFILES_DIR / "default.v1.toml").exists()
