"""A small real web on loopback: Python's documentation as pages, and a search engine that speaks SearXNG's JSON.

    python -m bench.demo.web --port 0 --port-file web.port

`/` and `/{module}.html` are pages that link to one another, `/topic?key=…` pages that robots.txt keeps
crawlers from, `/search?q=…&format=json` the search engine. `DemoWeb` runs it as a process of its own,
because documenting every standard module means importing every standard module.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from bench.demo.finder import Finder, Hit
from bench.demo.library import entries, index_html, page_html, topic_html
from tests.support.repository import REPOSITORY

ROBOTS = "User-agent: *\nAllow: /\nDisallow: /topic\nDisallow: /search\n"
RESULTS_PER_PAGE = 10
STOP_SECONDS = 5.0

page_html = lru_cache(maxsize=512)(page_html)


class DemoWeb:
    """The web as a child process: `start`, then `url` and `search_url`, then `stop`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self.url = ""
        """Where the index page is, for instance `http://127.0.0.1:40123/`."""

    @property
    def search_url(self) -> str:
        """The base address of the SearXNG interface: `/search` is below it."""
        return self.url.rstrip("/")

    @property
    def host_and_port(self) -> str:
        """As an egress allowlist wants it."""
        return urlsplit(self.url).netloc

    def start(self) -> DemoWeb:
        """Return once it answers.

        Raises:
            RuntimeError: it ended before it did.
        """
        command = [sys.executable, "-m", "bench.demo.web", "--port", "0"]
        self._process = subprocess.Popen(
            command, cwd=REPOSITORY, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        if not self.url:
            self.stop()
            raise RuntimeError("the demo's web did not start; its error stands above")
        return self

    def stop(self) -> None:
        """End the process; may be called again."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        self._process = None

    def __enter__(self) -> DemoWeb:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class _Handler(BaseHTTPRequestHandler):
    """Answers one request. The class made by `_server` carries the search engine."""

    protocol_version = "HTTP/1.1"
    finder: Finder

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        fields = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path == "/search":
            self._search(fields)
        elif parts.path == "/robots.txt":
            self._send(200, "text/plain; charset=utf-8", ROBOTS)
        else:
            html = _page(parts.path, fields)
            self._send(200 if html else 404, "text/html; charset=utf-8", html or "<p>There is no such page.</p>")

    do_HEAD = do_GET  # noqa: N815 (the base class's name)

    def _search(self, fields: dict[str, str]) -> None:
        query = fields.get("q", "").strip()
        if fields.get("format") != "json":
            self._send(403, "text/plain", "only format=json is offered")
        elif not query:
            self._send(400, "text/plain", "q is missing")
        else:
            page = max(1, int(fields["pageno"])) if fields.get("pageno", "").isdigit() else 1
            hits = self.finder.find(query, RESULTS_PER_PAGE, (page - 1) * RESULTS_PER_PAGE)
            self._send(200, "application/json", json.dumps(searxng_answer(query, hits, self._origin(), page)))

    def _origin(self) -> str:
        return f"http://{self.headers.get('Host', 'localhost')}"

    def _send(self, status: int, media_type: str, body: str) -> None:
        content = body.encode()
        etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
        if status == 200 and self.headers.get("If-None-Match") == etag:
            status, content = 304, b""
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", etag)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the demonstration has its own account of what is fetched."""


def _page(path: str, fields: dict[str, str]) -> str | None:
    if path in {"/", "/index.html"}:
        return index_html()
    if path == "/topic":
        return topic_html(fields.get("key", ""))
    return page_html(path[1:].removesuffix(".html")) if path.endswith(".html") else None


def searxng_answer(query: str, hits: list[Hit], origin: str, page: int) -> dict[str, Any]:
    """The hits as SearXNG's `format=json` has them."""
    results = [
        {
            "url": f"{origin}/{hit.module}.html",
            "title": f"{hit.module}: Python module documentation",
            "content": hit.snippet,
            "publishedDate": None,
            "engine": "pydoc",
            "engines": ["pydoc"],
            "positions": [position],
            "score": round(hit.score, 4),
            "category": "general",
            "template": "default.html",
            "parsed_url": ["http", origin.removeprefix("http://"), f"/{hit.module}.html", "", "", ""],
        }
        for position, hit in enumerate(hits, (page - 1) * RESULTS_PER_PAGE + 1)
    ]
    return {
        "query": query,
        "number_of_results": len(results),
        "results": results,
        "answers": [],
        "corrections": [],
        "infoboxes": [],
        "suggestions": [],
        "unresponsive_engines": [],
    }


def serve(port: int, announce: Callable[[str], None]) -> None:
    """Serve on loopback until interrupted; `announce` gets the address once the search index is built."""
    handler = type("DemoHandler", (_Handler,), {"finder": Finder(entries())})
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        announce(f"http://127.0.0.1:{server.server_port}/")
        server.serve_forever()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--port-file", type=Path, help="a file that gets the port once pages are served")
    chosen = parser.parse_args()

    def announce(url: str) -> None:
        if chosen.port_file:
            chosen.port_file.write_text(str(urlsplit(url).port))
        print(url, flush=True)

    try:
        serve(chosen.port, announce)
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
