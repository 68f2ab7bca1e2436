"""An answer is told when what it cites is no longer so, exactly then, and once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from sluice.contracts.errors import NotFound
from sluice.contracts.event import Done
from sluice.contracts.index import AnswerStale, StaleCitation
from sluice.contracts.ingest import DocumentsRemoved
from sluice.ledger.ledger import Claim
from sluice.ledger.retention import Pruning
from sluice.workers.handlers import HANDLERS
from sluice.workers.steps.answer import tell_stale_answers
from tests.support.aging_site import CORPUS, CRAWL, AgingSite
from tests.support.in_process import Instance, MakeInstance
from tests.support.site import Site


@pytest.fixture
def instance(make_instance: MakeInstance, site: Site) -> Instance:
    return make_instance(crawl=CRAWL, egress={"allow": [site.address]})


@pytest.fixture
def aging(instance: Instance, site: Site) -> AgingSite:
    aging = AgingSite(site, instance, 4)
    aging.crawl_all()
    return aging


def look(aging: AgingSite) -> tuple[str, ...]:
    """The runs that a look at everything unchecked tells."""
    context = aging.instance.context
    return tell_stale_answers(CORPUS, context.ledger, context.readers, datetime.now(UTC))


def kinds(aging: AgingSite, run_id: str) -> list[str]:
    return [event.kind for _, event in aging.instance.context.ledger.events_after(run_id)]


def test_exactly_the_answers_whose_passage_changed_or_went_are_told(aging: AgingSite) -> None:
    changed, beside, gone, other = (aging.ask(*place) for place in ((0, 1), (0, 2), (1, 0), (2, 0)))
    aging.rewrite(0, section=1)
    aging.remove(1)
    aging.recheck()
    assert aging.stale(changed) == [(1, "changed", aging.url(0))]
    assert aging.stale(gone) == [(1, "gone", aging.url(1))]
    assert aging.stale(beside) == [], "another section of the same page is as it was"
    assert aging.stale(other) == []
    assert kinds(aging, changed)[-2:] == ["RunFinished", "AnswerStale"]
    [told] = aging.instance.context.ledger.events_of_kind(changed, AnswerStale.kind)
    assert told.body_as(AnswerStale).citations == aging.instance.context.ledger.run(changed).stale


def test_an_answer_is_told_once_however_often_its_page_changes(aging: AgingSite) -> None:
    run_id = aging.ask(0, 1)
    for _ in range(2):
        aging.rewrite(0, section=1)
        aging.recheck()
    aging.remove(0)
    aging.recheck()
    assert kinds(aging, run_id).count("AnswerStale") == 1


def test_a_document_that_is_removed_tells_its_answers(aging: AgingSite) -> None:
    run_id = aging.ask(3, 2)
    removal = DocumentsRemoved(document_ids=(aging.document_id(3),))
    aging.instance.begins(removal)
    aging.works()
    assert aging.stale(run_id) == [(1, "gone", aging.url(3))]


def test_an_answer_that_was_recorded_while_its_page_changed_is_told_by_the_next_look(aging: AgingSite) -> None:
    """It was made from the generation before, and its citations were not known yet when the new one was published."""
    context = aging.instance.context
    run_id = aging.begin_to_ask(0, 1)
    claim = context.ledger.claim_next("query", "query-1", 60.0)
    assert isinstance(claim, Claim)
    outcome = HANDLERS[claim.event.kind](claim.event, context)
    assert isinstance(outcome, Done)
    aging.rewrite(0, section=1)
    aging.recheck()
    context.ledger.settle(claim, outcome)
    assert aging.stale(run_id) == []
    assert look(aging) == (run_id,)
    assert aging.stale(run_id) == [(1, "changed", aging.url(0))]
    assert look(aging) == ()


def test_a_look_at_answers_of_what_is_served_finds_nothing_to_do(aging: AgingSite) -> None:
    run_id = aging.ask(0, 1)
    assert look(aging) == ()
    assert aging.stale(run_id) == []
    assert aging.instance.context.ledger.unchecked_citations(CORPUS, 1_000_000) == []


def test_a_handler_that_is_killed_and_runs_again_tells_once(aging: AgingSite) -> None:
    """Whether it died before or after the run was told, with the event still to be settled."""
    runs = [aging.ask(0, 1), aging.ask(1, 1)]
    aging.rewrite(0, section=1)
    aging.rewrite(1, section=1)
    ledger, tell = aging.instance.context.ledger, aging.instance.context.ledger.tell_stale

    class Killed(BaseException):
        """What nothing catches."""

    def dying(run_id: str, stale: Sequence[StaleCitation]) -> None:
        tell(run_id, stale)
        raise Killed

    ledger.tell_stale = dying  # type: ignore[method-assign,assignment]
    with pytest.raises(Killed):
        aging.recheck()
    ledger.tell_stale = tell  # type: ignore[method-assign]
    ledger.release("index-1")
    aging.works()
    assert [aging.stale(run_id) for run_id in runs] == [[(1, "changed", aging.url(page))] for page in (0, 1)]
    assert [kinds(aging, run_id).count("AnswerStale") for run_id in runs] == [1, 1]


def test_a_run_that_was_pruned_meanwhile_is_not_told(aging: AgingSite) -> None:
    context = aging.instance.context
    run_id = aging.ask(0, 1)
    Pruning(context.ledger.database).prune(datetime.now(UTC) + timedelta(days=1), "operator")
    with pytest.raises(NotFound):
        context.ledger.run(run_id)
    aging.rewrite(0, section=1)
    aging.recheck()
    assert look(aging) == ()
