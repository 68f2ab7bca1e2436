"""The zoo: pages that want to hold a crawl for ever, or to eat the machine. Each is stopped, by name, in time.

After each an ordinary page is read as if nothing had been. The memory of the worker and of everything below it is
weighed all the while; the test's own server and broker are among it.
"""

from __future__ import annotations

import asyncio
import gzip
import time
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

import brotli
import zstandard

from sluice.contracts.errors import SluiceError
from sluice.contracts.ingest import CrawlDirected
from sluice.workers.context import Context
from sluice.workers.processes.kernel import adopt_orphans
from tests.chaos.hostile.processes import Scales
from tests.chaos.hostile.server import Answer, Live, Reply, Request, html
from tests.chaos.hostile.world import World
from tests.chaos.report import Result

LIMIT_SECONDS = 35.0
LIMIT_BYTES = 1 << 30
SHORT_PAGE_SECONDS = 8.0
BOMB_BYTES = 1 << 30
_MEGABYTE = 1 << 20
_WORDS = "Words that anybody may read. "


@dataclass(frozen=True, slots=True)
class Animal:
    """One page. `may_be_read`: what it tries can be made harmless, so that it is read like any other."""

    name: str
    answer: Callable[[], Answer]
    render: Literal["always", "never"]
    may_be_read: bool = False
    path: str = "/animal"
    host: str | None = None
    """Where it has to live; else on a host of its own."""


def _scripted(code: str) -> Callable[[], Answer]:
    return lambda: html(f"<!doctype html><title>x</title><body><p>{_WORDS}</p><script>{code}</script>")


