"""A passage that callers call bad evidence falls in later answers of its corpus, and what is known of it follows from
events."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from sluice.contracts.api import DocumentsRequest, FeedbackRequest, GateRequest
from sluice.contracts.errors import Conflict, InvalidInput, NotFound
from sluice.contracts.index import Answer
from sluice.contracts.ingest import CrawlDirected
from sluice.contracts.learning.passages import PassageMark
from sluice.contracts.operations.forget import ForgetRequest
from sluice.workers.service.callers import OWN_MACHINE
from sluice.workers.service.forget import ForgetDesk
from sluice.workers.service.freshness import due_pages
from tests.support.aging_site import CORPUS, CRAWL, AgingSite
from tests.support.in_process import Instance, MakeInstance
from tests.support.site import Site

QUESTION = "How often does the holder renew a lease?"
TEXTS = (
    "The holder of a lease renews the lease every five seconds. Without renewal it is free after fifteen seconds.",
    "A lease is renewed by its holder every ten seconds, and it is free again when thirty seconds have passed.",
    "The keeper of a canal lock opens the paddles first, so that the levels meet, and only then the gates.",
)


@pytest.fixture
def instance(make_instance: MakeInstance) -> Instance:
    instance = make_instance()
    documents = [{"id": f"doc-{number}", "text": text} for number, text in enumerate(TEXTS)]
    for corpus in ("docs", "others"):
        request = {"corpus": corpus, "create_corpus": True, "documents": documents}
        instance.service.add_documents(DocumentsRequest.model_validate(request))
    instance.works("chunk", "embed", "index")
    return instance


def asks(instance: Instance, corpus: str = "docs", owner: str = "local") -> tuple[str, Answer]:
    request = GateRequest.model_validate({"query": QUESTION, "corpus": corpus, "plan": "retrieve"})
    run_id = instance.service.ask(request, owner=owner).run_id
    instance.works("query", "gate", "query")
    answer = instance.context.ledger.run(run_id).answer
    assert answer is not None
    return run_id, answer


def ranking(instance: Instance, corpus: str = "docs") -> list[str]:
    return [chunk.document_id for chunk in asks(instance, corpus)[1].chunks][:2]


def says(
    instance: Instance, run_id: str, owner: str = "local", *, is_operator: bool = False, outcome: str = "", **said: Any
) -> bool:
    request = {"run_id": run_id, "passages": [{"citation": 1, "reason": "wrong", **said}]}
    request |= {"outcome": outcome} if outcome else {}
    return instance.service.give_feedback(FeedbackRequest.model_validate(request), owner=owner, is_operator=is_operator)


def marks(instance: Instance, corpus: str = "docs") -> list[PassageMark]:
    return instance.context.ledger.marks.of_corpus(corpus)


def test_a_passage_that_was_marked_twice_falls_behind_one_that_it_was_above_by_little(instance: Instance) -> None:
    before = ranking(instance)
    assert len(set(before)) == 2
    first, answer = asks(instance)
    ahead, behind = answer.chunks[0].fused_score, answer.chunks[1].fused_score
    assert behind > 0.8 * ahead, "else this shows nothing"
    assert says(instance, first, note="it is ten seconds")
    second, _ = asks(instance)
    place = ranking(instance).index(before[0]) + 1
    assert says(instance, second, citation=place)
    _, later = asks(instance)
    assert [chunk.document_id for chunk in later.chunks][:2] == before[::-1]
    fallen = next(one for one in later.chunks if one.document_id == before[0])
    assert fallen.fused_score == pytest.approx(0.8 * ahead)
    [score] = [one for one in later.trust_scores if one.chunk_id == fallen.chunk_id]
    assert score.factors.feedback == pytest.approx(0.8)
    assert ranking(instance, "others") == before, "another corpus is not concerned"

    [told] = instance.service.marked_passages("docs", 10)
    assert (told.chunk_id, told.doubt, told.reasons, told.keys) == (fallen.chunk_id, 0.2, {"wrong": 2}, 1)
    instance.service.clear_passage("docs", fallen.chunk_id, "ann", "it is right after all")
    assert ranking(instance) == before
    with pytest.raises(NotFound):
        instance.service.clear_passage("docs", fallen.chunk_id, "ann")


def test_the_events_bring_the_same_state(instance: Instance) -> None:
    first, answer = asks(instance)
    says(instance, first)
    says(instance, first, "key_2", citation=2, reason="outdated")
    says(instance, first, "key_3", citation=2, reason="off_topic")
    says(instance, first, "key_3", citation=2, reason=None, verdict="fine")
    second, _ = asks(instance)
    says(instance, second, reason="harmful")
    instance.service.clear_passage("docs", answer.chunks[1].chunk_id, "ann")
    says(instance, second, "key_2", citation=2, reason="outdated", is_operator=True)
    known = marks(instance)
    assert {(one.run_id, one.owner, one.standing) for one in known} >= {(second, "key_2", "operator")}
    instance.context.ledger.marks.rebuild()
    assert set(marks(instance)) == set(known)

    forgotten = known[0].document_id
    ForgetDesk(instance.context).forget(ForgetRequest(corpus="docs", document_id=forgotten), OWN_MACHINE)
    instance.works("index")
    left = {one for one in known if one.document_id != forgotten}
    assert set(marks(instance)) == left
    instance.context.ledger.marks.rebuild()
    assert set(marks(instance)) == left, "what was forgotten does not come back with the events"


def test_a_key_speaks_once_of_a_passage_and_may_take_it_back(instance: Instance) -> None:
    run_id, answer = asks(instance)
    assert says(instance, run_id)
    assert not says(instance, run_id)
    with pytest.raises(Conflict, match="bad, wrong was recorded"):
        says(instance, run_id, reason="harmful")
    with pytest.raises(InvalidInput, match=r"passages\.0\.citation: the run's answer has no passage 99"):
        says(instance, run_id, citation=99)
    with pytest.raises(InvalidInput, match=r"passages\.0\.chunk_id"):
        says(instance, run_id, citation=None, chunk_id="chk_elsewhere")
    both = [{"citation": 1, "reason": "wrong"}, {"chunk_id": answer.chunks[0].chunk_id, "reason": "wrong"}]
    with pytest.raises(InvalidInput, match="names a passage again"):
        instance.service.give_feedback(FeedbackRequest.model_validate({"run_id": run_id, "passages": both}))
    assert not instance.context.ledger.events_of_kind(run_id, "FeedbackGiven"), "the answer itself is not judged"
    assert says(instance, run_id, reason=None, verdict="fine")
    assert not marks(instance)
    assert says(instance, run_id, citation=2, outcome="failure")
    assert len(instance.context.ledger.events_of_kind(run_id, "FeedbackGiven")) == 1


def test_the_page_of_an_outdated_passage_is_read_again_soon_and_one_that_is_wrong_is_crawled_late(
    make_instance: MakeInstance, site: Site
) -> None:
    instance = make_instance(crawl=CRAWL, egress={"allow": [site.address]})
    aging = AgingSite(site, instance, 3)
    aging.crawl_all()
    outdated, wrong = aging.ask(0, 1), aging.ask(1, 1)
    assert aging.direct_recheck(timedelta(0)) is None
    says(instance, outdated, reason="outdated")
    says(instance, wrong, is_operator=True, owner="key_op")
    found = aging.answered(wrong).answer.chunks[0]
    assert found.url == aging.url(1)
    assert aging.direct_recheck(timedelta(seconds=1)) is not None
    aging.works()
    assert aging.direct_recheck(timedelta(seconds=2)) is None, "it was read since"
    pages = instance.context.doubts.pages(CORPUS)
    assert pages == {aging.url(1): pytest.approx(0.2)}

    links = "".join(f'<a href="{aging.url(page)}">Page {page}</a>' for page in (1, 0, 2))
    site.html("/all", f"<title>All</title><main><h1>All pages</h1><p>Here they are: {links}</p></main>")
    run_id = instance.begins(CrawlDirected(url=site.url("/all"), max_depth=1, page_allowance=4))
    instance.works("crawl")
    events = instance.context.ledger.events_of_kind(run_id, CrawlDirected.kind)
    followed = [event.body_as(CrawlDirected).url for event in events]
    assert followed == [site.url("/all"), aging.url(0), aging.url(2), aging.url(1)]
    assert not due_pages(
        instance.context, CORPUS, instance.context.page_memory.seen_at(CORPUS, [found.document_id])[found.document_id]
    )
