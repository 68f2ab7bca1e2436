"""The console's pages on crawl, corpora, gate, memory, graph, quarantine, actions, keys and figures, in a real browser,
filled with texts that would do something if they were markup."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.support.console import watched_page
from tests.support.console_filled import HOST, PAGES, addresses, fill
from tests.support.console_visitor import HOSTILE
from tests.support.in_process import MakeInstance
from tests.support.served import served
from tests.support.valkey import Valkey


@pytest.fixture
def filled(valkey: Valkey, make_instance: MakeInstance) -> Iterator[tuple[str, dict[str, str]]]:
    """The address of an interface, and the names in its pages."""
    names = fill(make_instance(), HOSTILE)
    with served(valkey.settings) as address:
        yield address, names


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1440, "light")])
def test_no_page_complains_or_is_too_wide(
    chromium: Browser, filled: tuple[str, dict[str, str]], width: int, scheme: str, tmp_path: Path
) -> None:
    address, names = filled
    with watched_page(chromium, width=width, scheme=scheme) as page:
        for path in PAGES:
            [place] = addresses(address, names, [path])
            page.goto(place)
            expect(page.locator("h1")).to_be_visible()
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            assert page.evaluate("window.pwned") is None, path
            page.screenshot(path=tmp_path / f"{width}-{path.strip('/').replace('/', '_')[:60]}.png", full_page=True)


def test_a_host_rests_and_a_flag_is_switched_with_script(chromium: Browser, filled: tuple[str, dict[str, str]]) -> None:
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


def test_a_key_is_made_in_place_and_copied(chromium: Browser, filled: tuple[str, dict[str, str]]) -> None:
    with watched_page(chromium) as page:
        page.goto(f"{filled[0]}/console/keys")
        page.fill("#make-name", "<b>ops</b>")
        page.select_option("#make-role", "operator")
        page.click("#make-do")
        expect(page.locator("#secret")).to_contain_text("slk_")
        page.get_by_role("link", name="sign in with it").click()
        expect(page.locator("#key")).to_be_visible()
