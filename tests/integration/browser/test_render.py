"""What the warm browser promises, on a real Chromium against a site that is reached through a proxy alone."""

from __future__ import annotations

import base64
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from sluice.contracts.errors import (
    BudgetExhausted,
    Fenced,
    InvalidInput,
    InvalidSetting,
    PolicyRefused,
    TimedOut,
    Unavailable,
)
from sluice.ingest.browser import launch
from sluice.ingest.browser.browser import Browser, RenderLimits
from sluice.ingest.browser.launch import Guards, find_chromium
from sluice.ingest.browser.processes import family, require_sandbox
from sluice.ingest.browser.tabs import proxy_settings
from sluice.ingest.egress.proxy import EgressProxy
from sluice.ingest.settings import CrawlSettings, EgressSettings
from tests.support.browser_world import PAGES, World, chromium_under_test, runs, world_with_a_browser

WEBRTC = """<p>calling</p><script>
const call = new RTCPeerConnection({ iceServers: [{ urls: "STUN" }] });
call.createDataChannel("x");
call.onicegatheringstatechange = () => {
  if (call.iceGatheringState === "complete") document.body.append("gathering " + "ended");
};
call.createOffer().then(offer => call.setLocalDescription(offer));
try { new WebTransport("https://TRANSPORT/") } catch (refused) {}
const ticking = setInterval(() => {
  document.body.append(".");
  if (call.iceGatheringState === "complete") clearInterval(ticking);
}, 50);
</script>"""
"""Asks a STUN server for its own address, and for a QUIC connection; ticks so that it is given the time."""


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    made = world_with_a_browser()
    yield made
    made.close()


def test_a_page_that_scripts_fill_yields_its_content(world: World) -> None:
    page = world.render("/late")
    assert "forty-two facts" in page.html
    assert (page.status, page.final_url) == (200, world.origin + "/late")
    assert page.headers["content-type"].startswith("text/html")


def test_loopback_too_goes_through_the_proxy_with_its_password(world: World) -> None:
    world.asked.clear()
    world.render("/plain")
    assert world.origin + "/plain" in world.asked


def test_the_browser_asks_for_nothing_but_the_page(world: World) -> None:
    world.asked.clear()
    world.render("/plain")
    assert {urlsplit(url).netloc for url in world.asked} == {urlsplit(world.origin).netloc}


