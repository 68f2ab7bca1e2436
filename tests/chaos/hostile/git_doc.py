"""A real site from end to end: Debian's git-doc, some two hundred pages, served on loopback.

Everything that its robots.txt allows can be found afterwards, under the headings that it stands under, and nothing that
it disallows. A second crawl asks whether anything has changed; nothing has, so nothing is embedded and it costs little.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bench.crawl.git_doc import PACKAGE, git_doc
from sluice.workers.processes.kernel import all_processes, descendants
from tests.chaos.report import Result
from tests.support.instance import Instance

CLOSED = "howto/"
"""What the site's robots.txt keeps for itself."""
SHORT_PAGES = 24
CRAWL_SECONDS = 1_500.0
IDLE_SECONDS = 5.0
CHEAPER = 20
LEAST_SHARE_WITH_HEADINGS = 0.98
_HEADING = re.compile(r"<h[1-4][^>]*>(.*?)</h[1-4]>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_TICKS = os.sysconf("SC_CLK_TCK")


def real_site(*, short: bool) -> list[Result]:
    """The two crawls."""
    folder = git_doc()
    if folder is None:
        return [Result("a real site", f"skipped: {PACKAGE} is not to be had here", "", True)]
    pages = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.html"))[: SHORT_PAGES if short else None]
    if short:
        pages += [f"{CLOSED}keep-canonical-history-correct.html"]
    with tempfile.TemporaryDirectory(prefix="git-doc-") as home, _served(folder, pages) as (base, asked):
        address = base.split("/")[2]
        settings = {
            "CRAWL__ENABLED": "true",
            "CRAWL__REQUESTS_PER_SECOND_PER_HOST": "100",
            "CRAWL__MAX_PAGES": "500",
            "CRAWL__MAX_DEPTH": "2",
            "EGRESS__ALLOW": f'["crawl={address}"]',
        }
        with Instance(Path(home) / "instance", **settings) as instance:
            first = _crawl(instance, base, asked)
            found = _look_up(instance, folder, base, pages)
            second = _crawl(instance, base, asked)
    return [_judge_first(first, found, pages), _judge_second(first, second)]


@dataclass(frozen=True, slots=True)
class _Crawl:
    """What one crawl took, of all processes of the instance, and what it asked of the site."""

    cpu_seconds: float
    seconds: float
    embedded_tokens: float
    looked_up: float
    """Texts asked of the embedding cache."""
    unchanged: int
    gaps: int
    requests: int
    closed_requests: int


@dataclass(frozen=True, slots=True)
class _Found:
    missing: tuple[str, ...]
    without_headings: tuple[str, ...]
    with_headings: int
    closed: tuple[str, ...]


def _crawl(instance: Instance, base: str, asked: list[str]) -> _Crawl:
    asked.clear()
    idle = _cpu_of_idling(instance)
    cpu, started, before = _cpu_seconds(instance), time.monotonic(), _embedding(instance)
    body = {"documents": [{"url": base}], "limits": {"max_pages": 500, "max_depth": 2}}
    accepted = instance.http.post("/v1/documents", json=body)
    assert accepted.status_code in {200, 202}, accepted.text
    run = instance.wait(accepted.json()["run_id"], CRAWL_SECONDS)
    seconds = time.monotonic() - started
    spent, after = _cpu_seconds(instance) - cpu - idle * seconds, _embedding(instance)
    kinds = [str(event.get("kind", event.get("event", ""))) for event in instance.events(run["run_id"])]
    closed = sum(path.startswith(f"/{CLOSED}") for path in asked)
    return _Crawl(
        cpu_seconds=spent,
        seconds=seconds,
        embedded_tokens=after[0] - before[0],
        looked_up=after[1] - before[1],
        unchanged=sum(kind.startswith("PageUnchanged") for kind in kinds),
        gaps=len(run["missing"]),
        requests=len(asked),
        closed_requests=closed,
    )


def _look_up(instance: Instance, folder: Path, base: str, pages: list[str]) -> _Found:
    """Ask for each page by its own address, among its own chunks."""
    headings_of = {page: _headings(folder / page) for page in pages}
    same: dict[str, list[str]] = {}
    for page in pages:  # some files stand under two names, of which one is enough
        same.setdefault(hashlib.sha256((folder / page).read_bytes()).hexdigest(), []).append(page)
    open_pages = [names for names in same.values() if not names[0].startswith(CLOSED)]
    missing, without, having = [], [], 0
    for names in open_pages:
        chunks = [chunk for name in names for chunk in _chunks(instance, f"{base}{name}", headings_of[names[0]][:1])]
        paths = {heading for chunk in chunks for heading in chunk["section_path"]}
        if not chunks:
            missing.append(names[0])
        elif len(headings_of[names[0]]) > 1:
            having += 1
            if not paths & set(headings_of[names[0]]):
                without.append(names[0])
    closed = [page for page in pages if page.startswith(CLOSED) and _chunks(instance, f"{base}{page}", ["git"])]
    return _Found(tuple(missing), tuple(without), having, tuple(closed))


def _chunks(instance: Instance, url: str, words: list[str]) -> list[dict[str, Any]]:
    query = " ".join(words) or "git"
    body = {"query": query[:200], "top_k": 20, "filters": {"url_prefix": url}}
    answered = instance.http.post("/v1/query", json=body)
    assert answered.status_code == 200, answered.text
    chunks: list[dict[str, Any]] = answered.json()["chunks"]
    return chunks


def _judge_first(crawl: _Crawl, found: _Found, pages: list[str]) -> Result:
    problems = [f"cannot be found: {page}" for page in found.missing]
    problems += [f"found although robots.txt says no: {page}" for page in found.closed]
    problems += ["a closed page was asked for"] * bool(crawl.closed_requests)
    share = 1 - len(found.without_headings) / max(1, found.with_headings)
    if share < LEAST_SHARE_WITH_HEADINGS:
        problems += [f"no heading as section path: {page}" for page in found.without_headings]
    figures = {
        "requests": crawl.requests,
        "with headings": f"{share:.1%} of {found.with_headings}",
        "CPU (s)": crawl.cpu_seconds,
        "seconds": crawl.seconds,
        "tokens embedded": crawl.embedded_tokens,
        "gaps": crawl.gaps,
    }
    return Result("a real site", f"{len(pages)} pages", "each open page found", not problems, figures, tuple(problems))


def _judge_second(first: _Crawl, second: _Crawl) -> Result:
    share = second.cpu_seconds / max(first.cpu_seconds, 1e-9)
    problems = [f"{second.embedded_tokens:g} tokens were embedded"] * bool(second.embedded_tokens)
    problems += ["no page was known to be unchanged"] * (not second.unchanged)
    problems += [f"it costs {share:.3f} of the first"] * (share > 1 / CHEAPER)
    figures = {
        "CPU (s)": second.cpu_seconds,
        "of the first": f"1/{1 / max(share, 1e-9):.1f}",
        "seconds": second.seconds,
        "tokens embedded": second.embedded_tokens,
        "texts looked up": second.looked_up,
        "unchanged": second.unchanged,
        "requests": second.requests,
    }
    limit = f"no embedding, 1/{CHEAPER} of the CPU"
    return Result("a real site, again", "the same crawl", limit, not problems, figures, tuple(problems))


def _headings(path: Path) -> list[str]:
    """The texts of the page's headings."""
    found = _HEADING.findall(path.read_text(errors="replace"))
    return [" ".join(unescape(_TAG.sub("", one)).split()) for one in found]


def _embedding(instance: Instance) -> tuple[float, float]:
    """Tokens embedded and texts looked up so far, by the instance's own metrics."""
    text = instance.http.get("/metrics").text
    return _sum(text, 'sluice_token_spend_total{spent_on="embedding"}'), _sum(text, "sluice_embedding_cache_total")


def _sum(metrics: str, name: str) -> float:
    return sum(float(line.rpartition(" ")[2]) for line in metrics.splitlines() if line.startswith(name))


def _cpu_of_idling(instance: Instance) -> float:
    """What the instance takes per second when it has nothing to do."""
    before = _cpu_seconds(instance)
    time.sleep(IDLE_SECONDS)
    return (_cpu_seconds(instance) - before) / IDLE_SECONDS


def _cpu_seconds(instance: Instance) -> float:
    """Of all its processes, those that have ended and were waited for among them (proc(5), stat 14 to 17)."""
    supervisor = instance.processes["up"] if "up" in instance.processes else _parent(instance)
    pids = [supervisor, *(one.pid for one in descendants(supervisor, all_processes()))]
    return sum(map(_ticks, pids)) / _TICKS


def _parent(instance: Instance) -> int:
    """The supervisor: the parent of any of its processes."""
    pid = next(iter(instance.processes.values()))
    return next(one.parent for one in all_processes() if one.pid == pid)


def _ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(map(int, fields[11:15]))


@contextmanager
def _served(folder: Path, pages: list[str]) -> Iterator[tuple[str, list[str]]]:
    """The site at its base address, and the list of what is asked of it, which grows."""
    asked: list[str] = []
    handler = functools.partial(_Handler, directory=str(folder), pages=frozenset(pages), asked=asked)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", asked
        server.shutdown()


class _Handler(SimpleHTTPRequestHandler):
    """Files as they are, with their time of change; a front page that names them all, robots.txt, a sitemap."""

    protocol_version = "HTTP/1.1"

    def __init__(self, *arguments: Any, pages: frozenset[str], asked: list[str], **options: Any) -> None:
        self._pages = pages
        self._asked = asked
        super().__init__(*arguments, **options)

    def do_GET(self) -> None:
        self._asked.append(self.path)
        made = {"/": self._front, "/robots.txt": self._robots, "/sitemap.xml": self._sitemap}.get(self.path)
        if made is not None:
            self._send(*made())
        elif self.path[1:] in self._pages:
            super().do_GET()  # with Last-Modified, and 304 where that is what it was
        else:
            self._send("text/plain", b"no such page", 404)

    def _front(self) -> tuple[str, bytes]:
        links = "".join(f'<li><a href="/{page}">{page}</a></li>' for page in sorted(self._pages))
        return "text/html; charset=utf-8", f"<title>Git</title><h1>Pages</h1><ul>{links}</ul>".encode()

    def _robots(self) -> tuple[str, bytes]:
        base = f"http://{self.headers['Host']}"
        return "text/plain", f"User-agent: *\nDisallow: /{CLOSED}\nSitemap: {base}/sitemap.xml\n".encode()

    def _sitemap(self) -> tuple[str, bytes]:
        base = f"http://{self.headers['Host']}"
        urls = "".join(f"<url><loc>{base}/{page}</loc></url>" for page in sorted(self._pages))
        space = "http://www.sitemaps.org/schemas/sitemap/0.9"
        return "application/xml", f'<urlset xmlns="{space}">{urls}</urlset>'.encode()

    def _send(self, media_type: str, body: bytes, status: int = 200) -> None:
        etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        if self.headers.get("If-None-Match") == etag:
            status, body = 304, b""
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("ETag", etag)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""
