"""Nothing inside can be reached: every spelling of an inner address by every way that leads on.

Passes: HTTP alone; a browser with all its guards; the browser with its guards off, so that the way out holds by itself;
the browser with its guards and without a network of its own. What counts is what passes the wire: not one first packet
to an address that no crawl may reach, and no canary that was connected to. A control opens three canaries by setting
and has to see them reached, or zero would mean nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from urllib.parse import urlsplit

import sluice.ingest.browser.browser
from sluice.contracts.errors import SluiceError
from sluice.contracts.ingest import CrawlDirected
from sluice.ingest.browser.launch import Guards, lean_switches
from sluice.ingest.browser.running_browser import NO_PROXY_LISTENS
from sluice.ingest.crawl.crawled_page import CrawledPage
from sluice.workers.context import Context
from tests.chaos.hostile.literals import CANARIES, OWN, literals
from tests.chaos.hostile.vectors import BROWSER, HTTP, TOP_LEVEL, Vectors
from tests.chaos.hostile.wire import Packet
from tests.chaos.hostile.world import World
from tests.chaos.report import Result

CHUNK = 40
MANY_REQUESTS = 1_000
"""Of a page: with five for each address none is left out for its number."""
MUCH_MEMORY_BYTES = 1_500_000_000
"""So that a page with a frame for each address lives long enough to try them all."""
AT_ONCE = 2
SHORT_VECTORS = (
    "fetch", "XHR", "WebSocket", "WebRTC", "worker", "service worker", "iframe", "meta refresh in a frame",
    "redirected fetch", "prefetch", "form", "PDF link",
    "address",
)  # fmt: skip
TOP_LEVEL_TRIES = 10
"""Addresses for ways that take one page each, drawn evenly."""
SHORT_TOP_LEVEL_TRIES, SHORT_HTTP_TRIES = 2, 6
EVERY_THIRD = 3
SETTLE_SECONDS = 0.5
ATTEMPTS = 3
"""Of a page until its scripts run."""
OPENED = (*CANARIES, *(f"http://10.9.0.{number}/" for number in range(1, len(HTTP) + 1)))
"""What the control opens. Each way over HTTP has an address of its own, as what a robots.txt said is remembered."""
CONTROL_ALLOW = tuple(f"crawl={url.split('/')[2]}:80" for url in OPENED)
SHUT_BY_THE_BROWSER = frozenset(
    {"WebRTC", "WebRTC candidates", "WebTransport", "service worker", "prefetch", "speculation rules", "popup",
     "icons and manifest", "ping", "policy report", "base", "PDF link"}
)  # fmt: skip
"""What this browser does not do at all, so that a control cannot see it either; or may leave out."""


@dataclass
class Pass:
    """What one pass did and found. `endings` counts how the crawls ended."""

    name: str
    cases: int = 0
    tries: int = 0
    endings: Counter[str] = field(default_factory=Counter)
    packets: list[tuple[str, Packet]] = field(default_factory=list)
    idle: list[str] = field(default_factory=list)
    """Cases whose scripts never ran."""


def inner_addresses(world: World, *, short: bool) -> Iterator[Result]:
    """HTTP alone, the browser with all that holds it, and the control."""
    vectors, chosen, missing = _addresses_of(world, short=short)
    yield _pass_of_http(world, vectors, chosen, missing, short=short)
    yield _pass_of_browser(world, "all guards", {}, vectors, chosen, short=short)
    yield _control(world, short=short)


def inner_addresses_unguarded(world: World, *, short: bool) -> Iterator[Result]:
    """The browser with a part of what holds it: without its guards, and without a network of its own."""
    vectors, chosen, _ = _addresses_of(world, short=short)
    with _browsers_without_guards():
        own_network: dict[str, object] = {"browser_network": "isolated"}
        yield _pass_of_browser(world, "guards off", own_network, vectors, chosen, short=short)
    if not short:
        nowhere = urlsplit(NO_PROXY_LISTENS)  # whither the browser sends what no page asked for; nothing listens there
        world.wire.known.add((str(nowhere.hostname), int(nowhere.port or 0)))
        shared: dict[str, object] = {"browser_network": "shared"}
        yield _pass_of_browser(world, "guards and no network of its own", shared, vectors, chosen, short=short)


def _addresses_of(world: World, *, short: bool) -> tuple[Vectors, list[str], list[str]]:
    """The pages that lead to inner addresses, served from now on; the addresses; and which lists are not here."""
    table, missing = literals()
    chosen = list(OWN[::EVERY_THIRD]) if short else table
    vectors = Vectors(chosen)
    world.site.finders.append(vectors.find)
    return vectors, chosen, missing


class NoGuards(Guards):
    """Nothing within the browser holds a page back: what is left is its network and the egress proxy."""

    service_workers = "allow"
    judges_navigations = False

    def switches(self, *, proxy: str, script_memory_bytes: int) -> tuple[str, ...]:
        """Those that guard nothing."""
        return lean_switches(script_memory_bytes)


@contextmanager
def _browsers_without_guards() -> Iterator[None]:
    """What is forbidden to pages inside the browser is allowed; the way out stays what it is."""
    guarded = sluice.ingest.browser.browser.Browser
    sluice.ingest.browser.browser.Browser = partial(guarded, guards=NoGuards())  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        sluice.ingest.browser.browser.Browser = guarded  # type: ignore[misc]


def _pass_of_http(world: World, vectors: Vectors, table: Sequence[str], missing: list[str], *, short: bool) -> Result:
    done = Pass("HTTP alone")
    with world.context(crawl={"render": "never"}) as context, _Hunt(world, done) as hunt:
        for vector, form in HTTP.items():
            few = [_drawn(len(table), SHORT_HTTP_TRIES)] if short and vector not in SHORT_VECTORS else None
            for chunk in few or vectors.chunks(CHUNK):
                urls = [_address(form, table[number], number, hunt.host()) for number in chunk]
                hunt.case(f"{vector} {chunk[0]}", urls, lambda url: _follow(context, url, "never"))
    return _result(world, done, missing)


def _pass_of_browser(
    world: World, name: str, crawl: dict[str, object], vectors: Vectors, table: Sequence[str], *, short: bool
) -> Result:
    done = Pass(name)
    chunks, tries = vectors.chunks(CHUNK), SHORT_TOP_LEVEL_TRIES if short else TOP_LEVEL_TRIES
    settings = {
        "browser_pages": AT_ONCE,
        "browser_memory_bytes": MUCH_MEMORY_BYTES,
        "max_requests_per_page": MANY_REQUESTS,
        **crawl,
    }
    room: dict[str, object] = {"max_requests_per_crawl": MANY_REQUESTS}
    with world.context(crawl=settings, egress=room) as context, _Hunt(world, done) as hunt:
        for vector in [*filter(SHORT_VECTORS.__contains__, BROWSER)] if short else BROWSER:
            for chunk in chunks[:1] if short else chunks:
                hunt.page(context, vector, chunk)
        for form in TOP_LEVEL.values():
            numbers = _drawn(len(OWN[::EVERY_THIRD]) if short else len(OWN), tries)
            urls = [_address(form, table[number], number, hunt.host()) for number in numbers]
            hunt.case(form, urls, lambda url: _crawl(context, url, "always"))
    return _result(world, done, [])


def _control(world: World, *, short: bool) -> Result:
    """With the canaries opened by setting, each way has to reach them, and be seen to."""
    vectors = Vectors(OPENED)
    world.site.finders.insert(0, vectors.find)
    reached: dict[str, str] = {}
    """For each way an empty text, or how it ended without reaching anything."""
    try:
        with world.context(egress={"allow": CONTROL_ALLOW}, crawl={"browser_pages": AT_ONCE}) as context:
            for vector in [*filter(SHORT_VECTORS.__contains__, BROWSER)] if short else BROWSER:
                reached[vector] = _reaches(
                    world, context, _page_url(vector, range(len(CANARIES)), "control.org"), "always"
                )
            for number, form in enumerate(HTTP.values(), len(CANARIES)):
                reached[form] = _reaches(world, context, _address(form, OPENED[number], number, "control.org"), "never")
    finally:
        world.site.finders.remove(vectors.find)
    excused = SHUT_BY_THE_BROWSER | {form for way, form in HTTP.items() if way in _NOT_FOLLOWED}
    unseen = {way: ended for way, ended in sorted(reached.items()) if ended and way not in excused}
    figures = {"ways": len(reached), "seen": sum(not ended for ended in reached.values())}
    problems = tuple(f"{way}: a canary that was open to it was not seen ({ended})" for way, ended in unseen.items())
    return Result(
        "inner addresses, control", "canaries opened by setting", "each way seen", not unseen, figures, problems
    )


_NOT_FOLLOWED = frozenset({"Refresh header", "meta refresh", "canonical", "sitemap", "feed"})
"""Ways that HTTP alone does not go, or goes only within the same site."""


def _reaches(world: World, context: Context, url: str, render: str) -> str:
    """Nothing where a canary was reached, else how the crawls ended."""
    world.site.canaries.clear()
    endings = list(_follow(context, url, render))
    time.sleep(SETTLE_SECONDS / 2)
    packets = world.wire.take()
    return "" if packets and world.site.canaries else f"{endings}, {len(packets)} packets"


class _Hunt:
    """Goes through cases, and asks after each what passed the wire."""

    def __init__(self, world: World, done: Pass) -> None:
        self._world = world
        self._done = done
        self._threads = ThreadPoolExecutor(AT_ONCE)
        self._hosts = count()

    def __enter__(self) -> _Hunt:
        self._world.wire.take()
        self._world.site.canaries.clear()
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown()

    def host(self) -> str:
        """A host of the case's own, so that no host is left alone for what another case did."""
        return f"{self._done.name.replace(' ', '').lower()}{next(self._hosts)}.org"

    def page(self, context: Context, vector: str, chunk: range) -> None:
        """One page of many addresses, in the browser; once more where its scripts did not run, as on a busy machine."""
        name = f"{vector} {chunk.start}"
        for _ in range(ATTEMPTS):
            url = _page_url(vector, chunk, self.host())
            ran = url.split("/", 3)[3].replace("v/", "/ran/", 1)
            before = self._world.site.asked_for(ran)
            self.case(name, [url], lambda one: _crawl(context, one, "always"))
            self._done.tries += len(chunk) - 1
            if self._world.site.asked_for(ran) > before:
                return
        self._done.idle.append(name)

    def case(self, name: str, urls: Iterable[str], crawl: Callable[[str], Iterable[str]]) -> None:
        """Crawl `urls`; what passed the wire meanwhile is this case's."""
        started = time.monotonic()
        for endings in self._threads.map(lambda url: list(crawl(url)), urls):
            self._done.endings.update(endings)
            self._done.tries += 1
        self._done.cases += 1
        self._done.packets += [(name, packet) for packet in self._world.wire.take()]
        print(f"{self._done.name}: {name}: {time.monotonic() - started:.1f} s", flush=True)


