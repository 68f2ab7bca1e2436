"""A page is remembered exactly as long as the index holds what was read of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from sluice.contracts.document import document_id_for
from sluice.contracts.ingest import PageLink, RememberedPage, WithdrawnPage
from sluice.ingest.crawl.page_scan import MAX_LINKS, MAX_TEXT_CHARACTERS
from sluice.ingest.url import MAX_URL_CHARACTERS
from sluice.ledger.database import Database
from sluice.ledger.known_pages import PageMemory
from sluice.ledger.ledger import Ledger
from sluice.ledger.retention import Pruning
from sluice.ledger.runs import NewRun
from sluice.ledger.schema.migrate import install

URL = "https://docs.example.com/guide"
NOON = datetime(2031, 5, 6, 12, tzinfo=UTC)
PAGE = RememberedPage(
    url=URL,
    final_url=URL + "/",
    document_id=document_id_for(URL + "/"),
    body_sha256="ab" * 32,
    fetched_at=NOON,
    rendered=True,
    etag='W/"1"',
    last_modified="Tue, 06 May 2031 11:00:00 GMT",
    canonical_url=URL + "/canonical",
    links=(PageLink(URL + "/é", "Straße"), PageLink(URL + "/b", "")),
)


@pytest.fixture
def database(ledger_url: str) -> Iterator[Database]:
    database = Database(ledger_url)
    with database.installing() as connection:
        install(connection)
    yield database
    database.close()


@pytest.fixture
def memory(database: Database) -> PageMemory:
    return PageMemory(database, read_as="1")


def held(memory: PageMemory, page: RememberedPage = PAGE, run_id: str = "run_1") -> None:
    memory.remember("docs", page, run_id=run_id)
    memory.confirm("docs", {page.document_id: "1"}, run_id=run_id)


def test_a_page_that_the_index_holds_is_recalled_as_it_was(memory: PageMemory) -> None:
    held(memory)
    assert memory.recall("docs", URL) == PAGE


def test_a_page_never_read_and_one_of_another_corpus_are_not_known(memory: PageMemory) -> None:
    held(memory)
    assert memory.recall("docs", URL + "/other") is None
    assert memory.recall("other", URL) is None


def test_a_page_whose_indexing_never_finished_is_not_recalled(memory: PageMemory) -> None:
    memory.remember("docs", PAGE, run_id="run_1")
    assert memory.recall("docs", URL) is None
    held(memory)
    memory.remember("docs", replace(PAGE, body_sha256="cd" * 32), run_id="run_2")
    assert memory.recall("docs", URL) is None


def test_what_one_run_read_is_not_confirmed_by_what_another_indexed(memory: PageMemory) -> None:
    memory.remember("docs", PAGE, run_id="run_late")
    memory.confirm("docs", {PAGE.document_id: "1"}, run_id="run_early")  # its older version now stands in the index
    memory.confirm("docs", {PAGE.document_id: "1"}, run_id="run_late")
    assert memory.recall("docs", URL) is None


def test_a_document_submitted_in_a_page_s_place_takes_its_memory_away(memory: PageMemory) -> None:
    held(memory)
    memory.confirm("docs", {"doc_of_somebody_else": "1", PAGE.document_id: "1"}, run_id="run_submission")
    assert memory.recall("docs", URL) is None


def test_two_addresses_of_one_document_are_both_known(memory: PageMemory) -> None:
    alias = replace(PAGE, url=URL + "?old")
    for page in (PAGE, alias):
        memory.remember("docs", page, run_id="run_1")
    memory.confirm("docs", {PAGE.document_id: "1"}, run_id="run_1")
    assert (memory.recall("docs", URL), memory.recall("docs", alias.url)) == (PAGE, alias)


def test_a_removed_document_takes_all_its_pages_along_and_no_others(memory: PageMemory) -> None:
    other = replace(PAGE, url=URL + "/other", document_id="doc_other")
    held(memory)
    held(memory, replace(PAGE, url=URL + "?alias"))
    held(memory, other)
    memory.forget("docs", [PAGE.document_id])
    assert memory.recall("docs", URL) is None
    assert memory.recall("docs", URL + "?alias") is None
    assert memory.recall("docs", other.url) == other


def test_a_document_removed_while_it_is_indexed_is_not_known_afterwards(memory: PageMemory) -> None:
    memory.remember("docs", PAGE, run_id="run_1")
    memory.forget("docs", [PAGE.document_id])
    memory.confirm("docs", {PAGE.document_id: "1"}, run_id="run_1")
    assert memory.recall("docs", URL) is None


def test_a_page_that_was_withdrawn_is_not_recalled_and_says_why(memory: PageMemory) -> None:
    held(memory)
    later = NOON + timedelta(days=1)
    for _ in range(2):
        memory.withdraw("docs", [PAGE.document_id], by="gone", at=later)
    assert memory.recall("docs", URL) is None
    assert memory.seen_at("docs", [PAGE.document_id]) == {}
    assert memory.withdrawn("docs", URL) == WithdrawnPage("gone", later)
    assert memory.withdrawn("other", URL) is None
    held(memory)
    assert (memory.recall("docs", URL), memory.withdrawn("docs", URL)) == (PAGE, None)


def test_a_page_that_was_seen_since_is_not_withdrawn(memory: PageMemory) -> None:
    held(memory)
    memory.withdraw("docs", [PAGE.document_id], by="noindex", at=NOON - timedelta(seconds=1))
    assert (memory.recall("docs", URL), memory.withdrawn("docs", URL)) == (PAGE, None)


def test_a_page_that_is_withdrawn_while_it_is_indexed_is_not_known_afterwards(memory: PageMemory) -> None:
    memory.remember("docs", PAGE, run_id="run_1")
    memory.withdraw("docs", [PAGE.document_id], by="noindex", at=NOON)
    memory.confirm("docs", {PAGE.document_id: "1"}, run_id="run_1")
    assert memory.recall("docs", URL) is None


def test_whether_text_of_a_page_may_be_shown_is_remembered(memory: PageMemory) -> None:
    shy = replace(PAGE, nosnippet=True)
    held(memory, shy)
    assert memory.recall("docs", URL) == shy


def test_everything_may_be_told_twice(memory: PageMemory) -> None:
    held(memory)
    held(memory)
    assert memory.recall("docs", URL) == PAGE
    memory.forget("docs", [PAGE.document_id])
    memory.forget("docs", [PAGE.document_id])
    memory.confirm("docs", {}, run_id="run_1")
    assert memory.recall("docs", URL) is None


def test_pages_that_were_read_in_another_way_are_read_anew(database: Database, memory: PageMemory) -> None:
    held(memory)
    assert PageMemory(database, read_as="2").recall("docs", URL) is None


def test_seeing_a_page_again_makes_it_younger_and_never_older(memory: PageMemory) -> None:
    held(memory)
    for days in (2, -2):
        memory.seen_again("docs", URL, NOON + timedelta(days=days))
    assert memory.recall("docs", URL) == replace(PAGE, fetched_at=NOON + timedelta(days=2))


def test_the_longest_page_fits_and_what_a_site_sends_to_be_sent_back_is_bounded(memory: PageMemory) -> None:
    links = tuple(
        PageLink(f"{URL}/{number}/".ljust(MAX_URL_CHARACTERS, "x"), "\x00\ud800".ljust(MAX_TEXT_CHARACTERS, "ü"))
        for number in range(MAX_LINKS)
    )
    held(memory, replace(PAGE, links=links, etag='"' + "x" * 5_000 + '"', last_modified="\x00\ud800"))
    recalled = memory.recall("docs", URL)
    assert recalled is not None
    assert (len(recalled.links), recalled.links[7].url, recalled.etag) == (MAX_LINKS, links[7].url, None)


def test_pages_that_nobody_asked_for_are_pruned_and_the_others_stay(
    database: Database, memory: PageMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluice.ledger.retention.MOST_ROWS", 2)
    pruning, before = Pruning(database, NOON.timestamp), NOON - timedelta(days=30)
    for number in range(5):
        held(memory, replace(PAGE, url=f"{URL}/{number}", fetched_at=NOON - timedelta(days=40)))
    held(memory)
    memory.seen_again("docs", URL + "/3", NOON)
    assert pruning.count(before).pages == pruning.prune(before, "me").pages == 4
    assert memory.recall("docs", URL) == PAGE
    assert memory.recall("docs", URL + "/3") is not None
    assert memory.recall("docs", URL + "/4") is None


def test_when_a_document_was_seen_last_is_told_by_its_latest_page(memory: PageMemory) -> None:
    held(memory)
    held(memory, replace(PAGE, url=URL + "?ref=1", fetched_at=NOON + timedelta(hours=1)), run_id="run_1")
    memory.remember("docs", replace(PAGE, url=URL + "/b", document_id="doc_b"), run_id="run_2")
    assert memory.seen_at("docs", [PAGE.document_id, PAGE.document_id, "doc_b", "doc_c"]) == {
        PAGE.document_id: NOON + timedelta(hours=1)
    }
    memory.seen_again("docs", URL, NOON + timedelta(hours=2))
    assert memory.seen_at("docs", [PAGE.document_id]) == {PAGE.document_id: NOON + timedelta(hours=2)}
    assert memory.seen_at("other", [PAGE.document_id]) == {}
    assert memory.seen_at("docs", []) == {}


def test_of_a_corpus_whose_files_are_gone_nothing_is_recalled(database: Database) -> None:
    held(PageMemory(database))
    assert PageMemory(database, is_there=lambda corpus: corpus == "docs").recall("docs", URL)
    assert PageMemory(database, is_there=lambda corpus: False).recall("docs", URL) is None


def test_pages_that_were_not_seen_lately_are_listed_the_longest_unseen_first(memory: PageMemory) -> None:
    for days, name in enumerate(("new", "old", "older"), start=1):
        url = f"{URL}/{name}"
        held(memory, replace(PAGE, url=url, final_url=url, document_id=name, fetched_at=NOON - timedelta(days=days)))
    memory.remember("docs", replace(PAGE, url=URL + "/unread", fetched_at=NOON - timedelta(days=9)), run_id="run_2")
    watched = list(memory.watched("docs", NOON, timedelta(days=2)))
    assert [(page.document_id, page.fetched_at) for page in watched] == [
        ("older", NOON - timedelta(days=3)),
        ("old", NOON - timedelta(days=2)),
    ]
    assert list(memory.watched("other", NOON, timedelta())) == []
    memory.seen_again("docs", f"{URL}/older", NOON)
    assert [page.document_id for page in memory.watched("docs", NOON, timedelta(days=1))] == ["old", "new"]


def test_a_page_that_was_found_under_several_addresses_was_seen_when_one_of_them_was(memory: PageMemory) -> None:
    for name in ("first", "second"):
        memory.remember("docs", replace(PAGE, url=f"{URL}/{name}"), run_id="run_1")
    memory.confirm("docs", {PAGE.document_id: "1"}, run_id="run_1")
    memory.seen_again("docs", f"{URL}/first", NOON + timedelta(days=1))
    [page] = memory.watched("docs", NOON + timedelta(days=9), timedelta(days=1))
    assert page.fetched_at == NOON + timedelta(days=1)


def test_more_pages_than_one_transaction_reads_are_all_listed_once(memory: PageMemory) -> None:
    for number in range(2_001):
        url = f"{URL}/{number}"
        memory.remember("docs", replace(PAGE, url=url, final_url=url, document_id=url), run_id="run_1")
    memory.confirm("docs", {f"{URL}/{number}": "1" for number in range(2_001)}, run_id="run_1")
    assert len({page.url for page in memory.watched("docs", NOON + timedelta(days=1), timedelta())}) == 2_001


def test_a_page_is_watched_the_more_closely_the_more_often_its_text_changed(memory: PageMemory) -> None:
    """Its text as the index has it, by its checksum: a page whose body alone is another one has not changed."""
    held(memory)
    for day, checksum in enumerate(("1", "2", "2", "3"), start=1):
        memory.remember("docs", replace(PAGE, fetched_at=NOON + timedelta(days=day)), run_id=f"run_{day}")
        for _ in range(2):  # a second time changes nothing
            memory.confirm("docs", {PAGE.document_id: checksum}, run_id=f"run_{day}")
    [page] = memory.watched("docs", NOON + timedelta(days=14), timedelta(days=30))
    assert (page.changes, page.watched_since) == (2, NOON)
    assert list(memory.watched("docs", NOON + timedelta(days=13), timedelta(days=30))) == []


def test_it_is_known_when_a_page_itself_was_asked_for_and_when_its_sitemap_told_of_it(memory: PageMemory) -> None:
    held(memory)
    memory.seen_again("docs", URL, NOON + timedelta(days=1))
    memory.seen_again("docs", URL, NOON + timedelta(days=2), asked=False)
    [page] = memory.watched("docs", NOON + timedelta(days=9), timedelta(days=1))
    assert (page.asked_at, page.fetched_at) == (NOON + timedelta(days=1), NOON + timedelta(days=2))


def test_a_page_stays_with_the_key_whose_run_read_it_first(memory: PageMemory, ledger_url: str) -> None:
    with Ledger(ledger_url) as ledger:
        for run_id, owner in (("run_1", "key_a"), ("run_2", "local")):
            ledger.create_run(NewRun(run_id, "crawl", "docs", "0" * 64, owner), [])
    held(memory)
    memory.remember("docs", PAGE, run_id="run_2")
    memory.confirm("docs", {PAGE.document_id: "2"}, run_id="run_2")
    [page] = memory.watched("docs", NOON + timedelta(days=40), timedelta(days=1))
    assert page.owner == "key_a"
