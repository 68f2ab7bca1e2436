"""Every page of the console in a sandboxed browser, at two widths in two schemes: axe finds nothing, 200 hostile texts do
nothing, markup that was injected stays dead."""

from __future__ import annotations

import hashlib
import multiprocessing
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.support.console import SCHEMES, WIDTHS, nothing_comes_of_injected_markup, watched_page
from tests.support.console_filled import addresses, fill, harmed
from tests.support.hostile import CANARY, TEXTS
from tests.support.in_process import MakeInstance
from tests.support.served import served
from tests.support.valkey import Valkey

pytestmark = pytest.mark.timeout(1_800)

AXE, AXE_SHA512 = "axe-core@4.14.1", "1477dafa598d8d065f273d6af302aa203c02e83131707b7fa648cd41bd3d6b73"
"""The package, and the beginning of its archive's hash."""
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
LOADS = 20


@pytest.fixture
def filled(valkey: Valkey, make_instance: MakeInstance) -> Iterator[list[str]]:
    """The addresses of all pages of an instance that 200 hostile texts fill."""
    names = fill(make_instance(), TEXTS)
    with served(valkey.settings) as address:
        yield list(addresses(address, names))


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core, which judges a page by the rules of WCAG."""
    folder = tmp_path_factory.mktemp("axe")
    if not shutil.which("npm"):
        pytest.skip("needs npm")
    packed = subprocess.run(["npm", "pack", AXE], cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    archive = next(folder.glob("*.tgz"), None)
    if packed.returncode or archive is None:
        pytest.skip(f"npm gives no {AXE}: {packed.stderr[-300:]}")
    assert hashlib.sha512(archive.read_bytes()).hexdigest().startswith(AXE_SHA512)
    with tarfile.open(archive) as held:
        script = held.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_is_for_everyone(
    chromium: Browser, filled: list[str], axe: str, tmp_path: Path, width: int, scheme: str
) -> None:
    """No rule of WCAG 2.2 AA is broken, no page is wider than its window, no text of a stranger does anything."""
    found: list[str] = []
    with watched_page(chromium, width=width, scheme=scheme) as page:
        sent: list[str] = []
        page.on("request", lambda request: sent.append(request.url))
        page.on("dialog", lambda dialog: found.append(f"a dialog: {dialog.message}"))
        for number, address in enumerate(filled):
            page.goto(address)
            expect(page.locator("h1")).to_be_visible()
            path = address.partition("/console")[2]
            if page.evaluate("document.documentElement.scrollWidth") > width:
                found.append(f"{path} is too wide")
            found += [f"{path}: {one}" for one in harmed(page)]
            page.evaluate(axe)
            judged: dict[str, Any] = page.evaluate("rules => axe.run({runOnly: rules})", RULES)
            found += [
                f"{path}: {one['id']}: {one['nodes'][0]['html'][:200]} {one['nodes'][0]['failureSummary'][:300]}"
                for one in judged["violations"]
            ]
            page.screenshot(path=tmp_path / f"{number}.png", full_page=True)
        found += [f"asked for {one}" for one in sent if one.startswith(CANARY)]
    assert found == []


def test_colours_that_a_reader_forces_and_motion_that_he_forbids_are_heeded(
    chromium: Browser, filled: list[str]
) -> None:
    with watched_page(chromium, forced_colors="active", reduced_motion="reduce") as page:
        for address in filled:
            page.goto(address)
            expect(page.locator("h1")).to_be_visible()
            moving = "document.getAnimations().filter(one => one.playState === 'running').length"
            assert page.evaluate(moving) == 0, address


def test_every_control_is_reached_by_the_keyboard_and_shows_that_it_is(chromium: Browser, filled: list[str]) -> None:
    with watched_page(chromium) as page:
        for address in filled[:12]:
            page.goto(address)
            controls = page.evaluate(
                "[...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary')]"
                ".filter(one => one.offsetParent !== null && !one.disabled).length"
            )
            reached: set[str] = set()
            for _ in range(min(controls, 60)):
                page.keyboard.press("Tab")
                outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
                assert outline != "none", (address, page.evaluate("document.activeElement.outerHTML.slice(0, 200)"))
                reached.add(page.evaluate("document.activeElement.outerHTML"))
            assert len(reached) >= min(controls, 60) // 2, address


def burn(seconds: float) -> None:
    """Keep a processor busy."""
    import time

    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(1_000))


def test_markup_that_was_injected_stays_dead_under_load(chromium: Browser, console_address: str) -> None:
    burners = [multiprocessing.get_context("spawn").Process(target=burn, args=(240.0,)) for _ in range(4)]
    for one in burners:
        one.start()
    try:
        nothing_comes_of_injected_markup(chromium, console_address, LOADS)
    finally:
        for one in burners:
            one.kill()
