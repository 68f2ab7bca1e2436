"""A name that changes its meaning between the check and the connection reaches nothing inside.

The name server answers with a TTL of 0, in turn a public address and an inner one. A careless client, which checks a
name and then connects to the name, is caught within a few tries: otherwise zero would mean nothing.
"""

from __future__ import annotations

import socket
import time
from collections import Counter

from sluice.contracts.errors import SluiceError
from sluice.contracts.ingest import CrawlDirected
from tests.chaos.hostile.server import Reply, Request, html
from tests.chaos.hostile.wire import is_forbidden
from tests.chaos.hostile.world import World
from tests.chaos.report import Result

TRIES = 1_000
SHORT_TRIES = 120
TRIES_PER_NAME = 4
FETCHES_PER_PAGE = 40
FORMS = ("turn", "late", "both", "mapped")
INNER = ("7f000001", "0a000001", "a9fea9fe")
_FETCHES = (
    "<title>x</title><p>Words.</p><script>(async () => {"
    f"for (let n = 0; n < {FETCHES_PER_PAGE}; n++) await fetch('/again?' + n, {{cache: 'no-store'}}).catch(() => 0);"
    "})()</script>"
)


def changing_names(world: World, *, short: bool) -> list[Result]:
    """Over HTTP alone, from a page in the browser, and by a careless client."""
    world.site.finders.append(_page)
    tries = SHORT_TRIES if short else TRIES
    return [_over_http(world, tries), _in_browser(world, max(tries // 10, FETCHES_PER_PAGE)), _careless(world)]


def _over_http(world: World, tries: int) -> Result:
    endings: Counter[str] = Counter()
    world.wire.take()
    with world.context(crawl={"render": "never"}) as context:
        for number in range(tries):
            name = f"{FORMS[number % 4]}-{INNER[number % 3]}.http{number // (4 * TRIES_PER_NAME)}.org"
            try:
                context.crawler.crawl(CrawlDirected(url=f"http://{name}/{number}", render="never"))
                endings["a page"] += 1
            except SluiceError as error:
                endings[f"{error.code} {getattr(error, 'rule', '')}".strip()] += 1
    return _judge(world, "over HTTP", tries, endings)


def _in_browser(world: World, tries: int) -> Result:
    """A page that asks for itself again and again: each request is a connection of its own."""
    endings: Counter[str] = Counter()
    world.wire.take()
    with world.context() as context:
        for number in range(tries // FETCHES_PER_PAGE):
            url = f"http://{FORMS[number % 2]}-{INNER[number % 3]}.browser{number}.org/fetches"
            try:
                context.crawler.crawl(CrawlDirected(url=url, render="always"))
                endings["a page"] += 1
            except SluiceError as error:
                endings[f"{error.code} {getattr(error, 'rule', '')}".strip()] += 1
    endings["requests of pages"] = world.site.asked_for("/again")
    return _judge(world, "in the browser", tries, endings)


def _judge(world: World, way: str, tries: int, endings: Counter[str]) -> Result:
    time.sleep(0.3)
    packets, canaries = world.wire.take(), list(world.site.canaries)
    looked_up = sum(world.names.asked.values())
    world.names.asked.clear()
    world.site.canaries.clear()
    problems = [f"{one.protocol} to {one.address}:{one.port}" for one in packets]
    problems += [f"canary {address}:{port} was reached" for address, port in canaries]
    problems += ["no name was looked up"] * (not looked_up)
    figures = {"reached": len(packets), "names looked up": looked_up, "endings": dict(endings)}
    passed = not problems
    return Result(f"changing names, {way}", f"{tries} tries", "0 reached", passed, figures, tuple(problems[:20]))


def _careless(world: World) -> Result:
    """What the check is worth: a client that looks a name up twice is seen."""
    for number in range(20):
        name = f"turn-7f000001.careless{number}.org"
        address = socket.getaddrinfo(name, 80, family=socket.AF_INET)[0][4][0]
        if not is_forbidden(str(address)):
            socket.create_connection((name, 80), timeout=2).close()
    time.sleep(0.3)
    seen = len(world.wire.take())
    world.site.canaries.clear()
    problems = () if seen else ("a client that looks names up twice was not seen to reach an inner address",)
    return Result(
        "changing names, control", "20 tries of a careless client", "seen", bool(seen), {"seen": seen}, problems
    )


def _page(request: Request) -> Reply | None:
    if request.path == "/robots.txt":
        return None
    return html(_FETCHES if request.path == "/fetches" else "<title>x</title><p>Words.</p>")
