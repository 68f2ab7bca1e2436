"""A small web on loopback: every path is a page of its own words, and `/search` finds pages, as SearXNG's JSON does."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


class _Pages(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/robots.txt":
            return self._send(404, "text/plain", "no rules")
        if url.path == "/search":
            return self._send(200, "application/json", self._found(parse_qs(url.query).get("q", [""])[0]))
        name = url.path.strip("/")
        words = " ".join(f"pebble {name} stone {number}" for number in range(12))
        return self._send(200, "text/html; charset=utf-8", f"<title>{name}</title><h1>{name}</h1><p>{words}</p>")

    def _found(self, question: str) -> str:
        word = question.split()[-1] if question.split() else "nothing"
        url = f"http://{self.headers['Host']}/found-{word}"
        return json.dumps({"results": [{"url": url, "title": f"found {word}", "content": f"about {word}"}]})

    def _send(self, status: int, media_type: str, body: str) -> None:
        raw = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: Any) -> None:
        return


class Site:
    """The web, served by threads of this process."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Pages)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="site", daemon=True).start()

    @property
    def address(self) -> str:
        """`host:port`, as an egress allowlist wants it."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    def settings(self) -> dict[str, str]:
        """The settings that open the way to this site alone."""
        return {
            "SEARCH__ENABLED": "true",
            "SEARCH__PROVIDERS": '["searxng"]',
            "SEARCH__SEARXNG_URL": f"http://{self.address}",
            "SEARCH__QUOTA_PER_DAY": "1000000",
            "CRAWL__ENABLED": "true",
            "CRAWL__MAX_PAGES": "4",
            "CRAWL__MAX_DEPTH": "0",
            "CRAWL__REQUESTS_PER_SECOND_PER_HOST": "500",
            "BUDGET__DAY_PAGES": "1000000",
            "EGRESS__ALLOW": f'["search={self.address}", "crawl={self.address}"]',
        }

    def stop(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()
