"""Of a page whose site asks for no copy the raw body goes as soon as it cannot be needed any more, and not before."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.contracts.ingest import CrawlDirected, PageCrawled
from sluice.workers.handlers import HANDLERS
from tests.support.in_process import Instance, MakeInstance
from tests.support.site import Site

PAGE = """<title>Locks</title><meta name=robots content=noarchive><main><h1>Locks</h1>
<p>A canal lock raises boats between stretches of water at different levels, by means of a chamber with gates.</p>
<p>The keeper opens the paddles first, so that the levels meet, and only then the gates; that takes ten minutes.</p>
</main>"""


@pytest.fixture
def instance(make_instance: MakeInstance, site: Site) -> Instance:
    site.html("/page", PAGE)
    site.html("/twin", PAGE)
    settings = {"enabled": True, "render": "never", "requests_per_second_per_host": 50.0}
    return make_instance(crawl=settings, egress={"allow": [site.address]})


def begin(instance: Instance, url: str) -> str:
    """A run whose page was fetched and not read yet."""
    run_id = instance.begins(CrawlDirected(url=url))
    instance.works("crawl")
    return run_id


def look(instance: Instance) -> int:
    return instance.context.transient_pages.remove_read(instance.context.ledger)


def kept(instance: Instance) -> list[Path]:
    """Raw pages on disk, among those for a while and among those for good."""
    root = instance.context.settings.data_dir
    return [path for folder in ("unarchived", "blobs") for path in (root / folder).rglob("*.zst")]


def kinds(instance: Instance, run_id: str) -> list[str]:
    return [event.kind for _, event in instance.context.ledger.events_after(run_id, 0)]


def test_the_raw_page_is_kept_until_it_was_read_and_then_no_longer(instance: Instance, site: Site) -> None:
    run_id = begin(instance, site.url("/page"))
    [body] = kept(instance)
    assert "unarchived" in body.parts
    assert (look(instance), kept(instance)) == (0, [body])
    instance.works("chunk")
    assert body.exists(), "it is there however often the event is delivered, until it is settled"
    assert look(instance) == 1
    assert not body.exists()
    instance.works("embed", "index")
    assert "SnapshotPublished" in kinds(instance, run_id)
    assert look(instance) == 0


def test_a_second_delivery_of_the_crawl_and_of_the_page_finds_what_it_needs(instance: Instance, site: Site) -> None:
    """A claim that is lost in the middle of either hop is taken by another, which does all of it again."""
    run_id = instance.begins(CrawlDirected(url=site.url("/page")))
    ledger = instance.context.ledger

    [directed] = ledger.events_of_kind(run_id, CrawlDirected.kind)
    HANDLERS["CrawlDirected"](directed, instance.context)
    assert look(instance) == 0
    instance.works("crawl")
    [page] = ledger.events_of_kind(run_id, PageCrawled.kind)
    HANDLERS["PageCrawled"](page, instance.context)
    assert look(instance) == 0
    instance.works("chunk", "embed", "index")
    assert "SnapshotPublished" in kinds(instance, run_id)
    assert look(instance) == 1


def test_equal_pages_do_not_take_each_other_s_body_away(instance: Instance, site: Site) -> None:
    first, second = begin(instance, site.url("/page")), begin(instance, site.url("/twin"))
    assert len(kept(instance)) == 2
    instance.context.ledger.cancel(first)
    assert look(instance) == 1
    instance.works("chunk", "embed", "index")
    assert "SnapshotPublished" in kinds(instance, second)


@pytest.mark.parametrize("edited", [False, True])
def test_a_parked_page_keeps_its_body_until_the_letter_is_done_with(
    instance: Instance, site: Site, edited: bool
) -> None:
    run_id = begin(instance, site.url("/page"))
    [body] = kept(instance)
    content = body.read_bytes()
    body.write_bytes(b"damaged")
    instance.works("chunk")
    body.write_bytes(content)
    [letter] = instance.context.ledger.dead_letters.list()
    assert look(instance) == 0
    letters = instance.context.ledger.dead_letters
    if edited:
        payload = letters.show(letter.id).payload.raw
        letters.edit(letter.id, payload.replace(b"text/html", b"application/xhtml+xml"), "ada")
    letters.replay(letter.id, operator="ada")
    assert look(instance) == 0
    instance.works("chunk", "embed", "index")
    assert "SnapshotPublished" in kinds(instance, run_id)
    assert look(instance) == 1


def test_what_belongs_to_no_run_goes(instance: Instance) -> None:
    instance.context.transient_pages.of_crawl("run_gone", "evt_gone").put(b"left behind")
    assert look(instance) == 1
    assert kept(instance) == []
