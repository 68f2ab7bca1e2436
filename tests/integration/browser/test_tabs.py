"""Whose tab a page gets, on a real Chromium: kept for its own run and site, never seen by another, never by a villain."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from sluice.contracts.errors import PolicyRefused, TimedOut, Unavailable
from sluice.ingest.browser import tabs
from sluice.ingest.browser.processes import command_line, descendants, is_renderer
from sluice.ingest.browser.tabs import Tab
from sluice.ingest.settings import CrawlSettings
from tests.support.browser_world import PAGES, World, chromium_under_test, runs, world_with_a_browser

PAGES |= {
    "/leave": """<p id=o></p><script>(async () => {
      document.cookie = "left=1; max-age=3600"; localStorage.left = "1"; sessionStorage.left = "1"; name = "left";
      await (await caches.open("left")).put("/left", new Response("1"));
      await new Promise(done => { const asked = indexedDB.open("left"); asked.onsuccess = done;
        asked.onupgradeneeded = () => asked.result.createObjectStore("left"); });
      o.textContent = "left all";
    })().catch(e => o.textContent = "failed " + e)</script><script src=/cached></script>""",
    "/find": """<p id=o></p><script>(async () => {
      o.textContent = "found " + JSON.stringify([document.cookie, localStorage.left || "", sessionStorage.left || "",
        name, (await caches.keys()).length, (await indexedDB.databases()).length, history.length]);
    })().catch(e => o.textContent = "failed " + e)</script><script src=/cached></script>""",
    "/bystander": "<p id=o>heard nothing</p><script>const heard = new BroadcastChannel('beat');"
    " heard.onmessage = () => { o.textContent = 'heard' }; fetch('/facts')</script>",
    "/beating": "<p>beating</p><script>const beat = new BroadcastChannel('beat');"
    " setInterval(() => { beat.postMessage(1); fetch('/beat?' + Math.random()) }, 200)</script>",
    "/clinging": "<p>stays</p><script>onpagehide = () => { for (;;); }; onbeforeunload = () => { for (;;); }</script>",
    "/villain": "<p>villain</p><script>document.cookie = 'left=1; max-age=3600'; let n = 0;"
    " setInterval(() => { for (let i = 0; i < 20; i++) fetch('/plain?' + n++) })</script>",
    "/away": "<p>away</p><script>document.cookie = 'left=1; max-age=3600';"
    " location.href = location.href.replace('127.0.0.1', 'localhost').replace('away', 'plain')</script>",
}
NOTHING = '["","","","",0,0,'


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    made = world_with_a_browser()
    assert made.browser.running is not None
    if not made.browser.running.isolation.network:
        made.close()
        pytest.skip("tabs are kept only where the browser has a network of its own")
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _nothing_is_kept(world: World) -> Iterator[None]:
    """Each test begins without tabs."""
    yield
    world.browser.run(_dropped(world), 20)


async def _dropped(world: World) -> None:
    for tab in _kept(world):
        await tab.context.close()
    await asyncio.sleep(0.1)


def _kept(world: World) -> list[Tab]:
    assert world.browser.running is not None
    return list(world.browser.running.tabs.kept)


def _renderers(world: World) -> set[int]:
    pids = descendants(chromium_under_test(world.browser))
    return {pid for pid in pids if runs(pid) and is_renderer(command_line(pid))}


def _found(world: World, run_id: str) -> str:
    return world.render("/find", run_id=run_id).html


def test_the_next_page_of_a_run_and_site_has_the_tab_and_the_process_of_the_one_before(world: World) -> None:
    assert "left all" in world.render("/leave", run_id="one").html
    [tab], before = _kept(world), _renderers(world)
    assert 'found ["left=1","1","1"' in _found(world, "one")
    assert _kept(world) == [tab]
    assert _renderers(world) == before


def test_one_page_is_one_renderer_and_the_browser_shows_none_of_its_own(world: World) -> None:
    """The address bar's pages are privileged, and cost more than what is read."""
    world.render("/plain", run_id="one")
    assert len(_renderers(world)) == 1


@pytest.mark.parametrize("run_id", ["two", ""])
def test_another_run_or_a_page_of_none_finds_no_cookie_storage_name_or_cache(world: World, run_id: str) -> None:
    assert "left all" in world.render("/leave", run_id="one").html
    world.seen.clear()
    assert f"found {NOTHING}" in _found(world, run_id)
    assert "/cached" in world.seen


