"""Pages that are due are asked for again: what changed is embedded, what is gone is withdrawn, and no more is done."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from sluice.contracts.retrieval import Query, Strategy
from sluice.ingest.freshness import Counts
from tests.support.aging_site import CORPUS, CRAWL, SECTIONS, AgingSite
from tests.support.in_process import Instance, MakeInstance
from tests.support.searching import searched
from tests.support.site import Site


@pytest.fixture
def instance(make_instance: MakeInstance, site: Site) -> Instance:
    return make_instance(crawl=CRAWL, egress={"allow": [site.address]})


def finds(aging: AgingSite, words: str) -> set[str]:
    """The documents in which a search finds one of the words."""
    query = Query(query=words, corpus=CORPUS, strategy=Strategy.BM25)
    return {chunk.document_id for chunk in searched(query, aging.instance.context)[0].chunks}


@pytest.mark.parametrize("pages", [30, pytest.param(1_000, marks=[pytest.mark.slow, pytest.mark.timeout(1_800)])])
def test_of_a_site_only_what_changed_is_read_embedded_and_told_again(
    instance: Instance, site: Site, pages: int
) -> None:
    """One page of a hundred changed in one of its sections, and one of a hundred is gone."""
    aging = AgingSite(site, instance, pages)
    aging.crawl_all()
    assert aging.job()[0] == Counts(new=pages)
    share = max(1, pages // 100)
    changed, gone, kept = range(share), range(share, 2 * share), range(2 * share, 3 * share)
    runs = [aging.ask(page, section) for page in (*changed, *gone, *kept) for section in (1, 2)]
    cited = {run_id: aging.answered(run_id).answer.chunks for run_id in runs}
    going = {aging.url(page): aging.word(page, 1) for page in changed}
    for page in changed:
        aging.rewrite(page)
    for page in gone:
        aging.remove(page)
    asked_before = len(site.asked)
    found = aging.recheck()
    assert found is not None
    assert (found.asked, found.read, found.withdrawn) == (pages, share, share)
    assert found.unchanged == pages - 2 * share
    assert len(site.asked) - asked_before <= pages + 1, "each page is asked for once, and robots.txt"
    assert aging.embedded_anew(found.run_id) == share, "one section of each changed page, of the three that it has"
    counts, plan = aging.job()
    assert counts == Counts(changed=share, deleted=share, unchanged=pages - 2 * share)
    told = {(one.url, one.status) for one in plan}
    assert told == {(aging.url(page), "changed") for page in changed} | {(aging.url(page), "deleted") for page in gone}
    assert finds(aging, aging.word(0, 1)) == {aging.document_id(0)}
    assert finds(aging, aging.word(share, 0)) == set()
    for run_id, [chunk] in cited.items():
        is_gone = chunk.url in map(aging.url, gone)
        is_changed = chunk.url in going and going[chunk.url] in chunk.text
        what = [(1, "gone" if is_gone else "changed", chunk.url)] if is_gone or is_changed else []
        assert aging.stale(run_id) == what
    told_of = [what for run_id in runs for _, what, _ in aging.stale(run_id)]
    assert told_of.count("gone") == 2 * share
    assert share <= told_of.count("changed") < 2 * share, "the other section of a page is mostly a chunk of its own"


def test_a_page_is_due_once_its_half_life_has_passed_since_it_was_seen(make_instance: MakeInstance, site: Site) -> None:
    settings = {"half_life_days": 2, "max_pages": 2}
    aging = AgingSite(site, make_instance(crawl=CRAWL, egress={"allow": [site.address]}, freshness=settings), 3)
    aging.crawl_all()
    assert aging.recheck(timedelta(days=1)) is None
    found = aging.recheck(timedelta(days=2, minutes=1))
    assert found is not None
    assert (found.asked, found.unchanged) == (2, 2), "no more at a time than the settings allow"


def test_embedding_takes_the_tokens_of_the_changed_chunks_alone(instance: Instance, site: Site) -> None:
    aging = AgingSite(site, instance, 4)
    aging.crawl_all()
    aging.rewrite(0)
    aging.rewrite(2, section=2)
    found = aging.recheck()
    assert found is not None
    chunks = [
        chunk
        for page, section in ((0, 1), (2, 2))
        for chunk in instance.context.readers.reader(CORPUS).chunks(aging.document_id(page))
        if aging.word(page, section) in chunk.text
    ]
    assert len(chunks) == 2
    every = 2 * SECTIONS
    assert 0 < found.tokens < sum(chunk.token_estimate for chunk in chunks) * every / 2
    assert aging.embedded_anew(found.run_id) == 2


def test_a_page_that_its_sitemap_says_is_unchanged_is_not_asked_for_until_it_was_believed_long_enough(
    instance: Instance, site: Site
) -> None:
    aging = AgingSite(site, instance, 3)
    site.put("/robots.txt", f"Sitemap: {site.url('/map.xml')}")
    today = datetime.now(UTC)
    dates = {0: "2020-01-01", 1: today.date().isoformat()}
    listed = "".join(f"<url><loc>{aging.url(page)}</loc><lastmod>{day}</lastmod></url>" for page, day in dates.items())
    site.put("/map.xml", f"<urlset>{listed}</urlset>")
    aging.crawl_all()
    site.asked.clear()
    found = aging.recheck()
    assert found is not None
    assert (found.asked, found.unchanged) == (3, 3)
    assert sorted(site.paths()) == ["/1", "/2", "/map.xml"], "neither 0, nor the map a second time"
    site.asked.clear()
    assert aging.recheck(timedelta(days=400)) is not None
    assert sorted(site.paths()) == ["/0", "/1", "/2"]


def test_what_answers_of_a_profile_cite_is_due_by_its_target(instance: Instance, site: Site) -> None:
    aging = AgingSite(site, instance, 2)
    aging.crawl_all()
    aging.ask(1, 0, profile="marketing")
    found = aging.recheck(timedelta(days=8))
    assert found is not None
    assert found.asked == 1