def _streamed(head: bytes, pieces: Callable[[], AsyncIterator[bytes]]) -> Callable[[], Answer]:
    async def write(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        async for piece in pieces():
            writer.write(piece)
            await writer.drain()

    live: Live = write
    return lambda: live


async def _for_ever(piece: bytes) -> AsyncIterator[bytes]:
    while True:
        yield piece


async def _slowly(text: bytes, pause_seconds: float = 0.5) -> AsyncIterator[bytes]:
    while True:
        for byte in text:
            yield bytes([byte])
            await asyncio.sleep(pause_seconds)


async def _numbered(template: str, count: int) -> AsyncIterator[bytes]:
    for start in range(0, count, 100):
        yield b"".join(template.format(number).encode() for number in range(start, start + 100))


_OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n"
_CHUNK = b"10000\r\n" + b"<p>x</p>" * 8_192 + b"\r\n"


@cache
def _bomb(encoding: str) -> bytes:
    """A page of `BOMB_BYTES` in less than one megabyte."""
    piece = b"<p>x</p>" * (_MEGABYTE // 8)
    pieces = BOMB_BYTES // _MEGABYTE
    if encoding == "br":
        packer = brotli.Compressor(quality=5, lgwin=22)
        return b"".join([*(packer.process(piece) for _ in range(pieces)), packer.finish()])
    if encoding == "zstd":
        zstd = zstandard.ZstdCompressor(level=9).compressobj()
        return b"".join([*(zstd.compress(piece) for _ in range(pieces)), zstd.flush()])
    deflate = zlib.compressobj(1, wbits=31 if encoding == "gzip" else 15)
    return b"".join([*(deflate.compress(piece) for _ in range(pieces)), deflate.flush()])


def _packed(encoding: str) -> Callable[[], Answer]:
    headers = (("Content-Type", "text/html"), ("Content-Encoding", encoding))
    return lambda: Reply(_bomb(encoding), 200, headers)


def _packed_twice() -> Answer:
    headers = (("Content-Type", "text/html"), ("Content-Encoding", "gzip, gzip"))
    return Reply(gzip.compress(_bomb("gzip")), 200, headers)


def _moved(location: str) -> Callable[[], Answer]:
    return lambda: Reply(b"", 302, (("Location", location),))


async def _further(request: Request, writer: asyncio.StreamWriter) -> None:
    """A redirect to a host that nobody has seen, for ever."""
    number = int(request.query or 0) + 1
    writer.write(Reply(b"", 302, (("Location", f"http://further{number}.org/animal?{number}"),)).encoded())
    await writer.drain()


_WORKER = "new Worker(URL.createObjectURL(new Blob(['{}'])))"

ANIMALS = (
    *(Animal(f"{kind} bomb", _packed(kind), "never") for kind in ("gzip", "deflate", "br", "zstd")),
    Animal("gzip of a gzip bomb", _packed_twice, "never"),
    Animal("endless body", _streamed(_OK + b"Transfer-Encoding: chunked\r\n\r\n", lambda: _for_ever(_CHUNK)), "never"),
    Animal("endless body without a length", _streamed(_OK + b"\r\n", lambda: _for_ever(b"<p>x</p>" * 8_192)), "never"),
    Animal("slow head", _streamed(b"HTTP/1.1 200 OK\r\n", lambda: _slowly(b"X-Slow: a\r\n")), "never"),
    Animal("slow body", _streamed(_OK + b"\r\n", lambda: _slowly(b"<p>x</p>")), "never"),
    Animal("silent host", _scripted(""), "never", host="silent.org"),
    Animal("slow TLS", _scripted(""), "never", host="https://silent.tls.org"),
    Animal("endless interim answers", _streamed(b"", lambda: _for_ever(b"HTTP/1.1 100 Continue\r\n\r\n")), "never"),
    Animal("endless head", _streamed(_OK, lambda: _numbered("X-{0}: " + "y" * 60 + "\r\n", 10_000_000)), "never"),
    Animal("one endless header", _streamed(_OK + b"X-Long: ", lambda: _for_ever(b"y" * 65_536)), "never"),
    Animal("endless trailers", _streamed(
        _OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n", lambda: _numbered("X-{0}: y\r\n", 10_000_000)),
        "never", may_be_read=True),
    Animal("redirect loop", _moved("/animal"), "never"),
    Animal("redirects to ever new hosts", lambda: _further, "never"),
    Animal("a million elements", lambda: Reply(b"<div>" * 1_000_000, 200, (("Content-Type", "text/html"),)), "never",
           may_be_read=True),
    Animal("a charset that takes for ever", lambda: Reply(
        b"x-" + b"ab" * 2_000_000, 200, (("Content-Type", "text/html; charset=punycode"),)), "never", may_be_read=True),
    Animal("slow robots.txt", _streamed(_OK + b"\r\n", lambda: _slowly(b"User-agent: *\n")), "never",
           path="/robots.txt"),
    Animal("endless robots.txt", _streamed(_OK + b"\r\n", lambda: _for_ever(b"Disallow: /x*y*z\n" * 4_000)), "never",
           path="/robots.txt", may_be_read=True),
    # In the browser
    Animal("br bomb in the browser", _packed("br"), "always"),
    Animal("gzip bomb in the browser", _packed("gzip"), "always"),
    Animal("endless body in the browser", _streamed(_OK + b"\r\n", lambda: _for_ever(b"<p>x</p>" * 8_192)), "always"),
    Animal("slow body in the browser", _streamed(_OK + b"\r\n", lambda: _slowly(b"<p>x</p>")), "always",
           may_be_read=True),
    Animal("while(1)", _scripted("while (1);"), "always"),
    Animal("while(1) after a while", _scripted("setTimeout(() => { while (1); }, 300)"), "always", may_be_read=True),
    Animal("a million elements by script", _scripted(
        "for (let n = 0; n < 1e6; n++) document.body.appendChild(document.createElement('i')).append('x')"), "always"),
    Animal("elements without end", _scripted(
        "setInterval(() => { for (let n = 0; n < 5e4; n++) document.body.append(document.createElement('b')) })"),
        "always", may_be_read=True),
    Animal("text without end", _scripted("let t = 'x'; setInterval(() => document.body.append(t += t), 10)"), "always"),
    Animal("nested without end", _scripted(
        "let e = document.body; for (;;) e = e.appendChild(document.createElement('div'))"), "always"),
    Animal("written without end", _scripted("for (;;) document.write('<p>x</p>'.repeat(1000))"), "always"),
    Animal("memory without end", _scripted(
        "const a = []; setInterval(() => { for (let n = 0; n < 4; n++) a.push(new Uint8Array(3e7).fill(n)) }, 20)"),
        "always"),
    Animal("memory of many workers", _scripted(
        "for (let n = 0; n < 8; n++) "
        + _WORKER.format("const a=[]; setInterval(() => a.push(new Uint8Array(2e7).fill(1)), 20)")), "always"),
    Animal("workers without end", _scripted(
        "for (let n = 0; n < 16; n++) " + _WORKER.format("for(;;);")), "always", may_be_read=True),
    Animal("alerts without end", _scripted("for (;;) { alert(1); confirm(2); prompt(3) }"), "always", may_be_read=True),
    Animal("popups without end", _scripted("setInterval(() => open('/animal?' + Math.random()), 1)"), "always",
           may_be_read=True),
    Animal("prints without end", _scripted("for (let n = 0; n < 1e4; n++) print()"), "always", may_be_read=True),
    Animal("history without end", _scripted(
        "for (let n = 0;; n++) { try { history.pushState(n, '', '?' + n) } catch (e) { location.hash = n } }"), "always"),
    Animal("location without end", _scripted("setInterval(() => location = '?' + Math.random(), 1)"), "always",
           may_be_read=True),
    Animal("reloads without end", _scripted("location.reload()"), "always", may_be_read=True),
    Animal("refresh without end", lambda: html('<meta http-equiv="refresh" content="0"><p>Words.'), "always",
           may_be_read=True),
    Animal("leaving is asked about", _scripted(
        "onbeforeunload = () => { for (;;); }; setTimeout(() => location = 'x', 50)"), "always", may_be_read=True),
    Animal("forms without end", _scripted(
        "const f = document.createElement('form'); f.method = 'post'; document.body.append(f); f.submit()"), "always",
        may_be_read=True),
    Animal("requests without end", _scripted(
        "let n = 0; setInterval(() => { for (let k = 0; k < 50; k++) fetch('/x?' + n++).catch(() => 0) }, 5)"),
        "always", may_be_read=True),
    Animal("WebSockets without end", _scripted("setInterval(() => new WebSocket('ws://' + location.host + '/x'), 1)"),
           "always", may_be_read=True),
    Animal("frames within frames", _scripted(
        "for (let n = 0; n < 4; n++) { const f = document.createElement('iframe'); f.src = '?' + Math.random(); "
        "document.body.append(f) }"), "always", may_be_read=True),
    Animal("downloads without end", _scripted(
        "setInterval(() => { const a = document.createElement('a'); a.download = 'x'; a.href = "
        "URL.createObjectURL(new Blob(['x'.repeat(1e6)])); a.click() }, 10)"), "always", may_be_read=True),
    Animal("a download without end", _streamed(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Disposition: attachment\r\n\r\n",
        lambda: _for_ever(b"x" * 65_536)), "always"),
    Animal("promises without end", _scripted("(function f() { Promise.resolve().then(f) })()"), "always"),
    Animal("a pattern that takes for ever", _scripted("/^(a+)+$/.test('a'.repeat(60) + 'b')"), "always"),
    Animal("WebAssembly without end", _scripted(
        "const m = new Uint8Array([0,97,115,109,1,0,0,0,1,4,1,96,0,0,3,2,1,0,7,5,1,1,102,0,0,10,9,1,7,0,3,64,12,0,11,11]);"
        "new WebAssembly.Instance(new WebAssembly.Module(m)).exports.f()"), "always", may_be_read=True),
    Animal("pictures without end", _scripted(
        "const a = []; setInterval(() => { const c = document.createElement('canvas'); c.width = c.height = 8000; "
        "c.getContext('2d').fillRect(0, 0, 8000, 8000); a.push(c) }, 10)"), "always", may_be_read=True),
    Animal("debugger", _scripted("for (;;) debugger"), "always"),
)  # fmt: skip
"""All of them, each on a server of the open web."""

TELLING = ("zstd bomb", "endless head", "while(1)", "memory without end", "popups without end",
           "a million elements by script")  # fmt: skip


def zoo(world: World, *, short: bool) -> list[Result]:
    """Every animal, and an ordinary page after each."""
    adopt_orphans()
    animals = [one for one in ANIMALS if not short or one.name in TELLING]
    crawl: dict[str, object] = {"page_timeout_seconds": SHORT_PAGE_SECONDS} if short else {}
    visits: list[_Visited] = []
    with world.context(crawl=crawl) as context, Scales() as scales:
        first = _ordinary(world, context, "first")
        for number, animal in enumerate(animals):
            visits.append(_attempt(world, context, scales, animal, number))
            print(visits[-1], flush=True)
    problems = [problem for one in visits for problem in one.problems()] + [f"at first: {first}"] * bool(first)
    endings = Counter(one.ending for one in visits)
    figures = {
        "slowest (s)": max(one.seconds for one in visits),
        "slowest": max(visits, key=lambda one: one.seconds).name,
        "most (MB)": max(one.most_bytes for one in visits) / 1e6,
        "heaviest": max(visits, key=lambda one: one.most_bytes).name,
        "endings": dict(endings),
    }
    limit = f"each within {LIMIT_SECONDS:g} s and 1 GiB"
    return [Result("the zoo", f"{len(visits)} pages", limit, not problems, figures, tuple(problems))]


@dataclass(frozen=True, slots=True)
class _Visited:
    name: str
    ending: str
    seconds: float
    most_bytes: int
    may_be_read: bool
    afterwards: str

    def problems(self) -> list[str]:
        """What is wrong with how it went."""
        found = [f"it took {self.seconds:.1f} s"] * (self.seconds > LIMIT_SECONDS)
        found += [f"it took {self.most_bytes / 1e6:,.0f} MB"] * (self.most_bytes > LIMIT_BYTES)
        found += ["it was taken for a page"] * (self.ending == "a page" and not self.may_be_read)
        found += [self.ending] * self.ending.startswith("no name")
        found += [f"the next page: {self.afterwards}"] * bool(self.afterwards)
        return [f"{self.name}: {problem}" for problem in found]


def _attempt(world: World, context: Context, scales: Scales, animal: Animal, number: int) -> _Visited:
    world.site.pages = {animal.path: animal.answer()}
    scales.take_most()
    base = animal.host or f"animal{number}.org"
    url = f"{base if '//' in base else 'http://' + base}{animal.path if animal.path == '/animal' else '/page'}"
    started = time.monotonic()
    ending = _crawled(context, url, animal.render)
    seconds, most = time.monotonic() - started, scales.take_most()
    world.site.pages = {}  # what it had for a robots.txt was its own
    afterwards = _ordinary(world, context, f"after{number}")
    return _Visited(animal.name, ending, seconds, max(most, scales.take_most()), animal.may_be_read, afterwards)


def _crawled(context: Context, url: str, render: Literal["always", "never"]) -> str:
    try:
        context.crawler.crawl(CrawlDirected(url=url, render=render))
    except SluiceError as error:
        return f"{error.code} {getattr(error, 'rule', '')}".strip()
    except Exception as error:  # a finding: nothing else may come out of a crawl
        return f"no name: {error!r}"
    return "a page"


def _ordinary(world: World, context: Context, name: str) -> str:
    """What is wrong with an ordinary page now; empty where nothing is."""
    world.site.pages["/plain"] = html(f"<title>x</title><p id=a></p><script>a.append('{_WORDS * 9}')</script>")
    started = time.monotonic()
    try:
        page = context.crawler.crawl(CrawlDirected(url=f"http://{name}.org/plain", render="always"))
    except SluiceError as error:
        return f"{error.code}: {error}"
    seconds = time.monotonic() - started
    if _WORDS.encode() * 9 not in page.body:
        return "its text is not there"
    return f"took {seconds:.1f} s" if seconds > LIMIT_SECONDS else ""
