"""An `/embeddings` endpoint on loopback that can be killed and come back at the same address."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

DIMENSION = 32


class OpenAIEndpoint:
    """Gives each text the sum of its words' vectors, which follow from the words; so equal texts are nearest."""

    def __init__(self) -> None:
        self.asked = 0
        self.port = 0
        self._server: ThreadingHTTPServer | None = None
        self.starts()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def settings(self) -> dict[str, Any]:
        """The section `embed` of an instance that asks it."""
        return {
            "provider": "openai",
            "openai_base_url": self.base_url,
            "openai_model": "words",
            "openai_dimension": DIMENSION,
        }

    def starts(self) -> None:
        """Listen, at the same port as before."""
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), self._handler())
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def dies(self) -> None:
        """Answer nobody any more."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                endpoint.asked += 1
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                rows = [{"index": number, "embedding": _encoded(text)} for number, text in enumerate(request["input"])]
                body = json.dumps({"object": "list", "model": "words", "data": rows}).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                return

        return Handler


def _encoded(text: str) -> str:
    vectors = [np.frombuffer(hashlib.sha256(word.encode()).digest(), dtype=np.uint8) for word in text.lower().split()]
    total = np.sum([vector.astype(np.float32) - 127.5 for vector in vectors], axis=0)
    return base64.b64encode(total.astype("<f4").tobytes()).decode()
