"""No page takes over, overwrites or withdraws another page's document, whatever it says of addresses."""

from __future__ import annotations

import pytest

from sluice.contracts.document import document_id_for
from sluice.contracts.ingest import CrawlDirected
from tests.support.in_process import Instance, MakeInstance
from tests.support.site import Site

VICTIM_TEXT = "<p>" + "The victim writes about leases that a heartbeat renews. " * 20 + "</p>"
ATTACKER_TEXT = "<p>" + "The attacker writes about something else altogether. " * 20 + "</p>"


@pytest.fixture
def instance(make_instance: MakeInstance, site: Site) -> Instance:
    crawl = {"enabled": True, "render": "never", "requests_per_second_per_host": 50.0}
    made = make_instance(crawl=crawl, egress={"allow": [site.address]})
    site.html("/victim", VICTIM_TEXT)
    crawled(made, site.url("/victim"))
    return made


def crawled(instance: Instance, url: str) -> None:
    instance.begins(CrawlDirected(url=url))
    instance.works("crawl", "chunk", "embed", "index")


def held(instance: Instance, *urls: str) -> dict[str, str]:
    """The documents that the index holds of the addresses, by id, with the run that brought each."""
    found = instance.context.readers.existing("docs").documents([document_id_for(url) for url in urls])
    return {document_id: facts.provenance.run_id or "" for document_id, facts in found.items()}


@pytest.mark.parametrize("robots", ["", "<meta name=robots content=noindex>"])
def test_a_canonical_link_neither_overwrites_nor_withdraws_the_document_that_it_names(
    instance: Instance, site: Site, robots: str
) -> None:
    before = held(instance, site.url("/victim"))
    assert before.keys() == {document_id_for(site.url("/victim"))}
    site.html("/attacker", f"<link rel=canonical href=/victim>{robots}{ATTACKER_TEXT}")
    crawled(instance, site.url("/attacker"))
    assert held(instance, site.url("/victim")) == before, "it is still what its own address answered"
    attacker = held(instance, site.url("/attacker"))
    assert attacker.keys() == (set() if robots else {document_id_for(site.url("/attacker"))})


def test_a_page_that_asks_itself_to_leave_the_index_does(instance: Instance, site: Site) -> None:
    site.html("/victim", f"<meta name=robots content=noindex>{VICTIM_TEXT}")
    crawled(instance, site.url("/victim"))
    assert held(instance, site.url("/victim")) == {}
