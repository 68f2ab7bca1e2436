"""A web site of given pages on this machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class PageSite:
    """Serves pages at `/NAME.html` on loopback; each answer takes `delay_seconds`."""

    def __init__(self, pages: Mapping[str, str], delay_seconds: float = 0.0) -> None:
        bodies = {f"/{name}.html": page.encode() for name, page in pages.items()}

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = bodies.get(self.path, b"")
                if body:
                    time.sleep(delay_seconds)
                self.send_response(200 if body else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def url(self, name: str) -> str:
        """The address of a page."""
        return f"http://{self.address}/{name}.html"

    def stop(self) -> None:
        """Stop serving."""
        self._server.shutdown()
