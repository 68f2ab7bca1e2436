"""Pages that ask for too much, in a real Chromium: each ends by name, within its time, and the next page is normal."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from sluice.contracts.errors import InvalidInput, PolicyRefused, SluiceError, TimedOut
from sluice.ingest.browser.processes import pause_seconds
from sluice.ingest.settings import CrawlSettings
from tests.support.browser_world import PAGES, World, world_with_a_browser

MEMORY_BYTES = 600_000_000

PAGES |= {
    "/crowd": "<p>many</p><script>for (let i = 0; i < 5e4; i++) document.body.append(document.createElement('b'))</script>",
    "/flood": "<p>asking</p><script>let n = 0; setInterval(() => { for (let i = 0; i < 20; i++) fetch('/plain?' + n++) })</script>",
    "/frames": "<p>frames</p><script>let n = 0; setInterval(() => { const f = document.createElement('iframe');"
    " f.src = '/plain?' + n++; document.body.append(f) })</script>",
    "/hoard": "<p>hoarding</p><script>const kept = []; while (true) kept.push(new Uint8Array(3e7).fill(1))</script>",
    "/heap": "<p>heap</p><script>const kept = []; for (let i = 0; ; i++) kept.push(new Array(1e5).fill(i + 0.5))</script>",
    "/spin": "<p>spinning</p><script>while (true) {}</script>",
    "/wasm": "<p>wasm</p><script>new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array("
    "[0,97,115,109,1,0,0,0,1,4,1,96,0,0,3,2,1,0,8,1,0,10,9,1,7,0,3,64,12,0,11,11])))</script>",
    "/workers": "<p>with workers</p><script>const code = URL.createObjectURL(new Blob(['while (true) {}']));"
    " for (let i = 0; i < 4; i++) new Worker(code)</script>",
    "/alerts": "<p>alerts</p><script>for (;;) alert('again')</script>",
    "/leaving": "<p>stay</p><script>onbeforeunload = e => { e.preventDefault(); return 'stay' }</script>",
    "/history": "<p>history</p><script>setInterval(() => { for (let i = 0; i < 99; i++) history.pushState(0, '', '?' + Math.random()) })</script>",
    "/location": "<p>moving</p><script>location.href = '/location?' + Math.random()</script>",
    "/printing": "<p>printed</p><script>print()</script>",
    "/worker": "<p>register</p><script>navigator.serviceWorker.register('/plain').then(() => document.body.append(' done'),"
    " e => document.body.append(' worker refused'))</script>",
    "/asking": "<p>asking</p><script>navigator.geolocation.getCurrentPosition(() => document.body.append(' placed'),"
    " e => document.body.append(' place refused')); Notification.requestPermission().then(p => document.body.append(' note ' + p))</script>",
    "/devices": "<p id=o></p><script>o.textContent = [!!document.createElement('canvas').getContext('webgl'),"
    " 'usb' in navigator, navigator.onLine].join(' ')</script>",
    "/fetching": "<p>loads</p><script>const a = document.createElement('a'); a.href = '/file'; a.download = 'x'; a.click()</script>",
    "/clicking": "<p>opener</p><script>setInterval(() => { for (let i = 0; i < 20; i++) {"
    " const a = document.createElement('a'); a.href = '/plain'; a.target = '_blank'; a.click() } }, 5)</script>",
    "/refresh": "<meta http-equiv=refresh content='0; url=/plain'><p>wait",
    "/submits": "<form action=/plain method=post><input name=a value=b></form><script>document.forms[0].submit()</script>",
    "/framed": "<p>with a frame</p><iframe src=/plain></iframe>",
    "/wall": "<style>#consent-wall { position: fixed; inset: 0; background: white }</style><p>" + "the article " * 40
    + "</p><div id=consent-wall>We use cookies. <button onclick=\"document.getElementById('more').textContent ="
    " 'read on'; this.parentElement.remove()\">Reject all</button></div><p id=more></p>",
    "/form-wall": "<style>#consent { position: fixed; inset: 0; background: white }</style><p>article</p>"
    "<div id=consent><form action=/plain>We use cookies. <button>Accept all</button></form></div>",
    "/slow-shell": "<div id=root></div><script>setTimeout(() => { root.textContent = 'the content came late' }, 500)</script>",

    "/ahead": "<p>loads ahead</p><script type=speculationrules>"
    '{"prerender": [{"urls": ["/plain"], "eagerness": "immediate"}], "prefetch": [{"urls": ["/moving"], "eagerness": "immediate"}]}'
    "</script><script>let n = 0; setInterval(() => { if (n++ < 40) document.body.append('.') }, 50)</script>",
    "/tall": "<title>tall</title><div style='height: 30000px; background: linear-gradient(red, blue)'>tall</div>",
}  # fmt: skip


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    made = world_with_a_browser(CrawlSettings(browser_memory_bytes=MEMORY_BYTES))
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _next_page_is_normal(world: World) -> Iterator[None]:
    """Whatever a test did to the browser, the page after it is a page."""
    yield
    assert "nothing special" in world.render("/plain").html


def _refused(world: World, path: str, rule: str, seconds: float = 40) -> PolicyRefused:
    with pytest.raises(PolicyRefused) as refusal:
        world.render(path, seconds=seconds)
    assert refusal.value.rule == rule
    return refusal.value


def test_a_tree_without_end_is_refused_before_its_html_is_built(world: World) -> None:
    refusal = _refused(world, "/crowd", "nodes")
    assert refusal.lifted_by == ""


@pytest.mark.parametrize("path", ["/flood", "/frames"])
def test_a_page_that_keeps_asking_is_ended_at_its_limit(world: World, path: str) -> None:
    world.seen.clear()
    _refused(world, path, "requests")
    time.sleep(0.3)
    asked = len(world.seen)
    time.sleep(0.5)
    assert asked < 400
    assert len(world.seen) == asked


@pytest.mark.parametrize("path", ["/hoard", "/heap"])
def test_a_page_that_hoards_memory_is_ended_by_name_and_stays_near_the_limit(world: World, path: str) -> None:
    _refused(world, path, "memory")
    assert world.browser.running is not None
    assert world.browser.running.watch.most_bytes < 2 * MEMORY_BYTES


def test_the_nearer_the_limit_the_sooner_memory_is_looked_at_again() -> None:
    assert [pause_seconds(left) for left in (550_000_000, 200_000_000, 4_000_000, -1)] == [0.1, 0.05, 0.01, 0.01]


@pytest.mark.parametrize("path", ["/spin", "/wasm", "/alerts"])
def test_a_page_that_never_lets_go_ends_at_its_limit(world: World, path: str) -> None:
    with pytest.raises(TimedOut):
        world.render(path, seconds=4)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/workers", "with workers"),
        ("/leaving", "stay"),
        ("/printing", "printed"),
        ("/worker", "worker refused"),
        ("/asking", "place refused"),
        ("/fetching", "loads"),
        ("/clicking", "opener"),
    ],
)
def test_what_a_page_may_not_have_it_goes_without(world: World, path: str, text: str) -> None:
    world.seen.clear()
    assert text in world.render(path).html
    assert "/plain" not in world.seen


@pytest.mark.parametrize("path", ["/location", "/history"])
def test_a_page_that_never_rests_in_one_place_ends_in_time(world: World, path: str) -> None:
    started = time.monotonic()
    with suppress(SluiceError):  # or it stood still for long enough
        world.render(path, seconds=12)
    assert time.monotonic() - started < 35


def test_there_is_no_3d_and_no_device_and_the_machine_counts_as_connected(world: World) -> None:
    assert "false false true" in world.render("/devices").html


@pytest.mark.parametrize("path", ["/refresh", "/submits", "/moving", "/old"])
def test_a_page_goes_on_only_once_its_next_address_was_judged(world: World, path: str) -> None:
    asked: list[str] = []

    def pre_request(url: str) -> None:
        assert "/plain" not in world.seen
        asked.append(url)

    world.seen.clear()
    assert "nothing special" in world.render(path, pre_request=pre_request).html
    assert asked == [world.origin + "/plain"]


@pytest.mark.parametrize("path", ["/refresh", "/submits", "/moving", "/old", "/twice"])
def test_an_address_that_is_refused_is_never_asked_for_and_the_refusal_is_told(world: World, path: str) -> None:
    def pre_request(url: str) -> None:
        if url.endswith("/plain"):
            raise PolicyRefused("robots", f"{url} is disallowed", "the site's owner")

    world.seen.clear()
    with pytest.raises(PolicyRefused) as refusal:
        world.render(path, pre_request=pre_request)
    assert refusal.value.rule == "robots"
    assert "/plain" not in world.seen


def test_the_first_address_and_the_frames_of_a_page_are_not_asked_about(world: World) -> None:
    asked: list[str] = []
    world.render("/framed", pre_request=asked.append)
    assert asked == []


def test_a_consent_wall_is_dismissed_once_and_what_was_behind_it_is_read(world: World) -> None:
    html = world.render("/wall").html
    assert "We use cookies" not in html
    assert "read on" in html


def test_a_consent_wall_that_is_a_form_is_left_alone(world: World) -> None:
    world.seen.clear()
    assert "We use cookies" in world.render("/form-wall").html
    assert not [path for path in world.seen if path.startswith("/plain")]


def test_a_shell_is_given_the_time_to_fill_itself(world: World) -> None:
    assert "the content came late" in world.render("/slow-shell").html


def test_a_picture_is_taken_where_one_is_asked_for_and_is_of_bounded_height(world: World) -> None:
    assert world.render("/plain").screenshot is None
    picture = world.render("/tall", screenshot=True).screenshot
    assert picture is not None
    assert picture.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", picture[16:24])
    assert (width, height) == (1280, 8000)
    assert len(picture) <= 5_000_000


def test_a_page_is_told_how_many_requests_it_made(world: World) -> None:
    assert world.render("/framed").requests == 2


def test_a_download_by_script_yields_no_file_and_by_address_an_error(world: World) -> None:
    with pytest.raises(InvalidInput, match="download"):
        world.render("/file")


def test_no_page_is_loaded_ahead_of_a_visit(world: World) -> None:
    """Robots.txt was not asked about it, and its host's turn was not waited for."""
    world.seen.clear()
    assert "loads ahead" in world.render("/ahead").html
    assert not {"/plain", "/moving"} & set(world.seen)
