"""A site and a search engine on loopback that fail, and that kill who asks them, when a test says so."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


class World:
    """A site and a search engine on loopback, and what is wrong with them."""

    def __init__(self) -> None:
        self.is_search_broken = False
        self.deadly_to: Callable[[], None] | None = None
        """Done by the page `/deadly` to whoever asks for it."""
        world = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = urlsplit(self.path).path
                if path == "/search":
                    body = json.dumps({"results": [], "unresponsive_engines": []})
                    return self._send(500 if world.is_search_broken else 200, "application/json", body)
                if path == "/robots.txt":
                    return self._send(404, "text/plain", "no rules")
                if path == "/deadly" and world.deadly_to:
                    world.deadly_to()
                    time.sleep(2.0)
                if path.startswith("/slow"):
                    time.sleep(3.0)
                words = " ".join(f"pebble{path[1:]} stone{number}" for number in range(60))
                return self._send(200, "text/html", f"<title>Page {path}</title><h1>Page {path}</h1><p>{words}</p>")

            def _send(self, status: int, media_type: str, body: str) -> None:
                self.send_response(status)
                self.send_header("Content-Type", media_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except ConnectionError:  # whoever asked was killed
                    self.close_connection = True

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.place = f"127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def ends(self) -> None:
        self._server.shutdown()
        self._server.server_close()
