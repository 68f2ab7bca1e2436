"""A site of our own on loopback: it answers as a test tells it to, and remembers what it was asked."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Reply:
    """What a site answers."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """What a site was asked. `path` includes the query; header names are lower-case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Answer = Reply | Callable[[BaseHTTPRequestHandler], None]


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class Site:
    """An HTTP server on loopback. Set `pages[path]`; a path without a page answers 404."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.pages: dict[str, Answer] = {}
        self.asked: list[Asked] = []
        self._server = Server(("127.0.0.1", 0), _handler_for(self))
        self._scheme = "http"
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
            self._scheme = "https"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    @property
    def address(self) -> str:
        """As an entry of `egress.allow`."""
        return f"127.0.0.1:{self.port}"

    def url(self, path: str = "/") -> str:
        return f"{self._scheme}://{self.address}{path}"

    def put(self, path: str, body: bytes | str = b"", status: int = 200, **headers: str) -> None:
        """Answer `path` so. `Content_Type="…"` is a header."""
        content = body.encode() if isinstance(body, str) else body
        self.pages[path] = Reply(content, status, {name.replace("_", "-"): value for name, value in headers.items()})

    def html(self, path: str, body: str, **headers: str) -> None:
        """Put an HTML page at `path`."""
        self.put(path, body, **{"Content_Type": "text/html; charset=utf-8", **headers})

    def call(self, path: str, answer: Callable[[BaseHTTPRequestHandler], None]) -> None:
        """Let `answer` write whatever it likes to whoever asks for `path`."""
        self.pages[path] = answer

    def paths(self) -> list[str]:
        return [asked.path for asked in self.asked]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler_for(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            site.asked.append(Asked(self.command, self.path, headers, body))
            answer = site.pages.get(self.path) or site.pages.get(self.path.split("?")[0]) or Reply(status=404)
            if callable(answer):
                answer(self)
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.status not in {204, 304}:
                self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *context: object) -> None:
            return

        def handle(self) -> None:
            try:
                super().handle()
            except (ConnectionError, ssl.SSLError):
                self.close_connection = True  # the client left; tests make it do so

    return Handler