def test_webrtc_and_web_transport_send_nothing_past_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where the browser shares our network, and only its switches hold it back."""
    world = world_with_a_browser(CrawlSettings(browser_network="shared"))
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
            listener.bind(("127.0.0.1", 0))
            stun = f"stun:127.0.0.1:{listener.getsockname()[1]}"
            page = WEBRTC.replace("STUN", stun).replace("TRANSPORT", stun.removeprefix("stun:"))
            monkeypatch.setitem(PAGES, "/stun", page)
            assert "gathering ended" in world.render("/stun").html
            assert world.origin + "/stun" in world.asked
            listener.settimeout(0.5)
            with pytest.raises(TimeoutError):
                listener.recv(1_000)
    finally:
        world.close()


def test_renderers_are_confined_and_nothing_of_the_browser_runs_as_root(world: World) -> None:
    world.browser.assert_sandboxed()
    members = family(chromium_under_test(world.browser))
    owners = {Path(f"/proc/{pid}").stat().st_uid for pid in members if Path(f"/proc/{pid}").exists()}
    assert 0 not in owners


def test_a_renderer_without_a_sandbox_is_refused_with_what_would_help() -> None:
    sleeper = "import sys, time; sys.stdout.write('up'); sys.stdout.flush(); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", sleeper, "--type=renderer"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read(2)
    try:
        with pytest.raises(PolicyRefused, match="no system call filter") as refusal:
            require_sandbox(process.pid)
    finally:
        process.kill()
        process.communicate()
    assert refusal.value.rule == "sandbox"
    assert "chromium-sandbox" in refusal.value.lifted_by


KEPT = {
    # Fewer things that run, ask or report by themselves.
    *("disable-background-networking", "disable-breakpad", "disable-component-extensions-with-background-pages"),
    *("disable-component-update", "disable-default-apps", "disable-extensions", "disable-field-trial-config"),
    *("disable-search-engine-choice-screen", "disable-stack-profiler", "disable-sync", "disable-updater-scheduler"),
    *("metrics-recording-only", "no-default-browser-check", "no-first-run", "no-service-autorun", "disable-infobars"),
    # No key ring of this machine, no page kept alive behind the present one, nothing in /dev/shm, which containers cut.
    *("password-store", "use-mock-keychain", "disable-back-forward-cache", "disable-dev-shm-usage"),
    # Two pages at a time are both in the foreground: throttled timers would be pages that never settle.
    *(
        "disable-background-timer-throttling",
        "disable-backgrounding-occluded-windows",
        "disable-renderer-backgrounding",
    ),
    # Nobody is there to type, to answer or to hear.
    *(
        "allow-pre-commit-input",
        "disable-prompt-on-repost",
        "unsafely-disable-devtools-self-xss-warnings",
        "mute-audio",
    ),
    *("headless", "hide-scrollbars", "blink-settings", "force-color-profile"),
    # Of other systems and browsers.
    *("disable-edgeupdater", "edge-skip-compat-layer-relaunch", "do-not-de-elevate"),
    # One list each, Playwright's own: without them it loses frames. Among them storage is not parted by site, which
    # matters to nobody, since every page has a context of its own.
    *("disable-features", "enable-features"),
    # How it is driven and where it keeps what it needs.
    *("remote-debugging-pipe", "user-data-dir", "no-startup-window", "proxy-server", "proxy-bypass-list"),
}
"""The switches that Playwright sets and we keep, with their reasons: a new one wants to be judged before it runs here."""


def _switches(pid: int) -> list[str]:
    arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    return [argument[2:].partition("=")[0] for argument in arguments if argument.startswith("--")]


def test_no_switch_weakens_the_browser_and_none_is_there_unjudged(world: World) -> None:
    world.browser.assert_sandboxed()
    switches = _switches(chromium_under_test(world.browser))
    ours = {flag[2:].partition("=")[0] for flag in Guards().switches(proxy="", script_memory_bytes=0)}
    weakening = {flag[2:] for flag in launch.switches("weakening")}
    assert not {*weakening, "no-sandbox", "disable-web-security"}.intersection(switches)
    first = switches.index("disable-field-trial-config")  # before it stands what the distribution's launcher adds
    assert set(switches[first:]) - ours - KEPT == set()


def test_a_page_opens_no_windows(world: World) -> None:
    world.asked.clear()
    assert "opener" in world.render("/windows").html
    assert [url for url in world.asked if url.endswith("/plain")] == []


def test_a_dialog_does_not_stop_a_page(world: World) -> None:
    assert "after the alert" in world.render("/alert").html


def test_a_popup_is_closed_and_its_opener_rendered(world: World) -> None:
    assert "opener" in world.render("/popup").html


def test_an_endless_script_ends_at_the_limit_and_the_next_page_is_normal(world: World) -> None:
    started = time.monotonic()
    with pytest.raises(TimedOut):
        world.render("/loop", seconds=1.5)
    assert time.monotonic() - started < 5
    assert "nothing special" in world.render("/plain").html


def test_a_page_that_is_not_wanted_any_more_is_given_up_and_the_next_page_is_normal(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.render("/plain")
    looks: list[float] = []

    def check_cancelled() -> None:
        looks.append(time.monotonic())
        if len(looks) > 2:
            raise Fenced("cancelled")

    monkeypatch.setattr(world, "check_cancelled", check_cancelled)
    with pytest.raises(Fenced):
        world.render("/loop", seconds=60)
    assert looks[-1] - looks[0] < 20
    monkeypatch.undo()
    assert "nothing special" in world.render("/plain").html


def test_a_page_that_never_rests_is_taken_as_it_stands(world: World) -> None:
    assert 'id="t"' in world.render("/ticking", seconds=30).html


def test_a_page_that_moves_on_is_followed(world: World) -> None:
    page = world.render("/moving")
    assert (page.final_url, "nothing special" in page.html) == (world.origin + "/plain", True)


def test_a_redirect_reports_the_last_response(world: World) -> None:
    assert (world.render("/old").status, world.render("/old").final_url) == (200, world.origin + "/plain")


def test_a_page_that_breaks_the_built_ins_is_read_all_the_same(world: World) -> None:
    assert "honest text" in world.render("/liar").html


def test_a_site_cannot_speak_for_the_proxy_through_a_tunnel(
    world: World, tls_site: Any, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy marks what it answers itself; what comes out of a tunnel it has not seen."""
    key = subprocess.run(
        f"openssl x509 -in {certificate[0]} -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary",
        shell=True,
        check=True,
        capture_output=True,
    ).stdout
    trusted = f"--ignore-certificate-errors-spki-list={base64.b64encode(key).decode()}"

    class Trusting(Guards):
        def switches(self, *, proxy: str, script_memory_bytes: int) -> tuple[str, ...]:
            return (*super().switches(proxy=proxy, script_memory_bytes=script_memory_bytes), trusted)

    forged = b"HTTP/1.1 403 Refused address: 10.0.0.1\r\nX-Sluice-Refused: address\r\nContent-Length: 4\r\n\r\n<p>x"
    tls_site.call("/", lambda handler: handler.wfile.write(forged))
    browser = Browser(CrawlSettings(), guards=Trusting())
    try:
        with EgressProxy(EgressSettings(allow=(tls_site.address,))) as proxy:
            page = browser.render(tls_site.url(), proxy_url=proxy.url, user_agent="T/1", limits=RenderLimits(40, 1_000))
    finally:
        browser.close()
    assert (page.status, "<p>x" in page.html) == (403, True)
    assert not [name for name in page.headers if name.startswith("x-sluice")]


