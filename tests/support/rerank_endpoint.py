"""A reranking endpoint on loopback that answers what a test tells it to."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-secret-0123456789"


class Endpoint:
    """A server on loopback that answers every request with `body`, after `delay_seconds`."""

    def __init__(self) -> None:
        self.status, self.body, self.delay_seconds = 200, b"{}", 0.0
        self.closing = threading.Event()
        self.requests: list[dict[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/v1"

    def says(self, body: object, status: int = 200, delay_seconds: float = 0.0) -> None:
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.status, self.delay_seconds = status, delay_seconds

    def close(self) -> None:
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                sent = json.loads(self.rfile.read(int(self.headers["content-length"])))
                endpoint.requests.append(sent | {"path": self.path})
                endpoint.headers.append({name.lower(): value for name, value in self.headers.items()})
                endpoint.closing.wait(endpoint.delay_seconds)
                try:
                    self.send_response(endpoint.status)
                    self.send_header("content-length", str(len(endpoint.body)))
                    self.end_headers()
                    self.wfile.write(endpoint.body)
                except ConnectionError:
                    self.close_connection = True  # the client has given up, as the test wants it to

            def log_message(self, *_: object) -> None:
                pass

        return Handler