def _follow(context: Context, url: str, render: str) -> Iterator[str]:
    """Crawl `url` and what it links to; how each ended."""
    try:
        page = context.crawler.crawl(_directed(url, render))
    except SluiceError as error:
        yield _told(error)
        return
    yield "a page"
    links = [link.url for link in page.page_links] if isinstance(page, CrawledPage) else []
    for link in links[:3]:
        yield from _crawl(context, link, render)


def _crawl(context: Context, url: str, render: str) -> Iterator[str]:
    try:
        context.crawler.crawl(_directed(url, render))
    except SluiceError as error:
        yield _told(error)
    else:
        yield "a page"


def _directed(url: str, render: str) -> CrawlDirected:
    return CrawlDirected.model_validate({"url": url, "render": render})


def _told(error: SluiceError) -> str:
    return f"{error.code} {getattr(error, 'rule', '')}".strip()


def _drawn(count: int, wanted: int) -> range:
    """About so many of the first `count` numbers, evenly."""
    return range(0, count, max(1, count // wanted))


def _address(form: str, address: str, number: int, host: str) -> str:
    return form.replace("URL", address).replace("NUMBER", str(number)).replace("HOST", host)


def _page_url(vector: str, chunk: range, host: str) -> str:
    return f"http://{host}/v/{vector.replace(' ', '_')}/{chunk.start}/{chunk.stop}"


def _result(world: World, done: Pass, missing: list[str]) -> Result:
    time.sleep(SETTLE_SECONDS)  # what was still on its way
    done.packets += [("afterwards", packet) for packet in world.wire.take()]
    canaries, dropped = Counter(world.site.canaries), world.wire.dropped()
    problems = [f"{name}: {one.protocol} to {one.address}:{one.port}" for name, one in done.packets]
    problems += [f"canary {address}:{port} was reached {times} times" for (address, port), times in canaries.items()]
    problems += [f"{name}: its scripts never ran" for name in done.idle]
    problems += [f"{dropped} packets were not looked at"] * bool(dropped)
    problems += ["the wire saw nothing at all"] * (not world.wire.seen)
    figures = {
        "cases": done.cases,
        "tries": done.tries,
        "packets": len(done.packets),
        "connections": sum(canaries.values()),
        "endings": dict(done.endings.most_common(8)),
        **({"not here": missing} if missing else {}),
    }
    return Result(
        f"inner addresses, {done.name}", f"{done.tries} tries", "0 packets", not problems, figures, tuple(problems[:40])
    )
