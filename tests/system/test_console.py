"""The console in a real browser, sandboxed: pages, a sign-in, an action, figures that change, nothing that a policy forbids."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import Browser, Route, expect

from sluice.ledger.ledger import Ledger
from sluice.workers.service.callers import REMEMBERED_SECONDS, ApiKeys
from tests.support.console import nothing_comes_of_injected_markup, watched_page
from tests.support.served import served
from tests.support.valkey import Valkey

PAGES = ("/console", "/console/runs", "/console/nothing")


def test_the_browser_is_sandboxed(chromium: Browser) -> None:
    page = chromium.new_page()
    page.goto("chrome://sandbox")
    assert "adequately sandboxed" in page.inner_text("body")
    page.close()


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1440, "light")])
def test_a_page_has_nothing_to_complain_of(
    chromium: Browser, console_address: str, path: str, width: int, scheme: str
) -> None:
    with watched_page(chromium, width=width, scheme=scheme) as page:
        page.goto(console_address + path)
        expect(page.locator("h1")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("script", [True, False])
def test_a_stage_is_paused_with_and_without_script(chromium: Browser, console_address: str, *, script: bool) -> None:
    with watched_page(chromium, script=script) as page:
        page.goto(console_address + "/console")
        page.fill("#pause-crawl-why", "maintenance <b>")
        page.click("#pause-crawl-do")
        expect(page.locator("#said")).to_contain_text("crawl is paused")
        expect(page.locator("#stage-crawl")).to_contain_text("maintenance <b>")
        expect(page.locator("#resume-crawl-do")).to_be_visible()
        assert page.url == console_address + "/console"


def test_figures_change_while_one_looks(chromium: Browser, console_address: str) -> None:
    with watched_page(chromium) as looking, watched_page(chromium) as doing:
        looking.goto(console_address + "/console")
        doing.goto(console_address + "/console")
        doing.fill("#pause-gate-why", "seen by another")
        doing.click("#pause-gate-do")
        expect(looking.locator("#stage-gate")).to_contain_text("seen by another", timeout=10_000)


def test_focus_and_place_stay_after_an_action(chromium: Browser, console_address: str) -> None:
    with watched_page(chromium) as page:
        page.goto(console_address + "/console")
        page.locator("#scale-graph-workers").scroll_into_view_if_needed()
        page.fill("#scale-graph-workers", "3")
        page.locator("#scale-graph-do").focus()
        before = page.evaluate("scrollY")
        page.keyboard.press("Enter")
        expect(page.locator("#said")).to_contain_text("graph: 3 wanted")
        assert page.evaluate("document.activeElement.id") == "scale-graph-do"
        assert abs(page.evaluate("scrollY") - before) < 80
        page.keyboard.press("Enter")  # the second one as well: its form has the nonce of this page
        expect(page.locator("#said")).to_contain_text("graph: 3 wanted")


def test_a_wrong_form_says_so_where_it_is(chromium: Browser, console_address: str) -> None:
    with watched_page(chromium) as page:
        page.goto(console_address + "/console")
        page.fill("#scale-crawl-workers", "65")
        page.click("#scale-crawl-do")
        expect(page.locator("#scale-crawl-wrong")).to_contain_text("workers")
        expect(page.locator("#scale-crawl-workers")).to_have_value("65")


def test_markup_that_was_injected_does_nothing(chromium: Browser, console_address: str) -> None:
    nothing_comes_of_injected_markup(chromium, console_address, loads=8)


def test_one_signs_in_and_out_with_and_without_script(chromium: Browser, console_address: str, valkey: Valkey) -> None:
    with Ledger(valkey.settings.ledger_location) as ledger:
        _, key = ApiKeys(ledger).create("Ana <b>", "operator", ())
    time.sleep(REMEMBERED_SECONDS)
    for script in (True, False):
        with watched_page(chromium, script=script) as page:
            page.goto(console_address + "/console/runs?tab=open")
            page.fill("#key", "slk_wrong")
            page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_role("alert")).to_contain_text("not known")
            page.fill("#key", key)
            page.get_by_role("button", name="Sign in").click()
            expect(page.locator("h1")).to_have_text("Runs")
            assert page.url == console_address + "/console/runs?tab=open"
            assert "HttpOnly" not in page.content()
            if script:
                assert page.evaluate("document.cookie") == ""
            expect(page.locator(".who")).to_contain_text("Ana <b>")
            page.get_by_role("button", name="Sign out").click()
            expect(page.locator("h1")).to_have_text("Sign in")


def test_an_action_that_is_sent_twice_is_carried_out_once_and_may_lead_elsewhere(
    chromium: Browser, console_address: str
) -> None:
    with watched_page(chromium) as page:
        page.goto(console_address + "/console")
        sent = list[str]()

        def slow(route: Route) -> None:
            sent.append(route.request.url)
            page.wait_for_timeout(500)
            route.fulfill(status=200, headers={"HX-Redirect": "/console/runs"})

        page.route("**/console/stages/gate/pause", slow)
        page.fill("#pause-gate-why", "twice")
        page.locator("#pause-gate-do").dblclick()
        page.wait_for_url("**/console/runs")
        assert len(sent) == 1


def test_a_revoked_key_ends_what_its_browser_watches(chromium: Browser, console_address: str, valkey: Valkey) -> None:
    with Ledger(valkey.settings.ledger_location) as ledger:
        key_id, key = ApiKeys(ledger).create("Ana", "operator", ())
    time.sleep(REMEMBERED_SECONDS)
    with watched_page(chromium) as page:
        page.goto(console_address + "/console")
        page.fill("#key", key)
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator("#stage-crawl")).to_be_visible()
        with Ledger(valkey.settings.ledger_location) as ledger:
            ledger.keys.revoke(key_id)
        expect(page.locator("h1")).to_have_text("Sign in", timeout=30_000)


def test_figures_are_greyed_while_the_server_is_away(chromium: Browser, valkey: Valkey) -> None:
    context = chromium.new_context()
    page = context.new_page()
    with served(valkey.settings) as address:
        page.goto(address + "/console")
        expect(page.locator("#stage-crawl")).to_be_visible()
        page.wait_for_timeout(1_500)
        expect(page.locator("#figures")).not_to_have_class("stale")
    expect(page.locator("#figures")).to_have_class("stale", timeout=20_000)
    context.close()
