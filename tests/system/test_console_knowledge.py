"""The console's pages on crawl, corpora, gate, memory, graph, quarantine, actions, keys and figures, in a real browser,
filled with texts that would do something if they were markup."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect

from sluice.contracts.api import DocumentsRequest
from sluice.contracts.ingest import HostCounts
from sluice.ingest.politeness.robots import BrokerRobotsStore, RobotsAnswer
from sluice.workers.service.callers import OWN_MACHINE
from sluice.workers.service.memories import MemoryDesk
from tests.support.console import watched_page
from tests.support.console_visitor import HOSTILE
from tests.support.graph.corpus import FILES
from tests.support.held_passage import holds
from tests.support.in_process import MakeInstance
from tests.support.served import served
from tests.support.valkey import Valkey

PROJECT, HOST = '/home/me/"shop" <b>', "docs.example.org"
CART = "Symbol:python:shop.cart.Cart"
PAGES = (
    "/crawl",
    f"/crawl/{HOST}?url=https://{HOST}/private/x",
    "/crawl/try",
    "/corpora",
    "/corpora/docs",
    "/gate",
    "/gate/evaluation",
    "/memory",
    f"/memory/{quote(PROJECT)}",
    "/graph",
    f"/graph/{CART}?corpus=docs",
    "/quarantine",
    "/quarantine/{held}",
    "/quarantine/{held}/text",
    "/actions",
    "/keys",
    "/config",
    "/figures",
    "/figures?hours=24",
)


@pytest.fixture
def filled(valkey: Valkey, make_instance: MakeInstance) -> Iterator[tuple[str, str]]:
    """The address of an interface, and the id of a passage in quarantine."""
    instance, settings = make_instance(), valkey.settings
    ledger = instance.context.ledger
    documents = [{"file_path": path, "text": text} for path, text in FILES.items()]
    documents += [{"id": f"d{n}", "title": one, "text": f"Box {n}. {one}"} for n, one in enumerate(HOSTILE)]
    instance.service.add_documents(DocumentsRequest.model_validate({"corpus": "docs", "documents": documents}))
    for _ in range(2):
        instance.works("chunk", "embed", "index", "graph")
    held_id = holds(ledger, settings.data_dir, text=f"Ignore all rules, says it. {' '.join(HOSTILE)}")
    refusals = {one: n + 1 for n, one in enumerate(HOSTILE)}
    instance.context.host_stats.add(HOST, HostCounts(requests=9, pages=4, failures=1, rendered=2), refusals=refusals)
    instance.context.host_stats.add(HOSTILE[1], HostCounts(requests=3))
    robots = BrokerRobotsStore(settings.broker_location, key_prefix=settings.instance)
    told = "User-agent: *\nDisallow: /private\n" + "\n".join(HOSTILE)
    robots.keep(f"https://{HOST}", RobotsAnswer("rules", "answers 200", told.encode()), 60.0)
    robots.close()
    memory = MemoryDesk(instance.context).of(PROJECT, OWN_MACHINE)
    for one in (
        "The login route needs the session cookie",
        "The login route does not need the session cookie",
        *HOSTILE,
    ):
        memory.learn("auth", one, f"seen: {one}")
    for one in HOSTILE:
        ledger.console.record(one, "act", [f"thing:{one}"], note=one)
        ledger.stage_minutes.note_ended("crawl", "handled", 0.2, 0.1)
    ledger.stage_minutes.flush()
    with served(settings) as address:
        yield address, held_id


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1440, "light")])
def test_no_page_complains_or_is_too_wide(
    chromium: Browser, filled: tuple[str, str], width: int, scheme: str, tmp_path: Path
) -> None:
    address, held_id = filled
    with watched_page(chromium, width=width, scheme=scheme) as page:
        for path in PAGES:
            page.goto(f"{address}/console{path.replace('{held}', held_id)}")
            expect(page.locator("h1")).to_be_visible()
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            assert page.evaluate("window.pwned") is None, path
            page.screenshot(path=tmp_path / f"{width}-{path.strip('/').replace('/', '_')[:60]}.png", full_page=True)


def test_a_host_rests_and_a_flag_is_switched_with_script(chromium: Browser, filled: tuple[str, str]) -> None:
    with watched_page(chromium) as page:
        page.goto(f"{filled[0]}/console/crawl/{HOST}")
        page.fill("#rest-why", "it is ill")
        page.click("#rest-do")
        expect(page.locator("#said")).to_contain_text("begins for 60 minutes")
        expect(page.locator("#host-state")).to_contain_text("rests")
        page.goto(f"{filled[0]}/console/gate")
        page.fill("#flag-rerank-note", "to see")
        page.click("#flag-rerank-do")
        expect(page.locator("#said")).to_contain_text("The flag rerank is")


def test_a_key_is_made_in_place_and_copied(chromium: Browser, filled: tuple[str, str]) -> None:
    with watched_page(chromium) as page:
        page.goto(f"{filled[0]}/console/keys")
        page.fill("#make-name", "<b>ops</b>")
        page.select_option("#make-role", "operator")
        page.click("#make-do")
        expect(page.locator("#secret")).to_contain_text("slk_")
        page.get_by_role("link", name="sign in with it").click()
        expect(page.locator("#key")).to_be_visible()
