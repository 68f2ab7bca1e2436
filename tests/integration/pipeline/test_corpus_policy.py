"""A corpus with a policy of its own: what it may take in, from where, and whether the web is asked for it."""

from __future__ import annotations

import pytest

from sluice.contracts.api import DocumentsRequest, GateRequest
from sluice.contracts.errors import PolicyRefused
from sluice.contracts.ingest import CrawlDirected, SearchDirected
from sluice.contracts.plan import Plan
from tests.support.in_process import Instance, MakeInstance

INGEST = ("chunk", "embed", "index")
OWN = {"search": False, "crawl": False, "sources": ["example.org", "submissions"], "forbidden": [r"project\s+bluebird"]}
WEB = {
    "search": {"enabled": True, "providers": ["searxng"], "searxng_url": "http://127.0.0.1:9"},
    "crawl": {"enabled": True},
}


@pytest.fixture
def instance(make_instance: MakeInstance) -> Instance:
    return make_instance(trust={"corpora": {"docs*": OWN, "files": {"sources": ["files"]}}}, **WEB)


def add(instance: Instance, corpus: str, *texts: str) -> str:
    documents = [{"id": f"doc-{number}", "text": text} for number, text in enumerate(texts)]
    request = DocumentsRequest.model_validate({"corpus": corpus, "create_corpus": True, "documents": documents})
    run_id = instance.service.add_documents(request).run_id
    instance.works(*INGEST)
    return run_id


def test_a_chunk_with_a_forbidden_pattern_is_held_and_its_neighbours_are_indexed(instance: Instance) -> None:
    run_id = add(instance, "docs-1", "Leases end by themselves.", "The memo on Project\nBluebird is not for readers.")
    [gap] = instance.gaps(run_id)
    assert (gap.reason, "forbidden" in gap.detail) == ("quarantined", True)
    assert set(instance.context.readers.existing("docs-1").documents(["doc-0", "doc-1"])) == {"doc-0"}

    elsewhere = add(instance, "other", "The memo on Project Bluebird.")
    assert instance.gaps(elsewhere) == ()


def test_only_listed_sources_reach_a_corpus(instance: Instance) -> None:
    with pytest.raises(PolicyRefused, match="the policy of corpus 'files' does not list its source"):
        add(instance, "files", "Handed in by an agent.")
    policy = instance.context.settings.trust.policy_of("docs")
    assert [
        policy.takes_page(f"https://{host}/a") for host in ("example.org", "www.example.org", "example.org.evil")
    ] == [True, True, False]


def test_a_corpus_without_the_web_is_answered_from_itself_and_the_veto_says_why(instance: Instance) -> None:
    run_ids = {}
    for corpus in ("docs", "other"):
        add(instance, corpus, "Leases end by themselves.")
        run_ids[corpus] = instance.service.ask(GateRequest(query="Who won the cup of 1931?", corpus=corpus)).run_id
    instance.works("query", "gate")
    decisions = {corpus: instance.context.ledger.run(run_id).decision for corpus, run_id in run_ids.items()}
    assert decisions["docs"] is not None
    assert decisions["other"] is not None
    assert decisions["docs"].plan is Plan.RETRIEVE
    assert {veto.lifted_by for veto in decisions["docs"].vetoes} == {
        "search and crawl = true for the corpus under trust.corpora in sluice.toml"
    }
    assert decisions["other"].plan is not Plan.RETRIEVE


@pytest.mark.parametrize(
    ("stage", "body"),
    [("crawl", CrawlDirected(url="https://example.org/1")), ("search", SearchDirected(query="q", vertical="web"))],
)
def test_what_was_directed_before_the_policy_is_refused_before_the_network(
    instance: Instance, stage: str, body: CrawlDirected | SearchDirected
) -> None:
    run_id = instance.begins(body)  # in the corpus `docs`
    instance.works(stage)  # type: ignore[arg-type]
    [gap] = instance.gaps(run_id)
    assert (gap.stage, gap.reason, gap.lifted_by) == (stage, "corpus_policy", "trust.corpora")
