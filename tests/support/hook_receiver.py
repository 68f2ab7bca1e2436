"""A receiver of webhooks on loopback, which can be slow, refuse, or be away."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answers = Callable[["Received"], tuple[int, dict[str, str], bytes]]


@dataclass(frozen=True)
class Received:
    """One request."""

    path: str
    headers: dict[str, str]
    body: str
    at: float = field(default_factory=time.time)

    @property
    def id(self) -> str:
        """The id of the message."""
        return self.headers["webhook-id"]


@dataclass
class Receiver:
    """What came, in order, and how the next is answered."""

    port: int = 0
    received: list[Received] = field(default_factory=list)
    taken: list[Received] = field(default_factory=list)
    """Those that were answered with 2xx."""
    answer: Answers = field(default=lambda _: (204, {}, b""))
    is_away: bool = False
    """Whether connections are cut without an answer."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def allowed(self) -> str:
        """Its entry of `egress.allow`."""
        return f"webhook=127.0.0.1:{self.port}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


@contextmanager
def receiving(port: int = 0, receiver: Receiver | None = None) -> Iterator[Receiver]:
    """Serve until the end of the block; with `receiver` go on with that one."""
    kept = receiver or Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            if kept.is_away:
                self.close_connection = True
                return
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            request = Received(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            with kept.lock:
                kept.received.append(request)
            status, headers, content = kept.answer(request)
            if status < 300:
                with kept.lock:
                    kept.taken.append(request)
            self.send_response(status)
            for name, value in {"content-length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            with suppress(OSError):  # the sender may have given up
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = _Server(("127.0.0.1", port or kept.port), Handler)
    kept.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield kept
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
