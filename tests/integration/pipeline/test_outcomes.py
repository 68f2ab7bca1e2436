"""What became of a run, through the whole pipeline: asked, crawled, answered, and told how it went."""

from __future__ import annotations

import pytest

from sluice.contracts.api import FeedbackRequest, GateRequest
from sluice.contracts.errors import Conflict, InvalidInput
from sluice.contracts.learning.run_outcome import RunOutcome
from sluice.contracts.plan import Plan
from sluice.ledger.ledger import Ledger
from tests.support.aging_site import CORPUS, CRAWL, AgingSite
from tests.support.in_process import Instance, MakeInstance
from tests.support.site import Site


@pytest.fixture
def instance(make_instance: MakeInstance, site: Site) -> Instance:
    return make_instance(crawl=CRAWL, egress={"allow": [site.address]})


def asks_outside(instance: Instance, aging: AgingSite) -> str:
    """A run by the full loop that crawls page 0, and is answered from its second section."""
    request = GateRequest(
        query=f"what is said of {aging.word(0, 1)}?", corpus=CORPUS, plan=Plan.FULL_LOOP, seeds=(aging.url(0),), top_k=2
    )
    run_id = instance.service.ask(request).run_id
    instance.works("query", "gate", "search", "crawl", "chunk", "embed", "index", "query")
    return run_id


def outcome(ledger: Ledger, run_id: str) -> RunOutcome:
    found = ledger.outcomes.of_run(run_id)
    assert found is not None
    return RunOutcome.model_validate(found.model_dump())


def test_a_page_that_the_run_itself_has_read_is_younger_by_it(instance: Instance, site: Site) -> None:
    aging = AgingSite(site, instance, 2)
    aging.crawl_all()
    aging.rewrite(0)
    run_id = asks_outside(instance, aging)
    ledger = instance.context.ledger
    found = outcome(ledger, run_id)
    assert (found.status, found.plan, found.pages_asked, found.pages_read) == ("finished", Plan.FULL_LOOP, 1, 1)
    assert found.external_calls >= 1
    assert found.tokens > 0
    assert found.cited > 0
    gain, age, before = found.freshness_gain_seconds, found.cited_age_seconds, found.cited_age_without_crawl_seconds
    assert gain is not None
    assert age is not None
    assert before is not None
    assert 0 < gain < before < 600
    ledger.outcomes.rebuild()
    assert outcome(ledger, run_id) == found


def test_feedback_of_an_agent_judges_its_run_once_for_each_signal(instance: Instance, site: Site) -> None:
    aging = AgingSite(site, instance, 2)
    aging.crawl_all()
    run_id = aging.ask(0, 1)
    ledger, service = instance.context.ledger, instance.service
    given = ledger.run(run_id).answer
    assert given is not None
    success = FeedbackRequest(run_id=run_id, outcome="success", chunk_ids_used=(given.chunks[0].chunk_id,))
    assert service.give_feedback(success)
    assert not service.give_feedback(success)
    assert service.give_feedback(FeedbackRequest(run_id=run_id, rating=0.5, signal="benchmark", response="it is so"))
    with pytest.raises(Conflict):
        service.give_feedback(success.model_copy(update={"outcome": "failure"}))
    with pytest.raises(InvalidInput, match="chunk_ids_used"):
        service.give_feedback(
            success.model_copy(update={"chunk_ids_used": ("chk_other",), "signal": "user_acceptance"})
        )
    assert service.give_feedback(success, owner="key_2")
    instance.works("gate")
    found = outcome(ledger, run_id)
    assert found.signals == {"benchmark": 0.5, "task_satisfaction": 1.0}
    assert (found.used, found.satisfaction) == (1, 0.75)
    assert found.freshness_gain_seconds == 0
