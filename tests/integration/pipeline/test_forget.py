"""What is forgotten is gone from everywhere, proven by looking, and does not come back."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.contracts.api import DocumentsRequest
from sluice.contracts.errors import NotFound, PolicyRefused
from sluice.contracts.ingest import CrawlDirected, DocumentsSubmitted
from sluice.contracts.operations.forget import ForgetProof, ForgetRequest, NewEntry
from sluice.contracts.retrieval import Query, Strategy
from sluice.index.folder import CorpusLayout
from sluice.index.generations.publish import list_generation_names
from sluice.workers.handlers import HANDLERS
from sluice.workers.service.callers import OWN_MACHINE, Caller
from sluice.workers.service.forget import ForgetDesk
from tests.support.in_process import Instance, MakeInstance
from tests.support.searching import searched
from tests.support.site import Site
from tests.support.suspicious import Suspicious

STAGES = ("crawl", "chunk", "embed", "index")
TEXT = "<p>A canal lock raises boats; the keeper of this one has a walrus. The paddles come first, then the gates.</p>"
CORPUS = "docs"


@pytest.fixture
def instance(make_instance: MakeInstance, site: Site) -> Instance:
    for name in ("/private/a", "/private/b", "/public"):
        site.html(name, f"<title>{name}</title><main><h1>Of {name}</h1>{TEXT}</main>")
    crawl = {"enabled": True, "render": "never", "requests_per_second_per_host": 50.0}
    return make_instance(crawl=crawl, egress={"allow": [site.address]})


def base(site: Site) -> str:
    return site.url("/").rstrip("/")


def desk(instance: Instance) -> ForgetDesk:
    return ForgetDesk(instance.context)


def crawls(instance: Instance, *urls: str) -> list[str]:
    runs = [instance.begins(CrawlDirected(url=url)) for url in urls]
    instance.works(*STAGES)
    return runs


def forgets(instance: Instance, caller: Caller = OWN_MACHINE, **what: Any) -> str:
    accepted = desk(instance).forget(ForgetRequest.model_validate({"corpus": CORPUS, **what}), caller)
    instance.works(*STAGES)
    assert instance.context.ledger.run(accepted.run_id).status == "finished"
    return accepted.run_id


def proof(instance: Instance, **what: Any) -> ForgetProof:
    return desk(instance).prove(CORPUS, ForgetRequest.model_validate(what).selection, OWN_MACHINE)


def left_in(instance: Instance, **what: Any) -> set[str]:
    """The places in which something is found."""
    return {trace.place.partition(" generation")[0] for trace in proof(instance, **what).traces if trace.found}


def found(instance: Instance) -> set[str | None]:
    """The URLs or ids that a search finds."""
    query = Query(query="walrus keeper", corpus=CORPUS, strategy=Strategy.BM25, top_k=20, duplicate_threshold=0.0)
    return {chunk.url or chunk.document_id for chunk in searched(query, instance.context)[0].chunks}


def submits(instance: Instance, owner: str = "key_1", **document: Any) -> str:
    request = {"corpus": CORPUS, "documents": [{"text": f"The walrus of {document}.", **document}]}
    run_id = instance.service.add_documents(DocumentsRequest.model_validate(request), owner=owner).run_id
    instance.works(*STAGES)
    return run_id


def test_pages_below_a_prefix_are_gone_from_every_place_and_the_others_stay(instance: Instance, site: Site) -> None:
    private, public = f"{base(site)}/private/", f"{base(site)}/public"
    crawls(instance, f"{private}a", public)
    crawls(instance, f"{private}b")
    everywhere = {
        "what queries find",
        "journal",
        "current",
        "retained",
        "known pages",
        "batches among the blobs",
        "blobs that events lead to",
    }
    assert left_in(instance, url_prefix=private) == everywhere
    forgets(instance, url_prefix=private)
    assert left_in(instance, url_prefix=private) == set()
    assert proof(instance, url_prefix=private).is_proven
    assert found(instance) == {public}
    assert len(list_generation_names(CorpusLayout(instance.context.settings.index_root, CORPUS))) == 1


def test_it_is_not_crawled_again_until_its_entry_is_lifted(instance: Instance, site: Site) -> None:
    url = f"{base(site)}/private/a"
    crawls(instance, url)
    forgets(instance, url=url, note="asked for")
    asked_before = len(site.paths())
    [run_id] = crawls(instance, url)
    [gap] = instance.gaps(run_id)
    assert (gap.reason, gap.subject) == ("forgotten", url)
    assert len(site.paths()) == asked_before
    [entry] = desk(instance).entries(OWN_MACHINE)
    assert (entry.kind, entry.value, entry.operator, entry.note) == ("url", url, "local", "asked for")
    desk(instance).allow(entry.id, OWN_MACHINE, "")
    crawls(instance, url)
    assert found(instance) == {url}


def test_what_is_under_way_when_it_is_forgotten_does_not_come_in(instance: Instance, site: Site) -> None:
    url = f"{base(site)}/private/a"
    crawls(instance, f"{base(site)}/public")
    runs = [instance.begins(CrawlDirected(url=url)) for _ in range(2)]
    instance.works_once("crawl")
    instance.works("chunk", "embed")
    instance.works_once("crawl")
    forget = desk(instance).forget(ForgetRequest(corpus=CORPUS, url=url), OWN_MACHINE)
    instance.works("chunk", "embed", "index")
    for run_id in runs:
        assert [gap.reason for gap in instance.gaps(run_id)] == ["forgotten"]
    instance.context.ledger.clock = lambda: 4e9  # the retry's time has come
    instance.context.ledger.wake_due_retries()
    instance.works("index")
    assert instance.context.ledger.run(forget.run_id).status == "finished"
    assert left_in(instance, url=url) == set()


@pytest.mark.parametrize("by", ["run_id", "submitted_by", "document_id", "filters"])
def test_what_was_handed_in_is_forgotten_by_run_key_id_and_filter(instance: Instance, by: str) -> None:
    run_id = submits(instance, id="bad", metadata={"team": "x"})
    submits(instance, owner="key_2", id="good")
    what = {"run_id": run_id, "submitted_by": "key_1", "document_id": "bad", "filters": {"metadata": {"team": "x"}}}
    forgets(instance, **{by: what[by]})
    assert found(instance) == {"good"}
    assert proof(instance, **{by: what[by]}).is_proven


@pytest.mark.parametrize("by", ["submitted_by", "document_id", "filters"])
def test_what_is_kept_out_is_refused_when_it_is_handed_in_again(instance: Instance, by: str) -> None:
    submits(instance, id="bad", metadata={"team": "x"})
    what = {"submitted_by": "key_1", "document_id": "bad", "filters": {"metadata": {"team": "x"}}}
    forgets(instance, **{by: what[by]})
    with pytest.raises(PolicyRefused, match="negative list"):
        submits(instance, id="bad")
    assert found(instance) == set()


def test_what_may_return_returns(instance: Instance) -> None:
    submits(instance, id="bad")
    forgets(instance, document_id="bad", keep_out=False)
    assert desk(instance).entries(OWN_MACHINE) == []
    submits(instance, id="bad")
    assert found(instance) == {"bad"}


def test_of_a_submission_in_part_forgotten_the_rest_comes_in(instance: Instance) -> None:
    desk(instance).keep_out(NewEntry(corpus=CORPUS, kind="document_id", value="bad"), OWN_MACHINE)
    documents = [{"id": name, "text": f"The walrus of {name}."} for name in ("good", "bad")]
    request = DocumentsRequest.model_validate({"corpus": CORPUS, "documents": documents})
    run_id = instance.service.add_documents(request).run_id
    instance.works(*STAGES)
    assert found(instance) == {"good"}
    assert [gap.reason for gap in instance.gaps(run_id)] == ["forgotten"]
    [event] = instance.context.ledger.events_of_kind(run_id, DocumentsSubmitted.kind)
    assert b"walrus of bad" not in instance.context.blobs.get(event.body_as(DocumentsSubmitted).documents)


def test_the_same_content_under_another_name_is_refused_by_its_checksum(instance: Instance) -> None:
    submits(instance, id="bad", text="The walrus of a leak.")
    facts = instance.context.readers.reader(CORPUS).document("bad")
    assert facts is not None
    desk(instance).keep_out(NewEntry(corpus=CORPUS, kind="checksum", value=facts.checksum), OWN_MACHINE)
    run_id = submits(instance, id="again", text="The walrus of a leak.")
    assert [gap.reason for gap in instance.gaps(run_id)] == ["forgotten"]


def test_what_the_quarantine_holds_of_it_goes_too(instance: Instance) -> None:
    vars(instance.context)["inspector"] = Suspicious()
    submits(instance, id="bad", text="EVIL words of a walrus.")
    assert instance.context.ledger.quarantine.count() == 1
    assert "quarantine" in left_in(instance, document_id="bad")
    forgets(instance, document_id="bad")
    assert instance.context.ledger.quarantine.count() == 0
    assert proof(instance, document_id="bad").is_proven


def test_each_step_handled_twice_leaves_the_same(instance: Instance, site: Site) -> None:
    url = f"{base(site)}/private/a"
    crawls(instance, url, f"{base(site)}/public")
    run_id = forgets(instance, url=url)
    for _, event in instance.context.ledger.events_after(run_id):
        if event.kind in HANDLERS and event.kind != "SnapshotPublished":
            HANDLERS[event.kind](event, instance.context)
    assert proof(instance, url=url).is_proven
    assert found(instance) == {f"{base(site)}/public"}


def test_it_does_not_come_back_by_a_rebuild(instance: Instance, site: Site) -> None:
    url = f"{base(site)}/private/a"
    crawls(instance, url, f"{base(site)}/public")
    forgets(instance, url=url)
    with instance.context.writers.writing(CORPUS) as writer:
        assert writer.rebuild().generation.document_count == 1
    assert proof(instance, url=url).is_proven


def test_what_is_not_in_the_corpus_can_be_forgotten_before_it_comes(instance: Instance, site: Site) -> None:
    forgets(instance, url_prefix=f"{base(site)}/private/")
    crawls(instance, f"{base(site)}/private/a", f"{base(site)}/public")
    assert found(instance) == {f"{base(site)}/public"}


def test_an_entry_of_another_corpus_is_not_to_be_seen_and_not_to_be_lifted(instance: Instance) -> None:
    desk(instance).keep_out(NewEntry(corpus=CORPUS, kind="document_id", value="bad"), OWN_MACHINE)
    [entry] = desk(instance).entries(OWN_MACHINE)
    stranger = Caller("key_9", "operator", frozenset({"other"}))
    assert desk(instance).entries(stranger) == []
    with pytest.raises(NotFound):
        desk(instance).allow(entry.id, stranger, "")