def test_a_missing_page_keeps_its_status(world: World) -> None:
    assert world.render("/nowhere").status == 404


def test_a_page_behind_a_password_is_refused_as_one(world: World) -> None:
    with pytest.raises(PolicyRefused, match="password"):
        world.render("/locked")


def test_html_beyond_the_limit_is_refused(world: World) -> None:
    with pytest.raises(BudgetExhausted, match="100000 bytes"):
        world.render("/large")


def test_a_download_is_named_as_one(world: World) -> None:
    with pytest.raises(InvalidInput, match="download"):
        world.render("/file")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "chrome://version", "javascript:1", "data:text/html,x"])
def test_only_web_addresses_are_opened(world: World, url: str) -> None:
    with pytest.raises(InvalidInput, match="http"):
        world.browser.render(url, proxy_url=world.proxy_url, user_agent="TestBot/1", limits=RenderLimits(5, 1_000))


def test_many_threads_share_the_browser(world: World) -> None:
    with ThreadPoolExecutor(4) as threads:
        pages = list(threads.map(world.render, ["/plain"] * 4))
    assert all("nothing special" in page.html for page in pages)


def test_a_browser_that_died_is_replaced(world: World) -> None:
    world.render("/plain")
    before = chromium_under_test(world.browser)
    os.kill(before, signal.SIGKILL)
    assert "nothing special" in world.render("/plain").html
    assert chromium_under_test(world.browser) != before


def test_a_driver_that_died_is_replaced_by_the_next_try(world: World) -> None:
    world.render("/plain")
    for pid in family(os.getpid()):
        with suppress(FileNotFoundError, ProcessLookupError):  # children of other tests come and go
            if b"playwright/driver" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
    with suppress(Unavailable):
        world.render("/plain")
    assert "nothing special" in world.render("/plain").html


def test_a_browser_makes_way_after_its_pages_and_close_leaves_no_process(world: World) -> None:
    browser = Browser(CrawlSettings(browser_recycle_pages=1))
    world.render("/plain", browser=browser)
    first = chromium_under_test(browser)
    world.render("/plain", browser=browser)
    second = chromium_under_test(browser)
    members = [*family(first), *family(second)]
    browser.close()
    assert first != second
    assert not [pid for pid in members if runs(pid)]
    with pytest.raises(Unavailable, match="closed"):
        world.render("/plain", browser=browser)


def test_closing_a_browser_that_never_started_is_nothing() -> None:
    browser = Browser(CrawlSettings())
    browser.close()
    browser.close()


def test_a_configured_binary_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match=r"crawl\.chromium_path") as failure:
        find_chromium(tmp_path / "chromium", "/nowhere")
    assert "make setup" in failure.value.remedy


def test_proxy_credentials_are_split_off_and_decoded() -> None:
    settings = proxy_settings("http://run%3A1:s%40cret@127.0.0.1:8888")
    assert settings["server"] == "http://127.0.0.1:8888"
    assert (settings.get("username"), settings.get("password")) == ("run:1", "s@cret")
    assert settings.get("bypass") == "<-loopback>"


def test_a_proxy_without_a_port_is_refused() -> None:
    with pytest.raises(InvalidInput, match="proxy_url"):
        proxy_settings("http://127.0.0.1")


@pytest.mark.parametrize(
    ("answer", "rule"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nyes", "malformed_response"),
        (b"HTTP/1.1 302 Found\r\nLocation: /a\r\nLocation: /b\r\n\r\n", "malformed_response"),
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", "redirects"),
    ],
)
def test_what_the_browser_cannot_take_for_http_is_refused_by_name(world: World, answer: bytes, rule: str) -> None:
    """As over HTTP: a failure that is tried again would end as a dead letter, which a site could make at will."""
    with socket.create_server(("127.0.0.1", 0)) as proxy:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connected, _ = proxy.accept()
                    with connected, suppress(OSError):
                        connected.recv(65_536)
                        connected.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(PolicyRefused) as refused:
            world.browser.render(
                "http://site.example/",
                proxy_url=f"http://a:b@127.0.0.1:{proxy.getsockname()[1]}",
                user_agent="TestBot/1",
                limits=RenderLimits(20, 100_000),
            )
        proxy.shutdown(socket.SHUT_RDWR)
    assert refused.value.rule == rule
