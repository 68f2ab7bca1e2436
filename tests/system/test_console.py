"""The console in a real browser, sandboxed: pages, a sign-in, an action, figures that change, nothing that a policy forbids."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.support.console import chromium, console_address, watched_page  # noqa: F401

PAGES = ("/console", "/console/runs", "/console/nothing")


def test_the_browser_is_sandboxed(chromium: Browser) -> None:  # noqa: F811
    page = chromium.new_page()
    page.goto("chrome://sandbox")
    assert "adequately sandboxed" in page.inner_text("body")
    page.close()


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1440, "light")])
def test_a_page_has_nothing_to_complain_of(
    chromium: Browser,  # noqa: F811
    console_address: str,  # noqa: F811
    path: str,
    width: int,
    scheme: str,
) -> None:
    with watched_page(chromium, width=width, scheme=scheme) as page:
        page.goto(console_address + path)
        expect(page.locator("h1")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("script", [True, False])
def test_a_stage_is_paused_with_and_without_script(chromium: Browser, console_address: str, *, script: bool) -> None:  # noqa: F811
    with watched_page(chromium, script=script) as page:
        page.goto(console_address + "/console")
        page.fill("#pause-crawl-why", "maintenance <b>")
        page.click("#pause-crawl-do")
        expect(page.locator("#said")).to_contain_text("crawl is paused")
        expect(page.locator("#stage-crawl")).to_contain_text("maintenance <b>")
        expect(page.locator("#resume-crawl-do")).to_be_visible()
        assert page.url == console_address + "/console"


def test_figures_change_while_one_looks(chromium: Browser, console_address: str) -> None:  # noqa: F811
    with watched_page(chromium) as looking, watched_page(chromium) as doing:
        looking.goto(console_address + "/console")
        doing.goto(console_address + "/console")
        doing.fill("#pause-gate-why", "seen by another")
        doing.click("#pause-gate-do")
        expect(looking.locator("#stage-gate")).to_contain_text("seen by another", timeout=10_000)