def test_two_pages_without_a_run_share_nothing(world: World) -> None:
    assert "left all" in world.render("/leave").html
    assert _kept(world) == []
    assert f"found {NOTHING}" in _found(world, "")


def test_another_site_of_the_same_run_finds_nothing(world: World) -> None:
    """Another port is another origin; cookies, which know no ports, would tell."""
    neighbour = World()
    try:
        assert "left all" in world.render("/leave", run_id="one").html
        assert f"found {NOTHING}" in neighbour.render("/find", browser=world.browser, run_id="one").html
    finally:
        neighbour.close()


def test_two_pages_of_a_run_at_the_same_time_have_a_context_each(world: World) -> None:
    with ThreadPoolExecutor(2) as threads:
        listening = threads.submit(world.render, "/bystander", run_id="one")
        threads.submit(world.render, "/beating", run_id="one").result()
        assert "heard nothing" in listening.result().html
    assert len(_kept(world)) == 1


def test_between_two_pages_the_tab_is_empty_and_its_way_out_closed(world: World) -> None:
    world.render("/beating", run_id="one")
    [tab] = _kept(world)
    time.sleep(0.5)  # what was under way has come to the site
    asked = len(world.seen)
    time.sleep(0.6)  # several beats
    assert tab.page.url == "about:blank"
    assert world.browser.running is not None
    egress_grant = world.browser.running.tabs.egress_grant
    assert egress_grant is not None
    assert not egress_grant.is_open(str(tab.address))
    world.render("/plain", run_id="one")
    assert world.seen[asked:] == ["/plain"]


@pytest.mark.parametrize("path", ["/clinging", "/away"])
def test_a_page_that_clings_or_goes_to_another_site_takes_its_context_with_it(world: World, path: str) -> None:
    world.render(path, run_id="one")
    assert _kept(world) == []
    assert f"found {NOTHING}" in _found(world, "one")


def test_a_page_that_is_ended_takes_its_context_with_it(world: World) -> None:
    with pytest.raises(PolicyRefused):
        world.render("/villain", run_id="one")
    with pytest.raises(TimedOut):
        world.render("/loop", run_id="one", seconds=2)
    assert _kept(world) == []
    assert f"found {NOTHING}" in _found(world, "one")


def test_each_page_of_a_run_is_carried_with_its_own_credentials(world: World) -> None:
    world.render("/plain", run_id="one")
    world.seen.clear()
    right, world.proxy_url = world.proxy_url, world.proxy_url.replace("pass%3Aword", "guess")
    with pytest.raises((PolicyRefused, Unavailable)):
        world.render("/plain?2", run_id="one")
    assert world.seen == []
    world.proxy_url = right
    assert "nothing special" in world.render("/plain?3", run_id="one").html


def test_further_addresses_are_asked_about_in_a_kept_tab_too(world: World) -> None:
    asked: list[str] = []
    for _ in range(2):
        world.render("/moving", run_id="one", pre_request=asked.append)
    assert asked == [world.origin + "/plain"] * 2


def test_kept_and_open_tabs_are_never_more_than_pages_at_a_time(world: World) -> None:
    for run in range(5):
        world.render("/plain", run_id=f"run {run}")
        assert len(_kept(world)) <= CrawlSettings().browser_pages
    assert [tab.owner.run_id for tab in _kept(world)] == ["run 3", "run 4"]


def test_a_kept_tab_that_is_not_asked_for_is_dropped(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabs, "KEPT_SECONDS", 0.05)
    world.render("/leave", run_id="one")
    world.browser.run(asyncio.sleep(0.5), 20)
    assert _kept(world) == []
    assert f"found {NOTHING}" in _found(world, "one")


def test_a_kept_tab_whose_process_died_is_not_given_to_the_next_page(world: World) -> None:
    world.render("/plain", run_id="one")
    for pid in _renderers(world):
        os.kill(pid, signal.SIGKILL)
    world.browser.run(asyncio.sleep(0.5), 20)
    assert "nothing special" in world.render("/plain", run_id="one").html
    assert len(_kept(world)) == 1
