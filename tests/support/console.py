"""The console in a real browser: Debian's Chromium with its sandbox on, driven by Playwright.

`watched_page` fails the test on any violation of the content security policy, console error and page error.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import tempfile
from asyncio.events import _get_running_loop, _set_running_loop
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect, sync_playwright
from starlette.testclient import TestClient

from sluice.contracts.event import Done, Next, Retry
from sluice.ingest.browser.launch import find_chromium, unprivileged_user
from sluice.ledger.ledger import Ledger
from tests.support.ledger_story import Clock, Story
from tests.support.ledger_story import page as page_to_crawl
from tests.support.served import served
from tests.support.valkey import Valkey

WIDTHS = (390, 1440)
SCHEMES = ("light", "dark")
VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber} ${event.sample}`));
"""
EXPECTED = re.compile(
    r"Failed to load resource: the server responded with a status of (4|5)\d\d|SSE reconnect failed with status 40[134]"
)
"""What is written of a page that is an error page, and of a stream that may not go on, as some tests want it."""


def wrapper_of(binary: Path, folder: Path) -> Path:
    """A program that starts Chromium: as root in the name of another user, as root has no sandbox."""
    if os.geteuid() != 0:
        return binary
    user: pwd.struct_passwd = unprivileged_user()
    home, script = folder / "home", folder / "chromium"
    home.mkdir(exist_ok=True)
    os.chown(home, user.pw_uid, user.pw_gid)
    becomes = f"setpriv --reuid={user.pw_uid} --regid={user.pw_gid} --clear-groups"
    script.write_text(f'#!/bin/sh\nexport HOME={home}\nexec {becomes} {binary} "$@" --user-data-dir={home}/profile\n')
    script.chmod(0o755)
    folder.chmod(0o755)
    return script


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One sandboxed Chromium for the session."""
    folder = Path(tempfile.mkdtemp(prefix="sluice-console-"))
    try:
        with sync_playwright() as playwright:
            binary = find_chromium(None, playwright.chromium.executable_path)
            browser = playwright.chromium.launch(executable_path=wrapper_of(binary, folder), chromium_sandbox=True)
            yield browser
            browser.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def _browser_loop_set_aside(request: pytest.FixtureRequest) -> Iterator[None]:
    """Playwright leaves its event loop as the running one of this thread, and `asyncio.run` of another test would refuse
    to begin beside it: it is set aside while a test without the browser runs."""
    loop = _get_running_loop()
    if loop is None or "chromium" in request.fixturenames:
        yield
        return
    _set_running_loop(None)
    yield
    _set_running_loop(loop)


@dataclass
class Troubles:
    """What a page complained of."""

    seen: list[str] = field(default_factory=list)

    def watch(self, page: Page) -> None:
        page.on("console", lambda said: self.seen.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.seen.append(f"page error: {error}"))

    def none(self) -> None:
        assert [one for one in self.seen if not EXPECTED.search(one)] == []


@contextmanager
def watched_page(
    browser: Browser, *, width: int = 1440, scheme: str = "light", script: bool = True, **options: object
) -> Iterator[Page]:
    """A page of a fresh context, which must not complain of anything."""
    context: BrowserContext = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,  # type: ignore[arg-type]
        java_script_enabled=script,
        **options,  # type: ignore[arg-type]
    )
    context.add_init_script(VIOLATIONS)
    page, troubles = context.new_page(), Troubles()
    troubles.watch(page)
    yield page
    troubles.none()
    context.close()


INJECTED = """
<div id="injected" hx-get="/console/runs?stolen" hx-trigger="load"></div>
<form hx-post="/console/stages/gate/pause" hx-trigger="load"><input name="why" value="stolen"></form>
<div hx-sse:connect="/console/stream?page=overview&stolen"></div><img src=x onerror="window.pwned=1">
<script>window.pwned=1</script>
"""


def nothing_comes_of_injected_markup(browser: Browser, address: str, loads: int) -> None:
    """Where escaping failed: raw markup in the page, as a proxy before the browser puts it there, does nothing."""
    context = browser.new_context()
    page, sent = context.new_page(), list[str]()
    page.on("request", lambda request: sent.append(f"{request.method} {request.url}"))

    def inject(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text().replace("</h1>", "</h1>" + INJECTED))

    page.route("**/console", inject)
    for _ in range(loads):
        page.goto(address + "/console")
        expect(page.locator("#injected")).to_be_attached()
        page.wait_for_function("window.htmx && document.querySelector('#injected').getAttribute('hx-get') === null")
        page.wait_for_timeout(300)
        assert page.evaluate("window.pwned") is None
    assert not [one for one in sent if "stolen" in one or one.startswith("POST")]
    context.close()


def troubled_run(ledger: Ledger, clock: Clock) -> str:
    """A run of the last minutes that met all that a picture has a fill for: a pause, a try that failed, a worker that
    died, steps alike, and a stretch in which nothing happened."""
    story = Story(ledger, clock, "")
    ledger.pause("crawl", "upgrade <b>", operator="ana")
    [event] = story.begins(page_to_crawl())
    clock.passes(2.0)
    ledger.resume("crawl", operator="ana")
    claim = story.claims(event, "crawl-1")
    clock.passes(0.31)
    ledger.settle(claim, Retry(1.0, "HTTP 503 <script>"))
    clock.passes(1.0)
    ledger.wake_due_retries()
    story.claims(event, "crawl-2")
    clock.passes(0.18)
    ledger.release("crawl-2")
    claim = story.claims(event, "crawl-3")
    clock.passes(0.41)
    found = ledger.settle(claim, Done(emits=tuple(Next(page_to_crawl(number)) for number in range(2, 9))))
    for one in found.emitted:
        clock.passes(30.0 if one is found.emitted[-1] else 0.05)
        done = story.claims(one, "crawl-3")
        clock.passes(0.1)
        ledger.settle(done, Done())
    return event.run_id


@pytest.fixture
def console_address(valkey: Valkey) -> Iterator[str]:
    """The address of an interface without workers, on a port of this machine."""
    with served(valkey.settings) as address:
        yield address


def signed_in(http: TestClient, key: str) -> TestClient:
    """The same client with a session of that key; it must be made with an address of https, or it keeps no cookie."""
    http.post("/console/session", data={"key": key})
    return http


def token_in(page: str) -> str:
    """The token of a page's forms."""
    found = re.search(r'name="token" value="(\w+)"', page)
    assert found, "the page has no form"
    return found[1]
